"""Learning curves: a column of a log over episodes, steps or seconds, smoothed, and the mean over seeds.

A seed's curve at x is the mean over the last `window` episodes that ended by x. The mean over seeds is defined only where
every seed has a value: a seed that ends early would otherwise change the mean. A seed that ended because it reached its goal
keeps its last value up to the end of the longest seed. The mean's 95 % interval is Student's t, cut at the
ends of a return in [0, 1] or [-1, 1] (`bounds`). Values that are not finite are ignored.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from tdu.run.folder.log import Log

AXES = {"episodes": "episode", "steps": "steps", "seconds": "seconds"}  # The log's column of each axis

POINTS = 200

Bounds = tuple[float, float]
NO_BOUNDS = (-np.inf, np.inf)


class Seed(NamedTuple):
    """What is drawn of a run."""

    log: Log
    has_reached_goal: bool
    """Whether the run ended because it reached its goal."""


class Curves(NamedTuple):
    """Curves of a group of seeds, [N, X]."""

    own: np.ndarray
    kept: np.ndarray
    """For the mean: a seed that reached its goal keeps its last value up to the end of the longest seed."""


FEWEST = 3
"""The number of seeds from which an interval is drawn. That of two seeds is twelve times as wide as their distance."""


class Band(NamedTuple):
    """Mean over seeds and its interval at X places; NaN where a seed has no value."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def grid(logs: Sequence[Log], axis: str, points: int = POINTS) -> np.ndarray:
    """The places of a chart, from the end of the first episode to the end of the last one: at most `points`, [X]."""
    ends = [log[AXES[axis]] for log in logs if len(log.get(AXES[axis], ()))]
    if not ends:
        return np.zeros(0)
    low, high = min(float(end[0]) for end in ends), max(float(end[-1]) for end in ends)
    if axis != "seconds" and high - low < points:
        return np.arange(low, high + 1)
    return np.linspace(low, high, points)


def of_group(seeds: Sequence[Seed], column: str, axis: str, at: np.ndarray, window: int) -> Curves:
    """The curves of the seeds that have the column."""
    having = [seed for seed in seeds if column in seed.log]
    longest = max((float(log[AXES[axis]][-1]) for log, _ in having if len(log.get(AXES[axis], ()))), default=None)
    own = [curve(log, column, axis, at, window) for log, _ in having]
    kept = [
        curve(seed.log, column, axis, at, window, longest) if seed.has_reached_goal else one
        for seed, one in zip(having, own, strict=True)
    ]
    return Curves(np.reshape(own, (len(own), len(at))), np.reshape(kept, (len(kept), len(at))))


def curve(log: Log, column: str, axis: str, at: np.ndarray, window: int, kept_until: float | None = None) -> np.ndarray:
    """A seed's curve at each place, [X]; NaN before its first episode has ended and after its last, or `kept_until`."""
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
    return np.where((at < x[0]) | (at > (x[-1] if kept_until is None else kept_until)), np.nan, means)


def bounds(values: Iterable[np.ndarray]) -> Bounds:
    """The range that an interval may not leave: [0, 1], or from the lowest value down to -1; open for other values."""
    finite = np.concatenate([np.ravel(some)[np.isfinite(np.ravel(some))] for some in values] or [np.zeros(0)])
    low, high = float(finite.min(initial=0.0)), float(finite.max(initial=1.0))
    return low if low >= -1 else -np.inf, high if high <= 1 else np.inf


def band(curves: np.ndarray, within: Bounds = NO_BOUNDS, *, fewest: int = FEWEST) -> Band:
    """Mean and interval over seeds [N, X]; a seed without any value does not count. Fewer than `fewest` have no interval."""
    curves = curves[np.isfinite(curves).any(axis=1)]
    count = len(curves)
    if not count:
        nothing = np.full(curves.shape[1], np.nan)
        return Band(nothing, nothing, nothing)
    mean = curves.mean(axis=0)  # NaN where a seed has none
    if count < fewest:
        return Band(mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan))
    half = special.stdtrit(count - 1, 0.975) * curves.std(axis=0, ddof=1) / np.sqrt(count)
    return Band(mean, np.maximum(mean - half, within[0]), np.minimum(mean + half, within[1]))


def usual_window(logs: Sequence[Log]) -> int:
    """A fiftieth of the longest run, at least one episode."""
    return max(1, max((len(log.get("episode", ())) for log in logs), default=0) // 50)


def limits(groups: Sequence[np.ndarray], within: Bounds = NO_BOUNDS) -> Bounds | None:
    """The ends of the y axis of groups of seeds [N, X]: all seeds, and intervals within half of the seeds' height."""
    finite = np.concatenate([seeds[np.isfinite(seeds)] for seeds in groups])
    if not len(finite):
        return None
    low, high = float(finite.min()), float(finite.max())
    room, bands = (high - low) / 2, [band(seeds, within) for seeds in groups]
    lowest = np.nanmin(np.concatenate([b.low for b in bands]), initial=low)
    highest = np.nanmax(np.concatenate([b.high for b in bands]), initial=high)
    return max(float(lowest), low - room), min(float(highest), high + room)
