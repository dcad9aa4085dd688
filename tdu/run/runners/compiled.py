"""Runs on JAX-native environments: agent and environment in one compiled loop.

`train` is a whole run as a function of a key, for `jit(vmap(train))(keys)`. `CompiledRunner` runs the same loop in chunks
and returns the log after each; it stops at the episode at which the task is solved or mastered. The host counts over the
whole run, in Python integers; the device counts within a chunk.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from tdu.metrics import Metrics
from tdu.run.runners import interaction, mastery
from tdu.run.runners.interaction import Player
from tdu.run.runners.meter import Episode, possible_return
from tdu.run.runners.protocol import Budget, Runner, Saved, Trace
from tdu.run.runners.rows import Row, learner_row
from tdu.types import Agent, Array, EitherArray, Environment, Key, Params, State, TimeStep

CHUNK = 1000
"""Environment steps per compiled call of a run: long enough to hide the call, short enough for a live progress bar."""


Tree = TypeVar("Tree")


class EpisodeSums(NamedTuple):
    """Of the episode under way."""

    length: Array
    reward: Array
    reward_size: Array
    """Sum of absolute rewards."""
    metrics: Metrics
    """Totals over its learning steps."""


class Carry(NamedTuple):
    """The whole state of a run on the device, between two steps."""

    player: Player
    env_state: State
    timestep: TimeStep
    episodes: Array
    """Episodes finished."""
    total_bad: Array
    streak: Array
    solved: Array
    learned: Array
    """Whether an episode has had learning steps."""
    depth: Array
    """Of the greedy policy at the last check (`runners.mastery`)."""
    checks_passed: Array
    mastered: Array
    episode: EpisodeSums


class Rows(NamedTuple):
    """A row of the log for each episode, [C] each. The first `filled` rows count."""

    filled: Array
    length: Array
    episode_return: Array
    possible_return: Array
    """See `meter.possible_return`."""
    head: Array
    depth: Array
    """Of the greedy policy, after the episode."""
    metrics: Metrics
    """Summaries over the episode's learning steps, by name: bonus, loss, largest_q."""
    info: dict[str, Array]
    """What the episode adds to each count of the environment, in the environment's own type."""
    steps: Array
    """Steps taken since the rows were empty."""
    visited: Array
    """The state in which each of them was taken, [C], where observations are one-hot."""
    learned: Metrics
    """Totals over all of them."""


def _start(env: Environment, agent: Agent, key: Key) -> Carry:
    key_init, key_begin, key_reset = interaction.first_keys(key)
    learner = agent.init(key_init)
    player = Player(learner, agent.actor.begin(agent.params(learner), key_begin))
    env_state, timestep = env.reset(key_reset)
    zero = jnp.zeros((), jnp.int32)
    no = jnp.zeros((), bool)
    return Carry(player, env_state, timestep, zero, zero, zero, no, no, zero, zero, no, _no_sums(agent))


def _no_sums(agent: Agent) -> EpisodeSums:
    return EpisodeSums(jnp.zeros((), jnp.int32), jnp.zeros(()), jnp.zeros(()), agent.reducers.zeros())


def _empty_rows(env: Environment, agent: Agent, capacity: int) -> Rows:
    env_state, _ = jax.eval_shape(env.reset, interaction.run_key(0))
    info = jax.eval_shape(env.info, env_state)
    whole, real = jnp.zeros(capacity, jnp.int32), jnp.zeros(capacity)
    return Rows(
        filled=jnp.zeros((), jnp.int32),
        length=whole,
        episode_return=real,
        possible_return=real,
        head=whole,
        depth=whole,
        metrics=agent.reducers.summary(agent.reducers.zeros((capacity,))),
        info={name: jnp.zeros(capacity, info[name].dtype) for name in env.spec.info_names},
        steps=jnp.zeros((), jnp.int32),
        visited=jnp.zeros(0 if env.spec.num_states is None else capacity, jnp.int32),
        learned=agent.reducers.zeros(),
    )


def _step(env: Environment, agent: Agent, key: Key, t: EitherArray, carry: Carry, rows: Rows) -> tuple[Carry, Rows]:
    """Environment step t. The episode's row is written again at every step, and stays after the last."""
    keys = interaction.keys_at(key, t)
    head = agent.head(carry.player.acting)
    action, player = interaction.act(agent, carry.player, carry.timestep, keys)
    env_state, after = env.step(carry.env_state, action, keys.environment)
    learner, metrics = interaction.learn(agent, player, carry.timestep.observation, action, after, keys)
    acting = jax.lax.cond(after.last, lambda: interaction.begin(agent, learner, keys), lambda: player.acting)
    so_far = EpisodeSums(
        length=carry.episode.length + 1,
        reward=carry.episode.reward + after.reward,
        reward_size=carry.episode.reward_size + jnp.abs(after.reward),
        metrics=agent.reducers.add(carry.episode.metrics, metrics),
    )
    last = after.last
    info = env.info(env_state)
    bad = info.get("total_bad_episodes", jnp.zeros((), jnp.int32))
    episodes = carry.episodes + last
    total_bad = carry.total_bad + jnp.where(last, bad, 0)
    summary = agent.reducers.summary(so_far.metrics)
    learned = carry.learned | (last & (summary["largest_q"] > 0))
    streak = jnp.where(last, jnp.where((bad > 0) | ~learned, 0, carry.streak + 1), carry.streak)
    rule = env.spec.solved
    solved = carry.solved | (last & rule(total_bad, episodes, streak)) if rule else carry.solved
    depth, checks_passed = _checked(env, agent, learner, carry, due=last & (episodes % mastery.PERIOD == 0))
    possible = possible_return(so_far.reward_size, so_far.length, after.discount, agent.discount)
    at = rows.filled
    rows = Rows(
        filled=at + last,
        length=rows.length.at[at].set(so_far.length),
        episode_return=rows.episode_return.at[at].set(so_far.reward),
        possible_return=rows.possible_return.at[at].set(possible),
        head=rows.head.at[at].set(head.astype(jnp.int32)),
        depth=rows.depth.at[at].set(depth),
        metrics={name: column.at[at].set(summary[name]) for name, column in rows.metrics.items()},
        info={name: column.at[at].set(info[name]) for name, column in rows.info.items()},
        steps=rows.steps + 1,
        visited=rows.visited
        if env.spec.num_states is None
        else rows.visited.at[rows.steps].set(carry.timestep.observation),
        learned=agent.reducers.add(rows.learned, metrics),
    )
    fresh_env, first = env.reset(keys.reset)

    def at_end(new: Tree, old: Tree) -> Tree:
        chosen: Tree = jax.tree.map(lambda n, o: jnp.where(last, n, o), new, old)
        return chosen

    carry = Carry(
        player=Player(learner, acting),
        env_state=at_end(fresh_env, env_state),
        timestep=at_end(first, after),
        episodes=episodes,
        total_bad=total_bad,
        streak=streak,
        solved=solved,
        learned=learned,
        depth=depth,
        checks_passed=checks_passed,
        mastered=carry.mastered | (checks_passed >= mastery.CHECKS),
        episode=at_end(_no_sums(agent), so_far),
    )
    return carry, rows


def _checked(env: Environment, agent: Agent, learner: State, carry: Carry, *, due: Array) -> tuple[Array, Array]:
    """Depth of the greedy policy and checks passed in a row, after a check if one is due."""
    path = env.spec.optimal_path
    if not path:
        return carry.depth, carry.checks_passed

    def check() -> tuple[Array, Array]:
        depth = mastery.greedy_depth(agent.values, path)(agent.params(learner))
        return depth, jnp.where(depth == len(path), carry.checks_passed + 1, 0)

    return jax.lax.cond(due, check, lambda: (carry.depth, carry.checks_passed))


def train(env: Environment, agent: Agent, steps: int) -> Callable[[Key], tuple[Carry, Rows]]:
    """A run of `steps` environment steps as a function of its key, without checks of mastery.

    >>> runs = jax.jit(jax.vmap(train(env, agent, 10_000)))(jax.vmap(tdu.run_key)(jnp.arange(8)))
    """
    env = env._replace(spec=env.spec._replace(optimal_path=()))  # mapped over runs, a check would be made at every step

    def run(key: Key) -> tuple[Carry, Rows]:
        first = (_start(env, agent, key), _empty_rows(env, agent, steps))
        return jax.lax.fori_loop(0, steps, lambda t, both: _step(env, agent, key, t, *both), first)

    return run


class _Programs:
    """The compiled functions for an agent on an environment, shared by runs that differ only in seed or length."""

    def __init__(self, env: Environment, agent: Agent, until: mastery.Until, chunk: int):
        def run_chunk(carry: Carry, key: Key, first: Array, steps: Array, episodes: Array) -> tuple[Carry, Array, Rows]:
            """The next carry, the steps taken and the rows, of `steps` steps from number `first` under the key on.

            It ends earlier once the whole run has `episodes` episodes, or has reached its goal.
            """
            Progressing = tuple[Array, Carry, Rows]

            def goes_on(now: Progressing) -> Array:
                done, carry, _ = now
                going = (done < steps) & (carry.episodes < episodes)
                if until == "budget":
                    return going
                if until == "solved" or mastery.is_solving(env.spec):
                    return going & ~carry.solved
                return going & ~(carry.solved & carry.mastered)

            def one(now: Progressing) -> Progressing:
                done, carry, rows = now
                return done + 1, *_step(env, agent, key, first + done, carry, rows)

            start = (jnp.zeros((), jnp.int32), carry, _empty_rows(env, agent, chunk))
            done, carry, rows = jax.lax.while_loop(goes_on, one, start)
            return carry, done, rows

        self.start = jax.jit(lambda key: _start(env, agent, key))
        self.rebase = jax.jit(
            lambda carry: carry._replace(player=carry.player._replace(learner=agent.rebase(carry.player.learner)))
        )
        self._jitted = jax.jit(run_chunk, donate_argnums=0)
        self._compiled: jax.stages.Compiled | None = None

    def compile(self, carry: Carry, key: Key) -> jax.stages.Compiled:
        if self._compiled is None:
            self._compiled = self._jitted.lower(carry, key, *[np.int32(0)] * 3).compile()
        return self._compiled


_programs = lru_cache(maxsize=8)(_Programs)

_MOST_EPISODES = 2**31 - 1  # the device counts episodes in 32 bits, for the rule of when a task is solved


class CompiledRunner(Runner):
    """A run in chunks. `carry` is its whole state on the device."""

    def __init__(
        self,
        env: Environment,
        agent: Agent,
        seed: int,
        *,
        budget: Budget,
        until: mastery.Until,
        chunk: int = CHUNK,
        compiled: bool = True,
    ):
        super().__init__(env.spec, agent, budget, until)
        self._agent, self._chunk = agent, chunk
        self._key = interaction.run_key(seed)
        self._programs = _programs(env, agent, until, chunk)
        self.carry: Carry = self._programs.start(self._key)
        self._began = 0  # the step at which the episode under way began
        self._trace: list[Trace] | None = None  # visited states, if they are wanted
        if compiled:
            self._programs.compile(self.carry, self._key)

    @property
    def finished(self) -> bool:
        return super().finished or self.progress.episode >= _MOST_EPISODES

    def compiled_text(self) -> str:
        """The program that XLA made of a chunk."""
        return str(self._programs.compile(self.carry, self._key).as_text())

    def _advance(self, upto_episode: int | None) -> list[Row]:
        run_chunk = self._programs.compile(self.carry, self._key)
        key, first = interaction.key_and_number(self._key, self._steps)
        left = self._chunk if self._budget.steps is None else self._budget.steps - self._steps
        steps = min(self._chunk, left, interaction.FOLDED_STEPS - int(first))
        episodes = np.int32(
            min(self._budget.episodes or _MOST_EPISODES, upto_episode or _MOST_EPISODES, _MOST_EPISODES)
        )
        self.carry, done, rows = run_chunk(self.carry, key, first, np.int32(steps), episodes)
        ages = self._steps // interaction.REBASE_PERIOD
        self._steps += int(done)
        if self._steps // interaction.REBASE_PERIOD != ages:
            self.carry = self._programs.rebase(self.carry)
        arrays = jax.tree.map(np.asarray, rows)
        self._learner_rows += learner_row(self._steps, self._reducers, arrays.learned)
        if self._trace is not None:
            self._trace.append(self._traced(arrays))
        return [self._row(arrays, i) for i in range(int(rows.filled))]

    def _row(self, rows: Rows, i: int) -> Row:
        length = int(rows.length[i])
        self._began += length
        info = {name: column[i].item() for name, column in rows.info.items()}
        episode = Episode(
            steps=self._began,
            length=length,
            episode_return=rows.episode_return[i],
            possible_return=rows.possible_return[i],
            head=int(rows.head[i]),
            bad=bool(info.get("total_bad_episodes", 0)),
            totals=self.spec.with_episode(self.progress.totals, info),
        )
        metrics = {name: column[i] for name, column in rows.metrics.items()}
        return self.progress.row(episode, metrics, greedy_depth=lambda: int(rows.depth[i]))

    def _traced(self, rows: Rows) -> Trace:
        """The states visited in a chunk. The head of the episode under way at its end is in the row after the last."""
        filled, steps = int(rows.filled), int(rows.steps)
        ends = self._began - (self._steps - steps) + np.cumsum(rows.length[:filled])
        lengths = np.diff(np.concatenate([[0], ends, [steps]]))
        heads = np.append(rows.head, 0)[: filled + 1]
        return Trace(np.asarray(rows.visited[:steps]), np.repeat(heads, lengths))

    def start_trace(self) -> None:
        """Keeps the visited states from now on; observations must be one-hot."""
        self._trace = []

    def trace(self) -> list[Trace]:
        """The states visited since the last call."""
        traces, self._trace = self._trace or [], []
        return traces

    def learner(self) -> State:
        """The learner's current state, valid until the run continues."""
        return self.carry.player.learner

    def _save(self) -> Saved:
        return Saved(self.carry, {}, {"began": self._began})

    def _restore(self, saved: Saved) -> None:
        self.carry, self._began = jax.tree.map(jnp.asarray, saved.state), saved.plain["began"]

    def params(self, saved: Saved | None = None) -> Params:
        carry: Carry = self.carry if saved is None else saved.state
        return self._agent.params(carry.player.learner)
