"""Runs on Python environments, which no compiled loop can hold: B ≥ 1 of them, stepped together.

`StepwisePlayer` is the agent as such a loop wants it, an object that selects actions and takes updates. `StepwiseRunner`
drives it and keeps the log.

Where the head that acts is frozen for the episode, no action waits for what is learned meanwhile: steps are gathered, and
learned one after the other in a single call, so that a call's cost is shared by many. An agent that acts as it learns
has a call per round of steps, which also picks the next actions.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tdu import random
from tdu.environments.vector import Ended, VectorEnvironment
from tdu.errors import UserError
from tdu.run.runners import interaction, mastery
from tdu.run.runners.interaction import Learned, Player
from tdu.run.runners.protocol import Budget, Clock, Saved, Trace
from tdu.run.runners.rows import Progress, Row, learner_row, possible_return
from tdu.types import Agent, Array, EitherArray, EnvSpec, Key, Params, State, TimeStep

_GATHERED = 32
"""So many steps at most are learned in one call."""


_PIECE = 1000
"""So many steps at most between two looks at what else there is to do, and between two rows of the learner's own log."""

_LONGEST_PIECE = 5.0
"""So many seconds at most, for environments that are slow."""


class StepwiseCarry(NamedTuple):
    """Everything a run is on the device, between two calls."""

    learner: State
    acting: State
    """The actor's state for each row, [B, …]."""
    learned: Learned
    """Over the episode under way, of each row, [B]."""
    learned_lately: Learned
    """Over the steps since the learner last told of itself."""


class Round(NamedTuple):
    """One step of every environment, [B, …] each."""

    observation: EitherArray
    action: EitherArray
    after: TimeStep
    taken: EitherArray
    """Whether the row's action counted."""


def _leaves(rounds: Round) -> tuple[np.ndarray, ...]:
    """Its arrays; JAX's way of finding them takes longer than all that is done with them at a step."""
    return (rounds.observation, rounds.action, *rounds.after, rounds.taken)


class Numbered(NamedTuple):
    """Where draws come from: a key, and the number of the first of B draws under it."""

    key: Key
    slot: EitherArray


class EpisodeNote(NamedTuple):
    """What the log says of each row's episode under way or just over, [B, …]."""

    head: Array
    learned: Array
    """`Learned.told` of each, [B, 4]."""


def _row(tree: Any, i: EitherArray) -> Any:
    return jax.tree.map(lambda x: x[i], tree)


class _Programs:
    """What is compiled for an agent over B environments. Runs of the same agent share it."""

    def __init__(self, agent: Agent, size: int, skips: bool):
        def start(key: Key) -> StepwiseCarry:
            key_init, key_begin, _ = interaction.first_keys(key)
            learner = agent.init(key_init)
            params = agent.params(learner)
            if size == 1:
                acting = jax.tree.map(lambda x: x[None], agent.actor.begin(params, key_begin))
            else:
                acting = jax.vmap(agent.actor.begin, in_axes=(None, 0))(params, jax.random.split(key_begin, size))
            each = jax.tree.map(lambda x: jnp.zeros((size,)), Learned.nothing())
            return StepwiseCarry(learner, acting, each, Learned.nothing())

        def act(params: Params, acting: State, now: TimeStep, key: Key, slot: Array) -> tuple[Array, State | None]:
            """Actions [B] at slots slot … slot + B − 1, one number for each row; and what the actors then remember."""
            if size == 1:  # the very computation of the compiled loop
                keys = interaction.keys_at(key, slot)
                action, state = agent.actor.act(params, _row(acting, 0), _row(now, 0), keys.act)
                actions, after = action[None], jax.tree.map(lambda x: x[None], state)
            else:
                keys = jax.vmap(interaction.keys_at, in_axes=(None, 0))(key, slot + jnp.arange(size))
                actions, after = jax.vmap(agent.actor.act, in_axes=(None, 0, 0, 0))(params, acting, now, keys.act)
            if not agent.actor.remembers:
                return actions, None
            if skips:  # a row that is about to begin an episode has nothing to act on
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
            learned = jax.tree.map(
                lambda rows, x: rows.at[row].set(x), carry.learned, _row(carry.learned, row).plus(metrics)
            )
            return StepwiseCarry(learner, acting, learned, carry.learned_lately.plus(metrics))

        def learn(
            carry: StepwiseCarry, key: Key, slot: Array, rounds: Round, count: Array
        ) -> tuple[StepwiseCarry, EpisodeNote]:
            """Learns from `count` rounds in order, of which only the last may have ended an episode."""

            def one(n: Array, carry: StepwiseCarry) -> StepwiseCarry:
                if not skips:
                    return learn_one(n, carry, rounds, key, slot)
                taken = rounds.taken[n // size, n % size]
                return jax.lax.cond(taken, lambda: learn_one(n, carry, rounds, key, slot), lambda: carry)

            heads = jax.vmap(agent.head)(carry.acting)
            carry = jax.lax.fori_loop(0, count * size, one, carry)
            note = EpisodeNote(heads, jax.vmap(Learned.told)(carry.learned))
            ended = rounds.after.last[count - 1] & rounds.taken[count - 1]
            sums = jax.tree.map(lambda x: jnp.where(ended, jnp.zeros_like(x), x), carry.learned)
            return carry._replace(learned=sums), note

        def learn_and_act(
            carry: StepwiseCarry, at: Numbered, rounds: Round, count: Array, following: Numbered, now: TimeStep
        ) -> tuple[StepwiseCarry, EpisodeNote, tuple[Array, State | None]]:
            """For an agent that acts as it learns: also its actions on what comes next."""
            carry, note = learn(carry, *at, rounds, count)
            return carry, note, act(agent.params(carry.learner), carry.acting, now, *following)

        def begin_again(carry: StepwiseCarry, key: Key) -> StepwiseCarry:
            """New episodes in every row."""
            params = agent.params(carry.learner)
            acting = jax.vmap(agent.actor.begin, in_axes=(None, 0))(params, jax.random.split(key, size))
            learner = agent.cut(carry.learner) if agent.cut else carry.learner
            return carry._replace(learner=learner, acting=acting, learned=jax.tree.map(jnp.zeros_like, carry.learned))

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
        # What an actor remembers belongs to its own step, so that steps with a memory are not gathered.
        self._room = 1 if agent.live or agent.actor.remembers else max(_GATHERED // size, 1)
        self._key = interaction.run_key(seed)
        self._programs = _programs(agent, size, skips)
        self.carry: StepwiseCarry = self._programs.start(self._key)
        self.note: EpisodeNote | None = None
        """Of the episodes under way or just over, as of the last learning."""
        self.rounds = self.steps = 0
        self.learner_rows: list[Row] = []
        self.traces: list[Trace] | None = None
        """What was met, where somebody wants to know."""
        self._tells_every = max(_PIECE // size, 1)  # rounds
        self._learned_rounds = 0
        self._gathered: Round | None = None
        self._chosen: tuple[np.ndarray, tuple[Array, State | None]] | None = None

    def select(self, now: TimeStep) -> np.ndarray:
        """Actions [B] for what the environments have answered, [B] each."""
        if self._chosen is not None and np.array_equal(self._chosen[0], now.observation):
            actions, acting = self._chosen[1]
        else:
            params = self._agent.params(self.carry.learner) if self._agent.live else ()
            actions, acting = self._programs.act(params, self.carry.acting, now, *self._numbered(self.rounds))
        if acting is not None:
            self.carry = self.carry._replace(acting=acting)
        return np.asarray(actions)

    def update(self, step: Round, now: TimeStep) -> None:
        """Takes one step of every environment, to be learned now or together with the next ones."""
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
        tells = self.rounds % self._tells_every == 0
        if ended or at + 1 == self._room or self.rounds % ages == 0 or tells:
            self.learn_gathered(now)
        if tells:
            self.tell()

    def tell(self) -> None:
        """Notes what was learned since the last note."""
        self.learn_gathered()
        self.learner_rows += learner_row(self.steps, jax.tree.map(np.asarray, self.carry.learned_lately))
        self.carry = self.carry._replace(learned_lately=Learned.nothing())

    def learn_gathered(self, now: TimeStep | None = None) -> None:
        """Learns from what was gathered; with `now`, a live agent picks its next actions in the same call."""
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
        self._gathered = None  # the arrays given to a call are never written to again

    def begin_again(self) -> None:
        """New episodes in every row, for environments that could not be brought back."""
        key = random.for_use(self._key, random.Use.BEGUN_AGAIN)
        self.carry = self._programs.begin_again(self.carry, jax.random.fold_in(key, self.rounds % 2**31))

    def restore(self, carry: StepwiseCarry, *, rounds: int, steps: int) -> None:
        """Continues from there."""
        self.carry = jax.tree.map(jnp.asarray, carry)
        self.rounds = self._learned_rounds = rounds
        self.steps = steps
        self.learner_rows = []
        self._gathered = self._chosen = None

    def _numbered(self, rounds: int) -> Numbered:
        return Numbered(*interaction.key_and_number(self._key, rounds, self._size))


_ENVIRONMENT = "environment."
"""Before the names of the environment's own arrays in what is saved."""


class StepwiseRunner:
    """A run over Python environments."""

    notes: tuple[str, ...] = ()

    def __init__(
        self,
        env: VectorEnvironment,
        agent: Agent,
        seed: int,
        *,
        budget: Budget,
        until: mastery.Until,
        compiled: bool = True,
    ):
        if agent.one_stream and env.size > 1:
            raise UserError(
                f"this agent learns from consecutive steps of one environment and cannot take {env.size}; use num_envs 1."
            )
        self.spec = env.spec
        self.exact = env.exact
        self._env = env
        self._agent = agent
        self._player = StepwisePlayer(agent, seed, size=env.size, skips=env.skips)
        self._budget = budget
        self._until = until
        self.progress = Progress(env.spec, agent.discount)
        self._lengths = np.zeros(env.size, np.int64)
        self._returns = np.zeros(env.size)
        self._reward_sizes = np.zeros(env.size)
        """Sums of absolute rewards."""
        self._now: TimeStep | None = None
        """What the environments have answered; nothing before they are begun."""
        if compiled:
            self._compile()

    def _compile(self) -> None:
        """Traces and compiles both calls on a state that is thrown away."""
        player, now = self._player, _first(_nothing(self.spec, self._env.size))
        kept = jax.tree.map(np.asarray, player.carry)
        actions = player.select(now)
        player.update(Round(now.observation, actions, now, np.ones(self._env.size, bool)), now)
        player.learn_gathered(now)
        player.restore(kept, rounds=0, steps=0)

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to do."""
        return self.progress.has_reached(self._until) or self._budget.spent(self.clock)

    @property
    def clock(self) -> Clock:
        """Environment steps taken and episodes finished."""
        return Clock(steps=self._player.steps, episodes=self.progress.episode)

    def advance(self, upto_episode: int | None = None) -> list[Row]:
        """Runs until an episode ends, or for some steps."""
        del upto_episode  # it never goes further
        if self._now is None:
            self._now = _first(self._env.start())
        began = time.monotonic()
        for _ in range(max(_PIECE // self._env.size, 1)):
            now = self._now
            actions = self._player.select(now)
            stepped = self._env.step(actions)
            after, taken = stepped.after, stepped.taken
            self._lengths += taken
            self._returns += np.where(taken, after.reward, 0.0)
            self._reward_sizes += np.where(taken, np.abs(after.reward), 0.0)
            self._now = _following(after, stepped.now, waits=after.last & taken & self._env.skips)
            self._player.update(Round(now.observation, actions, after, taken), self._now)
            if stepped.ended:
                return self._rows(stepped.ended, after.discount)
            if self._budget.spent(self.clock) or time.monotonic() - began > _LONGEST_PIECE:
                break
        return []

    def _rows(self, ended: dict[int, Ended], discounts: np.ndarray) -> list[Row]:
        assert self._player.note is not None
        heads, told = np.asarray(self._player.note.head), np.asarray(self._player.note.learned)
        rows: list[Row] = []
        for row, end in ended.items():
            if rows and (self.progress.has_reached(self._until) or self._budget.has_episodes(self.progress.episode)):
                break  # of several that ended together, those beyond the run's end
            possible = possible_return(
                self._reward_sizes[row], self._lengths[row], discounts[row], self._agent.discount
            )
            rows.append(
                self.progress.row(
                    steps=self._player.steps,
                    length=int(self._lengths[row]),
                    episode_return=float(self._returns[row]),
                    head=int(heads[row]),
                    possible_return=possible,
                    told=told[row],
                    bad=end.bad,
                    totals=end.totals,
                    greedy_depth=self._greedy_depth,
                )
            )
        for row in ended:
            self._lengths[row], self._returns[row], self._reward_sizes[row] = 0, 0.0, 0.0
        return rows

    def _greedy_depth(self) -> int:
        return int(_greedy_depth(self._agent, self.spec.optimal_path)(self.params()))

    def learner_rows(self) -> list[Row]:
        """What the learner has told since this was last asked."""
        if self.finished:
            self._player.tell()
        rows, self._player.learner_rows = self._player.learner_rows, []
        return rows

    def status(self) -> str:
        """Nothing beside the usual."""
        return ""

    @property
    def traces(self) -> bool:
        """Whether it keeps which states were met."""
        return self._player.traces is not None

    @traces.setter
    def traces(self, wanted: bool) -> None:
        self._player.traces = [] if wanted and self.spec.num_states is not None else None

    def trace(self) -> list[Trace]:
        """The states met since this was last asked, as far as they are learned from."""
        traces = self._player.traces or []
        self._player.traces = None if self._player.traces is None else []
        return traces

    def learner(self) -> State:
        """The learner's state now."""
        self._player.learn_gathered()
        return self._player.carry.learner

    def save(self) -> Saved:
        """The run as it is now."""
        self._player.learn_gathered()
        plain = {"rounds": self._player.rounds, "steps": self._player.steps, "progress": self.progress.to_plain()}
        if self._now is None:
            return Saved(self._player.carry, {}, plain)
        arrays, plain_env = self._env.save()
        under_way = {
            "lengths": self._lengths.copy(),
            "returns": self._returns.copy(),
            "reward_sizes": self._reward_sizes.copy(),
            "reward": np.asarray(self._now.reward),
            "discount": np.asarray(self._now.discount),
        }
        under_way |= {f"{_ENVIRONMENT}{name}": x for name, x in arrays.items()}
        return Saved(self._player.carry, under_way, plain | {"environment": plain_env})

    def restore(self, saved: Saved) -> None:
        """Puts back what `save` gave; environments that cannot be brought back begin new episodes."""
        self._player.restore(saved.state, rounds=saved.plain["rounds"], steps=saved.plain["steps"])
        self.progress = Progress.from_plain(self.spec, self._agent.discount, saved.plain["progress"])
        if "environment" not in saved.plain:
            return
        arrays = {n.removeprefix(_ENVIRONMENT): x for n, x in saved.arrays.items() if n.startswith(_ENVIRONMENT)}
        now = _first(self._env.restore(arrays, saved.plain["environment"]))
        if self.exact:
            now = now._replace(reward=saved.arrays["reward"], discount=saved.arrays["discount"])
            self._lengths, self._returns, self._reward_sizes = (
                saved.arrays[name].copy() for name in ("lengths", "returns", "reward_sizes")
            )
        else:
            self._player.begin_again()
        self._now = now

    def params(self, saved: Saved | None = None) -> Params:
        """What the trained agent acts on: now, or as it was saved."""
        self._player.learn_gathered()
        carry: StepwiseCarry = self._player.carry if saved is None else saved.state
        return self._agent.params(carry.learner)

    @contextlib.contextmanager
    def environment_aside(self) -> Iterator[None]:
        """Environments that can be brought back are, to where they were; others have to be left alone."""
        if not self.exact:
            raise UserError(
                f"{self.spec.name} cannot be brought back to where it is, so nobody else can use it meanwhile."
            )
        where = self._env.save() if self._now is not None else None
        yield
        if where is not None:
            self._env.restore(*where)

    def close(self) -> None:
        """Lets the environments give up what they hold."""
        self._env.close()


@lru_cache(maxsize=8)
def _greedy_depth(agent: Agent, path: mastery.Path) -> Callable[[Params], Array]:
    """`mastery.greedy_depth`, compiled."""
    return jax.jit(mastery.greedy_depth(agent.values, path))


def _nothing(spec: EnvSpec, size: int) -> np.ndarray:
    return np.zeros((size, *spec.carried_shape), spec.carried_dtype)


def _first(observations: np.ndarray) -> TimeStep:
    """Time steps at the beginning of episodes."""
    size = len(observations)
    return TimeStep(observations, np.zeros(size, np.float32), np.ones(size, np.float32), np.zeros(size, bool))


def _following(after: TimeStep, now: np.ndarray, *, waits: np.ndarray) -> TimeStep:
    """What to act on: the answers, or the first observation of the next episode where one is over.

    A row that waits spends the next call on beginning an episode, and there is nothing to act on before it.
    """
    reward = np.where(after.last, np.float32(0), after.reward)
    discount = np.where(after.last, np.float32(1), after.discount)
    return TimeStep(now, reward, discount, waits)
