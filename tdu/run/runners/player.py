"""An agent for a loop in Python over B ≥ 1 environments: an object that selects actions and takes updates.

Where the head that acts is frozen for the episode, no action depends on what is learned meanwhile. Steps are then gathered
and learned in order in a single call, so that many steps share the cost of a call. An agent that acts with the values that it
is learning needs a call per round of steps, which also picks the next actions.
"""

from functools import lru_cache
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from tdu import random
from tdu.metrics import Metrics, on_host
from tdu.run.runners import interaction
from tdu.run.runners.interaction import Player
from tdu.run.runners.protocol import Trace
from tdu.run.runners.rows import Row, learner_row
from tdu.types import Agent, Array, EitherArray, Key, Params, State, TimeStep

_GATHERED = 32  # most steps that are learned in one call
_LOG_PERIOD = 1000  # environment steps between two rows of learner.csv


Tree = TypeVar("Tree")


class StepwiseCarry(NamedTuple):
    """The whole state of a run on the device, between two calls."""

    learner: State
    acting: State
    """The actor's state for each row, [B, …]."""
    episode: Metrics
    """Totals over the episode under way in each row, [B]."""
    learned: Metrics
    """Totals since the last row of learner.csv."""


class Round(NamedTuple):
    """One step of every environment, [B, …] each."""

    observation: EitherArray
    action: EitherArray
    after: TimeStep
    taken: EitherArray
    """Whether the row's action was taken."""


def _leaves(rounds: Round) -> tuple[np.ndarray, ...]:
    """Its arrays. `jax.tree.leaves` would take longer than all that is done with them."""
    return (rounds.observation, rounds.action, *rounds.after, rounds.taken)


Numbered = tuple[Key, EitherArray]
"""A key, and the number under it of the first of B draws."""


class EpisodeNote(NamedTuple):
    """What the log needs of each row's episode, under way or just ended, [B] each."""

    head: Array
    metrics: Metrics
    """A summary over its learning steps."""


def _row(tree: Tree, i: EitherArray | tuple[EitherArray, EitherArray]) -> Tree:
    row: Tree = jax.tree.map(lambda x: x[i], tree)
    return row


class _Programs:
    """The compiled functions for an agent over B environments, shared by its runs."""

    def __init__(self, agent: Agent, size: int, skips: bool):
        reducers = agent.reducers

        def start(key: Key) -> StepwiseCarry:
            key_init, key_begin, _ = interaction.first_keys(key)
            learner = agent.init(key_init)
            params = agent.params(learner)
            if size == 1:
                acting = jax.tree.map(lambda x: x[None], agent.actor.begin(params, key_begin))
            else:
                acting = jax.vmap(agent.actor.begin, in_axes=(None, 0))(params, jax.random.split(key_begin, size))
            return StepwiseCarry(learner, acting, reducers.zeros((size,)), reducers.zeros())

        def act(params: Params, acting: State, now: TimeStep, key: Key, slot: Array) -> tuple[Array, State | None]:
            """Actions [B] with the draws slot … slot + B − 1, and the actors' states if they remember anything."""
            if size == 1:  # exactly the computation of the compiled loop
                keys = interaction.keys_at(key, slot)
                action, state = agent.actor.act(params, _row(acting, 0), _row(now, 0), keys.act)
                actions, after = action[None], jax.tree.map(lambda x: x[None], state)
            else:
                keys = jax.vmap(interaction.keys_at, in_axes=(None, 0))(key, slot + jnp.arange(size))
                actions, after = jax.vmap(agent.actor.act, in_axes=(None, 0, 0, 0))(params, acting, now, keys.act)
            if not agent.actor.remembers:
                return actions, None
            if skips:  # a row that waits for its next episode has nothing to act on
                waits = lambda new, old: jnp.where(now.last.reshape(-1, *[1] * (new.ndim - 1)), old, new)  # noqa: E731
                after = jax.tree.map(waits, after, acting)
            return actions, after

        def learn_one(n: Array, carry: StepwiseCarry, rounds: Round, key: Key, slot: Array) -> StepwiseCarry:
            """Learns from row n mod B of round n div B."""
            row = n % size
            it: Round = _row(rounds, (n // size, row))
            keys = interaction.keys_at(key, slot + n)
            player = Player(carry.learner, _row(carry.acting, row))
            learner, metrics = interaction.learn(agent, player, it.observation, it.action, it.after, keys, row)

            def begun() -> State:
                new = interaction.begin(agent, learner, keys)
                return jax.tree.map(lambda rows, x: rows.at[row].set(x), carry.acting, new)

            acting = jax.lax.cond(it.after.last, begun, lambda: carry.acting)
            totals = reducers.add(_row(carry.episode, row), metrics)
            episode = {name: rows.at[row].set(totals[name]) for name, rows in carry.episode.items()}
            return StepwiseCarry(learner, acting, episode, reducers.add(carry.learned, metrics))

        def learn(
            carry: StepwiseCarry, key: Key, slot: Array, rounds: Round, count: Array
        ) -> tuple[StepwiseCarry, EpisodeNote]:
            """Learns from `count` rounds in order. Only the last may have ended an episode."""

            def one(n: Array, carry: StepwiseCarry) -> StepwiseCarry:
                if not skips:
                    return learn_one(n, carry, rounds, key, slot)
                taken = rounds.taken[n // size, n % size]
                return jax.lax.cond(taken, lambda: learn_one(n, carry, rounds, key, slot), lambda: carry)

            heads = jax.vmap(agent.head)(carry.acting)
            carry = jax.lax.fori_loop(0, count * size, one, carry)
            note = EpisodeNote(heads, reducers.summary(carry.episode))
            ended = rounds.after.last[count - 1] & rounds.taken[count - 1]
            totals = jax.tree.map(lambda x: jnp.where(ended, jnp.zeros_like(x), x), carry.episode)
            return carry._replace(episode=totals), note

        def learn_and_act(
            carry: StepwiseCarry, at: Numbered, rounds: Round, count: Array, following: Numbered, now: TimeStep
        ) -> tuple[StepwiseCarry, EpisodeNote, tuple[Array, State | None]]:
            """Learns, and picks the next actions with what was learned."""
            carry, note = learn(carry, *at, rounds, count)
            return carry, note, act(agent.params(carry.learner), carry.acting, now, *following)

        def begin_again(carry: StepwiseCarry, key: Key) -> StepwiseCarry:
            """New episodes in every row."""
            params = agent.params(carry.learner)
            acting = jax.vmap(agent.actor.begin, in_axes=(None, 0))(params, jax.random.split(key, size))
            learner = agent.cut(carry.learner) if agent.cut else carry.learner
            return carry._replace(learner=learner, acting=acting, episode=reducers.zeros((size,)))

        self.start, self.act = jax.jit(start), jax.jit(act)
        self.learn = jax.jit(learn, donate_argnums=0)
        self.learn_and_act = jax.jit(learn_and_act, donate_argnums=0)
        self.begin_again = jax.jit(begin_again)
        self.rebase = jax.jit(lambda carry: carry._replace(learner=agent.rebase(carry.learner)))


_programs = lru_cache(maxsize=8)(_Programs)


class StepwisePlayer:
    """An agent for a loop in Python over B environments."""

    def __init__(self, agent: Agent, seed: int, *, size: int = 1, skips: bool = False):
        self._agent, self._size = agent, size
        # A memory belongs to one step: steps of an actor that remembers are not gathered.
        self._room = 1 if agent.live or agent.actor.remembers else max(_GATHERED // size, 1)
        self._key = interaction.run_key(seed)
        self._programs = _programs(agent, size, skips)
        self.rounds = self.steps = self._learned_rounds = 0
        self.learner_rows: list[Row] = []
        self.note: EpisodeNote | None = None  # of the episodes under way or just ended, at the last learning call
        self.traces: list[Trace] | None = None  # visited states, if they are wanted
        self._log_period = max(_LOG_PERIOD // size, 1)  # rounds
        self._gathered: Round | None = None
        self._chosen: tuple[np.ndarray, tuple[Array, State | None]] | None = None
        self.begin()

    def begin(self) -> None:
        """The state of a new run. The present one is released first: a replay may fill half of the memory."""
        self.carry = StepwiseCarry((), (), {}, {})
        self.restore(self._programs.start(self._key), rounds=0, steps=0)

    def select(self, now: TimeStep) -> np.ndarray:
        """Actions [B] on time steps [B]."""
        if self._chosen is not None and np.array_equal(self._chosen[0], now.observation):
            actions, acting = self._chosen[1]
        else:
            params = self._agent.params(self.carry.learner) if self._agent.live else ()
            actions, acting = self._programs.act(params, self.carry.acting, now, *self._numbered(self.rounds))
        if acting is not None:
            self.carry = self.carry._replace(acting=acting)
        return np.asarray(actions)

    def update(self, step: Round, now: TimeStep) -> None:
        """Takes one step of every environment, to learn from now or together with the next ones."""
        if self._gathered is None:
            empty = [np.zeros((self._room, *x.shape), x.dtype) for x in _leaves(step)]
            self._gathered = Round(empty[0], empty[1], TimeStep(*empty[2:-1]), empty[-1])
        at = self.rounds - self._learned_rounds
        for rows, x in zip(_leaves(self._gathered), _leaves(step), strict=True):
            rows[at] = x
        self.rounds += 1
        self.steps += int(np.count_nonzero(step.taken))
        ended = bool(np.any(step.after.last & step.taken))
        ages = interaction.FOLDED_STEPS // self._size
        logs = self.rounds % self._log_period == 0
        if ended or at + 1 == self._room or self.rounds % ages == 0 or logs:
            self.learn_gathered(now)
        if logs:
            self.log_learning()

    def log_learning(self) -> None:
        """Adds a row of learner.csv for what was learned since the last one."""
        self.learn_gathered()
        reducers = self._agent.reducers
        self.learner_rows += learner_row(self.steps, reducers, on_host(self.carry.learned))
        self.carry = self.carry._replace(learned=jax.tree.map(jnp.asarray, reducers.zeros()))

    def learn_gathered(self, now: TimeStep | None = None) -> None:
        """Learns from the gathered steps; given `now`, a live agent picks its next actions in the same call."""
        count = self.rounds - self._learned_rounds
        if not count:
            return
        at = self._numbered(self._learned_rounds)
        self._chosen = None
        if self._agent.live and now is not None:
            following = self._numbered(self.rounds)
            carry, self.note, chosen = self._programs.learn_and_act(
                self.carry, at, self._gathered, np.int32(count), following, now
            )
            self._chosen = (now.observation, chosen)
        else:
            carry, self.note = self._programs.learn(self.carry, *at, self._gathered, np.int32(count))
        if self.traces is not None:
            gathered, heads = self._gathered, np.asarray(self.note.head)
            assert gathered is not None
            self.traces += [
                Trace(gathered.observation[:count, row][taken], np.full(np.count_nonzero(taken), heads[row]))
                for row, taken in enumerate(gathered.taken[:count].T)
            ]
        period = interaction.REBASE_PERIOD // self._size
        rebase = self._learned_rounds // period != self.rounds // period
        self.carry = self._programs.rebase(carry) if rebase else carry
        self._learned_rounds = self.rounds
        self._gathered = None  # arrays that were given to a call are not written to again

    def begin_again(self) -> None:
        """New episodes in every row, for environments that could not be restored."""
        key = random.for_use(self._key, random.Use.BEGUN_AGAIN)
        self.carry = self._programs.begin_again(self.carry, jax.random.fold_in(key, self.rounds % 2**31))

    def restore(self, carry: StepwiseCarry, *, rounds: int, steps: int) -> None:
        self.carry = jax.tree.map(jnp.asarray, carry)
        self.rounds = self._learned_rounds = rounds
        self.steps = steps
        self.learner_rows = []
        self._gathered = self._chosen = None

    def _numbered(self, rounds: int) -> Numbered:
        return interaction.key_and_number(self._key, rounds, self._size)
