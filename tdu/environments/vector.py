"""B ≥ 1 environments stepped together. A single environment in Python is a vector of length 1.

Every row is an environment. When an episode ends, the next one starts in the same call, so there is always an observation to
act on. The last observation of the ended episode is in `Stepped.after`.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from tdu.environments.python import PythonEnvironment
from tdu.errors import EnvironmentFault, RunError
from tdu.types import EnvSpec, TimeStep

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
