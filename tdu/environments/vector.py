"""B ≥ 1 environments stepped together. A single environment in Python is a vector of length 1.

Every row is an environment. When an episode ends, the next one starts in the same call, so there is always an observation to
act on. The last observation of the ended episode is in `Stepped.after`.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from tdu import random
from tdu.environments.python import PythonEnvironment, Seed, number
from tdu.errors import EnvironmentFault, RunError
from tdu.types import Array, Environment, EnvSpec, Key, State, TimeStep

Arrays = dict[str, np.ndarray]
Plain = dict[str, Any]
"""JSON values."""


class Stepped(NamedTuple):
    """The result of B actions in B environments."""

    after: TimeStep
    """The time steps, each leaf [B]; at the end of an episode, with its last observation."""
    taken: np.ndarray
    """[B], whether the action counted. Some vector environments use a call to start an episode."""
    now: np.ndarray
    """[B, …], observations to act on next; the first of the new episode if one ended."""
    ended: dict[int, "Ended"]
    """Rows whose episode ended."""


class Ended(NamedTuple):
    """The environment's counts at the end of an episode."""

    bad: bool
    """Whether the episode was bad."""
    totals: dict[str, float]
    """Running totals of `spec.info_names`, over all rows."""
    success: bool | None = None
    """Gymnasium's info["is_success"]; None where the environment does not report it."""


class VectorEnvironment(Protocol):
    """B environments that are stepped from Python."""

    spec: EnvSpec
    size: int
    exact: bool
    """Whether `restore` restores the state exactly; if not, it starts new episodes."""
    skips: bool
    """Whether a row may use a call to start an episode, so that its action does not count."""

    def start(self) -> np.ndarray:
        """Starts the first episodes; their observations [B, …]."""

    def step(self, actions: np.ndarray) -> Stepped:
        """One step of every environment, with actions [B]."""

    def save(self) -> tuple[Arrays, Plain]:
        """The environments' state: arrays of any length, and JSON values."""

    def restore(self, arrays: Arrays, plain: Plain) -> np.ndarray:
        """Restores what `save` returned; observations to act on [B, …]."""

    def close(self) -> None:
        """Releases the environments' resources."""


class PythonVector:
    """Python environments, stepped one after another. The k-th episode of row i is number k·B + i of the run."""

    exact = True
    skips = False

    def __init__(self, environments: list[PythonEnvironment]):
        self.spec = environments[0].spec
        self.size = len(environments)
        self.environments = environments
        self._episodes = [0] * self.size
        self._counters: list[Plain] = [{}] * self.size
        self._info: list[dict[str, float]] = [{}] * self.size
        self._actions: list[list[int]] = [[] for _ in environments]
        self._rewards = np.zeros(self.size)
        """Returns of the current episodes so far."""
        self._now = np.zeros((self.size, *self.spec.carried_shape), self.spec.carried_dtype)

    def start(self) -> np.ndarray:
        for row in range(self.size):
            self._begin(row)
        return self._now.copy()

    def step(self, actions: np.ndarray) -> Stepped:
        after = TimeStep(
            np.empty_like(self._now),
            np.empty(self.size, np.float32),
            np.empty(self.size, np.float32),
            np.empty(self.size, bool),
        )
        ended: dict[int, Ended] = {}
        for row in range(self.size):
            timestep = self._take(row, int(actions[row]))
            for leaf, value in zip(after, timestep, strict=True):
                leaf[row] = value
            if timestep.last:
                ended[row] = self._end(row)
                self._begin(row)
        return Stepped(after, np.ones(self.size, bool), self._now.copy(), ended)

    def save(self) -> tuple[Arrays, Plain]:
        """The counters at the start of each episode, and the actions since."""
        arrays = {f"actions_{row}": np.asarray(actions, np.int32) for row, actions in enumerate(self._actions)}
        plain = {"episodes": self._episodes, "counters": self._counters, "digest": self._digest()}
        return arrays, plain

    def restore(self, arrays: Arrays, plain: Plain) -> np.ndarray:
        """Restarts the episodes and replays their actions."""
        self._episodes = list(plain["episodes"])
        for row, env in enumerate(self.environments):
            env.restore_counters(plain["counters"][row])
            self._begin(row)
            for action in arrays[f"actions_{row}"].tolist():
                if self._take(row, action).last:
                    raise RunError(_NOT_REPEATABLE.format(self.spec.name))
        if self._digest() != plain["digest"]:
            raise RunError(_NOT_REPEATABLE.format(self.spec.name))
        return self._now.copy()

    def close(self) -> None:
        for env in self.environments:
            env.close()

    def _digest(self) -> str:
        """Hash of the observations and of the returns so far."""
        return hashlib.sha256(self._now.tobytes() + self._rewards.tobytes()).hexdigest()

    def _take(self, row: int, action: int) -> TimeStep:
        timestep = self.environments[row].step(action)
        self._actions[row].append(action)
        self._rewards[row] += float(timestep.reward)
        self._now[row] = timestep.observation
        return timestep

    def _end(self, row: int) -> Ended:
        bad_before = self._info[row].get("total_bad_episodes", 0)
        self._info[row] = info = self.environments[row].info()
        self._episodes[row] += 1
        totals = {name: total(name, [row_info[name] for row_info in self._info]) for name in self.spec.info_names}
        success = self.environments[row].success
        return Ended(bad=info.get("total_bad_episodes", 0) > bad_before, totals=totals, success=success)

    def _begin(self, row: int) -> None:
        env = self.environments[row]
        self._counters[row] = env.counters()
        self._info[row] = env.info()
        self._actions[row] = []
        self._rewards[row] = 0.0
        first = env.reset(self._episodes[row] * self.size + row)
        if first.last:
            raise EnvironmentFault(f"{self.spec.name} ended an episode before its first step.")
        self._now[row] = first.observation


_NOT_REPEATABLE = (
    "{} does not return to the same state when the same actions are replayed with the same seed, so its run cannot be "
    "continued; start a new run, or draw all its random numbers from the seed that its reset receives."
)


def total(name: str, values: Sequence[float]) -> float:
    """The total over several environments or episodes: the largest of bsuite's `best…` values, the sum of its counts."""
    return max(values) if name.startswith("best") else sum(values)


_AGE = 1 << 31
"""Steps per key. After them the step counter restarts with another key."""


class JaxVector:
    """B compiled environments, for runs that are not one compiled loop. Their state is arrays, so it is restored exactly.

    One call steps all of them. Every row has its own key. The draws of step t come from fold_in(key, t).
    """

    exact = True
    skips = False

    def __init__(self, env: Environment, seed: Seed, size: int):
        self.spec = env.spec
        self.size = size
        self._keys = jax.vmap(random.key)(jnp.asarray([number(f"{seed}/{row}") for row in range(size)], jnp.uint32))
        self._steps = 0
        self._state: State = None
        self._now = np.zeros((size, *self.spec.carried_shape), self.spec.carried_dtype)
        self._totals: dict[str, float] = dict.fromkeys(self.spec.info_names, 0)

        def begin(key: Key) -> tuple[State, Array]:
            state, first = env.reset(key)
            return state, jnp.asarray(first.observation, self.spec.carried_dtype)

        def step(state: State, action: Array, key: Key) -> tuple[State, TimeStep, Array, dict[str, Array]]:
            key_step, key_reset = jax.random.split(key)
            state, after = env.step(state, action, key_step)
            next_state, first = begin(key_reset)
            kept = jax.tree.map(lambda new, old: jnp.where(after.last, new, old), next_state, state)
            now = jnp.where(after.last, first, jnp.asarray(after.observation, self.spec.carried_dtype))
            return kept, after, now, env.info(state)

        def numbered(keys: Key, age: Array, t: Array) -> Key:
            return jax.vmap(lambda key: jax.random.fold_in(jax.random.fold_in(key, age), t))(keys)

        self._begin = jax.jit(lambda keys, age, t: jax.vmap(begin)(numbered(keys, age, t)))
        self._step = jax.jit(lambda state, a, keys, age, t: jax.vmap(step)(state, a, numbered(keys, age, t)))

    def start(self) -> np.ndarray:
        self._state, now = self._begin(self._keys, *self._count())
        self._now = np.array(now)
        return self._now.copy()

    def step(self, actions: np.ndarray) -> Stepped:
        chosen = np.asarray(actions, np.int32)
        self._state, after, now, infos = self._step(self._state, chosen, self._keys, *self._count())
        after = TimeStep(*(np.asarray(leaf) for leaf in after))
        self._now = np.array(now)
        ended: dict[int, Ended] = {}
        for row in np.flatnonzero(after.last):
            info = {name: np.asarray(infos[name])[row].item() for name in self.spec.info_names}
            self._totals = self.spec.with_episode(self._totals, info)
            ended[int(row)] = Ended(bad=bool(info.get("total_bad_episodes", 0)), totals=dict(self._totals))
        return Stepped(after, np.ones(self.size, bool), self._now.copy(), ended)

    def save(self) -> tuple[Arrays, Plain]:
        arrays = {f"state_{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(self._state))}
        return arrays | {"now": self._now.copy()}, {"steps": self._steps, "totals": self._totals}

    def restore(self, arrays: Arrays, plain: Plain) -> np.ndarray:
        empty, _ = jax.eval_shape(self._begin, self._keys, np.uint32(0), np.uint32(0))
        leaves = [jnp.asarray(arrays[f"state_{i}"]) for i in range(len(jax.tree.leaves(empty)))]
        self._state = jax.tree.unflatten(jax.tree.structure(empty), leaves)
        self._steps, self._totals = plain["steps"], dict(plain["totals"])
        self._now = arrays["now"].copy()
        return self._now.copy()

    def close(self) -> None:
        """Compiled environments hold no resources."""

    def _count(self) -> tuple[np.uint32, np.uint32]:
        """Numbers that the next draws' keys are folded with."""
        age, t = divmod(self._steps, _AGE)
        self._steps += 1
        return np.uint32(age), np.uint32(t)
