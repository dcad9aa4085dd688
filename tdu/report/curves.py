"""Learning curves: a column of a log over episodes, steps or seconds, smoothed, and what several seeds have in common.

A curve at x is the mean of the last `window` episodes that had ended by x. A group's curve is the mean over the seeds that
get so far (drawn thin where not all do), with the 95 % interval of Student's t where there are two at least. Numbers that
are not finite are left out.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from tdu.run.folder.log import Log

AXES = {"episodes": "episode", "steps": "steps", "seconds": "seconds"}
"""Names of axes, and the columns they are."""

POINTS = 200


class Band(NamedTuple):
    """Over seeds, at each of X points; NaN where there is nothing."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    seeds: np.ndarray
    """How many get so far."""

    def of_all(self) -> np.ndarray:
        """The mean where every seed gets so far, NaN elsewhere."""
        return np.where(self.seeds == self.seeds.max(initial=0), self.mean, np.nan)

    def of_some(self) -> np.ndarray:
        """The mean where some seeds are missing, and the places beside, so that its line joins the other; NaN elsewhere.

        Seeds that end earlier take their returns with them: what is left can look like forgetting, and is none.
        """
        few = self.seeds < self.seeds.max(initial=0)
        beside = few | np.append(few[1:], False) | np.append(False, few[:-1])
        return np.where(beside, self.mean, np.nan)


def grid(logs: Sequence[Log], axis: str, points: int = POINTS) -> np.ndarray:
    """Where curves are drawn, from the first episode's end to the last one's: at most `points` places, [X]."""
    ends = [log[AXES[axis]] for log in logs if len(log.get(AXES[axis], ()))]
    if not ends:
        return np.zeros(0)
    low, high = min(float(end[0]) for end in ends), max(float(end[-1]) for end in ends)
    if axis != "seconds" and high - low < points:
        return np.arange(low, high + 1)
    return np.linspace(low, high, points)


def curve(log: Log, column: str, axis: str, at: np.ndarray, window: int) -> np.ndarray:
    """A seed's curve at each place, [X]; NaN before its first episode has ended and after its last."""
    x = log.get(AXES[axis], np.zeros(0))
    if column not in log or not len(x):
        return np.full(len(at), np.nan)
    values = np.asarray(log[column], np.float64)
    usable = np.isfinite(values)
    sums = np.concatenate([[0.0], np.cumsum(np.where(usable, values, 0.0))])
    counts = np.concatenate([[0], np.cumsum(usable)])
    ended = np.searchsorted(x, at, side="right")
    first = np.maximum(ended - window, 0)
    number = counts[ended] - counts[first]
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.where(number > 0, (sums[ended] - sums[first]) / number, np.nan)
    return np.where((at < x[0]) | (at > x[-1]), np.nan, means)


def band(curves: np.ndarray) -> Band:
    """What seeds [N, X] have in common."""
    there = np.isfinite(curves)
    count = there.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(count > 0, np.where(there, curves, 0.0).sum(axis=0) / count, np.nan)
        squares = np.where(there, np.square(curves - mean), 0.0).sum(axis=0)
        half = special.stdtrit(np.maximum(count - 1, 1), 0.975) * np.sqrt(squares / (count - 1) / count)
    half = np.where(count > 1, half, np.nan)
    return Band(mean, mean - half, mean + half, count)


def usual_window(logs: Sequence[Log]) -> int:
    """A fiftieth of the longest run, at least one episode."""
    return max(1, max((len(log.get("episode", ())) for log in logs), default=0) // 50)


def limits(groups: Sequence[np.ndarray]) -> tuple[float, float] | None:
    """The ends of a chart of groups of seeds [N, X]: all seeds, and of intervals what leaves the seeds half of the height.

    The interval of two seeds is twelve times as wide as what lies between them, and would hide it.
    """
    told = np.concatenate([own[np.isfinite(own)] for own in groups])
    if not len(told):
        return None
    low, high = float(told.min()), float(told.max())
    room, bands = (high - low) / 2, [band(own) for own in groups]
    lowest = np.nanmin(np.concatenate([b.low for b in bands]), initial=low)
    highest = np.nanmax(np.concatenate([b.high for b in bands]), initial=high)
    return max(float(lowest), low - room), min(float(highest), high + room)
