"""Runs on JAX-native environments: agent and environment in one compiled loop.

`train` is a whole run as a function of a key, for `jit(vmap(train))(keys)`. `CompiledRunner` does the same loop in chunks
and hands out the log between them; it stops at the very episode at which the task counts as solved.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tdu.runners import interaction
from tdu.runners.interaction import Mind, Sums
from tdu.runners.protocol import Budget, Clock, Saved
from tdu.runners.rows import Progress, Row
from tdu.types import Agent, Array, Environment, Key, TimeStep

CHUNK = 1000
"""Environment steps per compiled call of a run: long enough to hide the call, short enough for a live progress bar."""


class Episode(NamedTuple):
    """Sums over the episode under way."""

    length: Array
    reward: Array
    learned: Sums


class Carry(NamedTuple):
    """Everything a run is, between two steps."""

    mind: Mind
    env_state: Any
    timestep: TimeStep
    t: Array
    """Environment steps taken."""
    episodes: Array
    """Episodes finished."""
    total_bad: Array
    streak: Array
    solved: Array
    episode: Episode


class Rows(NamedTuple):
    """Log rows [C, ·], of which the first `filled` count."""

    filled: Array
    whole: Array
    """int32: episode, steps, episode_len, head, then the environment's own."""
    real: Array
    """float32: return, bonus, loss."""


def _start(env: Environment, agent: Agent, key: Key) -> Carry:
    mind, key_reset = interaction.begin(agent, key)
    env_state, timestep = env.reset(key_reset)
    zero = jnp.zeros((), jnp.int32)
    return Carry(mind, env_state, timestep, zero, zero, zero, zero, jnp.zeros((), bool), _empty_episode())


def _empty_episode() -> Episode:
    return Episode(jnp.zeros((), jnp.int32), jnp.zeros(()), Sums.zero())


def _empty_rows(env: Environment, capacity: int) -> Rows:
    whole = jnp.zeros((capacity, 4 + len(env.spec.info_names)), jnp.int32)
    return Rows(jnp.zeros((), jnp.int32), whole, jnp.zeros((capacity, 3)))


def _step(env: Environment, agent: Agent, key: Key, carry: Carry, rows: Rows) -> tuple[Carry, Rows]:
    """One environment step. The episode's row is rewritten at every step and kept at its last."""
    keys = interaction.keys_at(key, carry.t)
    head = agent.head(carry.mind.actor)
    action = interaction.act(agent, carry.mind, carry.timestep.observation, keys)
    env_state, after = env.step(carry.env_state, action, keys.environment)
    mind, metrics = interaction.learn(agent, carry.mind, carry.timestep.observation, action, after, keys)
    so_far = Episode(
        length=carry.episode.length + 1,
        reward=carry.episode.reward + after.reward,
        learned=carry.episode.learned.plus(metrics),
    )
    last = after.last
    info = env.info(env_state)
    bad = info.get("total_bad_episodes", jnp.zeros((), jnp.int32))
    episodes = carry.episodes + last
    total_bad = carry.total_bad + jnp.where(last, bad, 0)
    streak = jnp.where(last, jnp.where(bad > 0, 0, carry.streak + 1), carry.streak)
    rule = env.spec.solved
    solved = carry.solved | (last & rule(total_bad, episodes, streak)) if rule else carry.solved
    whole = [episodes, carry.t + 1, so_far.length, head, *(info[n] for n in env.spec.info_names)]
    rows = Rows(
        filled=rows.filled + last,
        whole=rows.whole.at[rows.filled].set(jnp.stack([x.astype(jnp.int32) for x in whole])),
        real=rows.real.at[rows.filled].set(jnp.append(so_far.reward, so_far.learned.means())),
    )
    fresh_env, first = env.reset(keys.reset)

    def at_end(new: Any, old: Any) -> Any:
        return jax.tree.map(lambda n, o: jnp.where(last, n, o), new, old)

    carry = Carry(
        mind=mind,
        env_state=at_end(fresh_env, env_state),
        timestep=at_end(first, after),
        t=carry.t + 1,
        episodes=episodes,
        total_bad=total_bad,
        streak=streak,
        solved=solved,
        episode=at_end(_empty_episode(), so_far),
    )
    return carry, rows


def train(env: Environment, agent: Agent, steps: int) -> Callable[[Key], tuple[Carry, Rows]]:
    """A run of `steps` environment steps as a function of its key.

    >>> runs = jax.jit(jax.vmap(train(env, agent, 10_000)))(jax.vmap(tdu.run_key)(jnp.arange(8)))
    """

    def run(key: Key) -> tuple[Carry, Rows]:
        first = (_start(env, agent, key), _empty_rows(env, steps))
        return jax.lax.fori_loop(0, steps, lambda _, c: _step(env, agent, key, *c), first)

    return run


class _Programs:
    """What is compiled for an agent on an environment. Runs that differ in seed or length only share it."""

    def __init__(self, env: Environment, agent: Agent, stop: bool, chunk: int):
        def run_chunk(carry: Carry, key: Key, episodes: Array, steps: Array) -> tuple[Carry, Rows]:
            end = jnp.minimum(carry.t + chunk, steps)

            def goes_on(both: tuple[Carry, Rows]) -> Array:
                now = both[0]
                going = (now.t < end) & (now.episodes < episodes)
                return going & ~now.solved if stop else going

            return jax.lax.while_loop(
                goes_on, lambda both: _step(env, agent, key, *both), (carry, _empty_rows(env, chunk))
            )

        self.start = jax.jit(lambda key: _start(env, agent, key))
        self._jitted = jax.jit(run_chunk, donate_argnums=0)
        self._compiled: Any = None

    def compile(self, carry: Carry, key: Key) -> Any:
        """A chunk of a run as a function of (carry, key, episodes, steps)."""
        if self._compiled is None:
            self._compiled = self._jitted.lower(carry, key, np.int32(0), np.int32(0)).compile()
        return self._compiled


_programs = lru_cache(maxsize=8)(_Programs)


class CompiledRunner:
    """A run in chunks. `carry` is its whole state; `advance` moves it on and returns the rows of finished episodes."""

    def __init__(
        self,
        env: Environment,
        agent: Agent,
        seed: int,
        *,
        budget: Budget,
        stop: bool,
        chunk: int = CHUNK,
        compiled: bool = True,
    ):
        self.spec = env.spec
        self._budget = budget
        self._stop = stop and env.spec.solved is not None
        self._key = interaction.run_key(seed)
        self._programs = _programs(env, agent, self._stop, chunk)
        self.carry: Any = self._programs.start(self._key)
        self.progress = Progress(env.spec)
        self._totals = dict.fromkeys(env.spec.info_names, 0)
        if compiled:
            self._programs.compile(self.carry, self._key)

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to do."""
        steps, episodes = self.clock
        over = episodes >= _limit(self._budget.episodes) or steps >= _limit(self._budget.steps)
        return over or (self._stop and self.progress.solved_episode is not None)

    @property
    def clock(self) -> Clock:
        """Environment steps taken and episodes finished."""
        return Clock(int(self.carry.t), self.progress.episode)

    def compiled_text(self) -> str:
        """What XLA made of a chunk."""
        return str(self._programs.compile(self.carry, self._key).as_text())

    def advance(self) -> list[Row]:
        """Runs one chunk."""
        run_chunk = self._programs.compile(self.carry, self._key)
        limits = (np.int32(_limit(limit)) for limit in self._budget)
        self.carry, rows = run_chunk(self.carry, self._key, *limits)
        count = int(rows.filled)
        whole, real = np.asarray(rows.whole)[:count], np.asarray(rows.real)[:count]
        return [self._row(w, r) for w, r in zip(whole, real, strict=True)]

    def _row(self, whole: np.ndarray, real: np.ndarray) -> Row:
        episode, steps, length, head, *info = whole.tolist()
        for name, value in zip(self.spec.info_names, info, strict=True):
            self._totals[name] += value
        gained = dict(zip(self.spec.info_names, info, strict=True))
        self.progress.add(real[0], gained.get("total_bad_episodes", 0))
        standard = {
            "episode": episode,
            "steps": steps,
            "episode_len": length,
            "episode_return": real[0],
            "total_return": self.progress.total_return,
            "head": head,
            "bonus": real[1],
            "loss": real[2],
        }
        return standard | self._totals

    def save(self) -> Saved:
        """The run as it is now."""
        return Saved(self.carry, {}, {"progress": self.progress.to_plain(), "totals": self._totals})

    def restore(self, saved: Saved) -> None:
        """Puts back what `save` gave."""
        self.carry = jax.tree.map(jnp.asarray, saved.state)
        self.progress = Progress.from_plain(self.spec, saved.plain["progress"])
        self._totals = dict(saved.plain["totals"])

    def params(self) -> Any:
        """What the trained agent acts on."""
        return self.carry.mind.state

    def close(self) -> None:
        """There is nothing to give up."""


def _limit(limit: int | None) -> int:
    """A limit that counters of 32 bits can be compared with."""
    return 2**31 - 1 if limit is None else min(limit, 2**31 - 1)
