"""Episode accounting: the length, the return and the largest possible return of each episode, for runners in Python."""

from typing import NamedTuple, TypeVar

import numpy as np

from tdu.environments.vector import Ended
from tdu.types import EitherArray

Number = float | np.generic | EitherArray
Size = TypeVar("Size", float, np.ndarray, EitherArray)

_BELOW_ONE = 1 - 1e-6  # used in place of γ = 1, which would bound no value


class Episode(NamedTuple):
    """A finished episode."""

    steps: int
    """Environment steps of the run when it ended."""
    length: int
    episode_return: Number
    """In the precision in which it was summed, so that the log shows no digits that are not known."""
    possible_return: Number
    """See `possible_return`."""
    head: int
    """The head that acted."""
    bad: bool
    """Whether the environment counts it as a bad episode."""
    totals: dict[str, float]
    """The environment's own counts after it (`EnvSpec.info_names`)."""


def possible_return(reward_size: Size, length: EitherArray, discount: EitherArray, gamma: float) -> Size:
    """The largest value that an episode with such rewards can have. Works on numbers and on arrays.

    It is the undiscounted sum of absolute rewards. An episode that was cut off (its last discount is not 0) might go on like
    this for ever.
    """
    return reward_size / (1.0 - (discount > 0) * min(gamma, _BELOW_ONE) ** length)


def value_of_ever(reward: float, gamma: float) -> float:
    """The discounted sum of the same reward at every step."""
    return reward / (1 - min(gamma, _BELOW_ONE))


class EpisodeMeter:
    """Counts the steps of B environments and the episodes under way in them."""

    def __init__(self, size: int, gamma: float):
        self._gamma = gamma
        self.steps = 0  # of all environments together
        self._lengths = np.zeros(size, np.int64)
        self._returns = np.zeros(size)
        self._reward_sizes = np.zeros(size)  # sums of absolute rewards

    def add(self, reward: np.ndarray, taken: np.ndarray) -> None:
        """Counts a step of every environment whose action was taken, both [B]."""
        reward = np.where(taken, reward, 0.0)
        self._lengths += taken
        self._returns += reward
        self._reward_sizes += np.abs(reward)
        self.steps += int(np.count_nonzero(taken))

    def end(self, row: int, ended: Ended, *, discount: Number, head: Number) -> Episode:
        """The episode that ended in a row; the next one begins. `discount` is the last step's."""
        possible = possible_return(self._reward_sizes[row], self._lengths[row], discount, self._gamma)
        episode = Episode(
            steps=self.steps,
            length=int(self._lengths[row]),
            episode_return=float(self._returns[row]),
            possible_return=float(possible),
            head=int(head),
            bad=ended.bad,
            totals=ended.totals,
        )
        self._lengths[row], self._returns[row], self._reward_sizes[row] = 0, 0.0, 0.0
        return episode

    def save(self) -> dict[str, np.ndarray]:
        sums = {"lengths": self._lengths, "returns": self._returns, "reward_sizes": self._reward_sizes}
        return {name: x.copy() for name, x in sums.items()}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        self._lengths, self._returns, self._reward_sizes = (
            arrays[name].copy() for name in ("lengths", "returns", "reward_sizes")
        )
