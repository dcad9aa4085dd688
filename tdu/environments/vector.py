"""B ≥ 1 environments stepped together. One that lives in Python alone is such a vector of length 1.

Every row is an environment. An episode that ends is followed by the next in the same call, so that there is always an
observation to act on; the true last observation of the one that ended is in `Stepped.after`.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from tdu.environments.python import PythonEnvironment
from tdu.errors import EnvironmentFault, RunError
from tdu.types import EnvSpec, TimeStep


class Stepped(NamedTuple):
    """What B environments answer to B actions."""

    after: TimeStep
    """The answers, each leaf [B]; an observation is the true last one where the episode is over."""
    taken: np.ndarray
    """[B], whether the action counted: some vector environments spend a call on beginning an episode."""
    now: np.ndarray
    """[B, …], observations to act on next; the first one of a new episode where one has begun."""
    ended: dict[int, "Ended"]
    """Rows whose episode is over."""


class Ended(NamedTuple):
    """What the environment has counted when an episode is over."""

    bad: bool
    """Whether the episode counts as a bad one."""
    totals: dict[str, float]
    """Running totals of `spec.info_names`, over all rows."""


class VectorEnvironment(Protocol):
    """What the stepwise runner drives."""

    spec: EnvSpec
    size: int
    exact: bool
    """Whether `restore` brings them back to where they were; where not, they begin new episodes."""
    skips: bool
    """Whether a row may spend a call on beginning an episode, so that its action does not count."""

    def start(self) -> np.ndarray:
        """Begins the first episodes; their observations [B, …]."""

    def step(self, actions: np.ndarray) -> Stepped:
        """One step of every environment, with actions [B]."""

    def save(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Where the environments are: arrays of any length, and what JSON can hold."""

    def restore(self, arrays: dict[str, np.ndarray], plain: dict[str, Any]) -> np.ndarray:
        """Puts them back there; observations to act on [B, …]."""

    def close(self) -> None:
        """Gives up what they hold."""


class PythonVector:
    """Environments of ours, one after the other. The k-th episode of row i is number k·B + i of the run."""

    exact = True
    skips = False

    def __init__(self, environments: list[PythonEnvironment]):
        self.spec = environments[0].spec
        self.size = len(environments)
        self.environments = environments
        self._episodes = [0] * self.size
        self._counters: list[dict[str, Any]] = [{}] * self.size
        self._info: list[dict[str, float]] = [{}] * self.size
        self._actions: list[list[int]] = [[] for _ in environments]
        self._rewards = np.zeros(self.size)
        """Of the episodes under way."""
        self._now = np.zeros((self.size, *self.spec.carried_shape), self.spec.carried_dtype)

    def start(self) -> np.ndarray:
        """Begins the first episodes."""
        for row in range(self.size):
            self._begin(row)
        return self._now.copy()

    def step(self, actions: np.ndarray) -> Stepped:
        """One step of every environment."""
        after = TimeStep(
            np.empty_like(self._now),
            np.empty(self.size, np.float32),
            np.empty(self.size, np.float32),
            np.empty(self.size, bool),
        )
        ended: dict[int, Ended] = {}
        for row, env in enumerate(self.environments):
            action = int(actions[row])
            answer = env.step(action)
            for leaf, value in zip(after, answer, strict=True):
                leaf[row] = value
            self._actions[row].append(action)
            self._rewards[row] += float(answer.reward)
            self._now[row] = answer.observation
            if answer.last:
                ended[row] = self._end(row)
                self._begin(row)
        return Stepped(after, np.ones(self.size, bool), self._now.copy(), ended)

    def save(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Counters as they were when each episode began, and the actions since."""
        arrays = {f"actions_{row}": np.asarray(actions, np.int32) for row, actions in enumerate(self._actions)}
        plain = {"episodes": self._episodes, "counters": self._counters, "digest": self._digest()}
        return arrays, plain

    def restore(self, arrays: dict[str, np.ndarray], plain: dict[str, Any]) -> np.ndarray:
        """Begins the episodes that were under way and takes their actions again."""
        self._episodes = list(plain["episodes"])
        for row, env in enumerate(self.environments):
            env.restore_counters(plain["counters"][row])
            self._begin(row)
            for action in arrays[f"actions_{row}"].tolist():
                answer = env.step(action)
                self._actions[row].append(action)
                self._rewards[row] += float(answer.reward)
                self._now[row] = answer.observation
                if answer.last:
                    raise RunError(_NOT_REPEATABLE.format(self.spec.name))
        if self._digest() != plain["digest"]:
            raise RunError(_NOT_REPEATABLE.format(self.spec.name))
        return self._now.copy()

    def close(self) -> None:
        """Closes every environment."""
        for env in self.environments:
            env.close()

    def _digest(self) -> str:
        """Of what is seen and of what was earned since the episodes began."""
        return hashlib.sha256(self._now.tobytes() + self._rewards.tobytes()).hexdigest()

    def _end(self, row: int) -> Ended:
        bad_before = self._info[row].get("total_bad_episodes", 0)
        self._info[row] = info = self.environments[row].info()
        self._episodes[row] += 1
        totals = {name: together(name, [mine[name] for mine in self._info]) for name in self.spec.info_names}
        return Ended(bad=info.get("total_bad_episodes", 0) > bad_before, totals=totals)

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
    "{} does not come back to the same state when the same actions are taken again after the same seed, so its run cannot be "
    "continued; start it anew, or draw everything random in it from the seed that its reset is given."
)


def together(name: str, values: Sequence[float]) -> float:
    """One total of several environments or episodes: bsuite's counts add up, of its bests the best is kept."""
    return max(values) if name.startswith("best") else sum(values)
