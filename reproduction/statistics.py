"""Intervals and tests over seeds. An unsolved run is censored: it takes longer than it was run.

Random draws have a fixed seed, so that a page made twice is the same page.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

DRAWS = 4000
PERMUTATIONS = 20_000
LEVEL = 0.95
_NORMAL = 1.959963984540054
"""The 97.5 % quantile of the normal distribution."""
_CHI2 = 3.841458820694124
"""The 95 % quantile of χ² with one degree of freedom."""
_ROUNDS = 100
"""Rounds of expectation and maximisation."""


class Interval(NamedTuple):
    """An estimate and its 95 % interval; an end is infinite if unsolved runs reach it."""

    estimate: float
    low: float
    high: float


class Episodes(NamedTuple):
    """The length of a run: the episode at which it was solved, or its last one."""

    episode: int
    solved: bool


class Comparison(NamedTuple):
    """A two-sided test; z above 0 means that the first group solves sooner."""

    z: float
    p: float
    strata: int


def censored_median(solved: Sequence[int | None]) -> float | None:
    """The median; None if unsolved runs reach the middle."""
    middle = float(np.median([np.inf if episode is None else episode for episode in solved]))
    return middle if np.isfinite(middle) else None


def median_words(solved: Sequence[int | None], episodes: int) -> str:
    """The median as text; `>E` if it is beyond the E episodes that were run."""
    middle = censored_median(solved)
    return f">{episodes}" if middle is None else f"{middle:g}"


def bootstrap(
    values: Sequence[float], statistic: Callable[[np.ndarray], np.ndarray], *, seed: int = 0, draws: int = DRAWS
) -> Interval:
    """A statistic of values [n] and its percentile interval; `statistic` maps [draws, n] to [draws]."""
    sample = np.asarray(values, float)
    chosen = np.random.default_rng(seed).integers(len(sample), size=(draws, len(sample)))
    low, high = _percentiles(statistic(sample[chosen]))
    return Interval(float(statistic(sample[None])[0]), low, high)


def mean_interval(values: Sequence[float] | np.ndarray) -> Interval:
    """A mean and Student's interval; a bootstrap of five values would cover only 84 %."""
    from scipy import stats

    sample = np.asarray(values, float)
    middle = float(sample.mean())
    half = float(stats.t.ppf((1 + LEVEL) / 2, len(sample) - 1) * sample.std(ddof=1) / math.sqrt(len(sample)))
    return Interval(middle, middle - half, middle + half)


def median_interval(solved: Sequence[int | None]) -> Interval:
    """Median episode of solving and its interval from order statistics; unsolved runs are later than all others.

    The ends are the k-th smallest and the k-th largest run (`median_rank`); with fewer than six runs they are 0 and infinity.
    """
    values = np.sort([np.inf if episode is None else float(episode) for episode in solved])
    middle = float(np.median(values)) if np.isfinite(values[len(values) // 2]) else math.inf
    k = median_rank(len(values))
    return Interval(middle, float(values[k - 1]), float(values[-k])) if k else Interval(middle, 0.0, math.inf)


def median_rank(count: int) -> int:
    """The largest k such that the k-th smallest and k-th largest run cover the median with 95 %; 0 if there is none."""
    tail, k = 0.0, 0
    while 2 * (tail := tail + math.comb(count, k) / 2**count) <= 1 - LEVEL:
        k += 1
    return k


def share(successes: int, count: int) -> Interval:
    """Share of successes with Wilson's interval, which does not shrink to a point if all succeed."""
    if count == 0:
        return Interval(math.nan, 0.0, 1.0)
    p, z2 = successes / count, _NORMAL**2
    centre = (p + z2 / (2 * count)) / (1 + z2 / count)
    half = _NORMAL * math.sqrt(p * (1 - p) / count + z2 / (4 * count**2)) / (1 + z2 / count)
    return Interval(p, min(p, max(0.0, centre - half)), max(p, min(1.0, centre + half)))  # rounding keeps p inside


def stratified_logrank(strata: Sequence[tuple[Sequence[Episodes], Sequence[Episodes]]], *, seed: int = 0) -> Comparison:
    """The log-rank test of two groups of runs, stratified by task.

    Observed minus expected solutions are summed over the tasks that both groups ran. Tasks have few runs, often one of each
    group, so z and p come from permutations of the runs within each task.
    """
    return stratified_trend([(second, first) for first, second in strata if first and second], seed=seed)


def stratified_trend(strata: Sequence[Sequence[Sequence[Episodes]]], *, seed: int = 0) -> Comparison:
    """Whether later groups solve sooner: the same test with the positions of the groups as weights."""
    generator = np.random.default_rng(seed)
    difference, variance, by_chance = 0.0, 0.0, np.zeros(PERMUTATIONS)
    for groups in strata:
        every = [e for group in groups for e in group]
        places = np.array([place for place, group in enumerate(groups) for _ in group], float)
        surplus = np.array([float(e.solved) for e in every])  # observed minus expected, for each run
        for episode in {e.episode for e in every if e.solved}:
            at_risk = np.array([e.episode >= episode for e in every])
            surplus -= at_risk * sum(e.episode == episode and e.solved for e in every) / at_risk.sum()
        difference += float(places @ surplus)
        if len(every) > 1:
            variance += float(surplus @ surplus) * float(places.var()) * len(every) / (len(every) - 1)
        by_chance += generator.permuted(np.broadcast_to(surplus, (PERMUTATIONS, len(every))), axis=1) @ places
    z = difference / math.sqrt(variance) if variance > 1e-12 else 0.0
    return Comparison(z, _rarity(difference, by_chance), len(strata))


class Paired(NamedTuple):
    """A two-sided test of pairs of runs."""

    ratio: Interval
    """Episodes of the first over those of the second, geometric mean over pairs."""
    p: float
    pairs: int
    first_faster: int
    second_faster: int


def sign_flip(pairs: Sequence[tuple[Episodes, Episodes]], *, seed: int = 0) -> Paired:
    """Whether the first group solves in fewer episodes, from pairs of runs with the same task and seed.

    The statistic is the mean of d = log(first / second); an unsolved run has the limit of episodes. p comes from random sign
    flips of the pairs. The interval is Student's over pairs.
    """
    d = np.array([math.log(first.episode / second.episode) for first, second in pairs])
    signs = np.random.default_rng(seed).integers(2, size=(PERMUTATIONS, len(d)), dtype=np.int8) * 2 - 1
    middle, low, high = mean_interval(d) if len(d) > 1 else (float(d[0]), -math.inf, math.inf)
    ratio = Interval(math.exp(middle), math.exp(low), math.exp(high))
    return Paired(ratio, _rarity(float(d.sum()), signs @ d), len(d), int((d < 0).sum()), int((d > 0).sum()))


def _rarity(difference: float, by_chance: np.ndarray) -> float:
    """The share of permutations that differ as much; the observed order is one of them."""
    return (1 + int((np.abs(by_chance) >= abs(difference) - 1e-9).sum())) / (1 + PERMUTATIONS)


def ratio_of_medians(pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Interval:
    """Episodes of the first group over those of the second: geometric mean over tasks of the ratio of medians.

    Unsolved runs count as solved at their last episode, which biases the ratio to 1 if both groups have them. The interval is
    Student's over the logarithms of the tasks; one task has none.
    """
    logs = [math.log(float(np.median(first)) / float(np.median(second))) for first, second in pairs]
    if len(logs) < 2:
        return Interval(math.exp(logs[0]), 0.0, math.inf)
    middle, low, high = mean_interval(logs)
    return Interval(math.exp(middle), math.exp(low), math.exp(high))


def power_law(sizes: Sequence[float], runs: Sequence[Episodes], *, seed: int = 0) -> tuple[float, Interval]:
    """c and b of episodes = c · size^b by maximum likelihood with log-normal errors; b has a bootstrap interval over runs.

    Unsolved runs are censored. If all are solved, this is least squares.
    """
    x, y = np.log(np.asarray(sizes, float)), np.log([float(run.episode) for run in runs])
    unsolved = np.array([not run.solved for run in runs])
    chosen = np.random.default_rng(seed).integers(len(x), size=(DRAWS, len(x)))
    chosen = chosen[np.ptp(x[chosen], axis=1) > 0]  # one size has no slope
    _, slopes = _censored_lines(x[chosen], y[chosen], unsolved[chosen])
    low, high = _percentiles(slopes)
    start, slope = _censored_lines(x[None], y[None], unsolved[None])
    return float(np.exp(start[0])), Interval(float(slope[0]), low, high)


def fit_psi(outcomes: Sequence[tuple[int, int, int]], heads: int) -> Interval:
    """ψ by maximum likelihood from (size, solved, runs), with its likelihood-ratio interval.

    Success has probability 1 − (1 − ψ^N)^K: one of K heads makes N moves that are each right with probability ψ. The grid of
    ψ has four decimals between 0.5 and 1. If every run is solved, the estimate is 1 and only the lower end is informative.
    """
    grid = np.append(np.arange(5000, 10_000) / 10_000, 1 - 1e-9)
    likelihood = np.zeros(len(grid))
    for size, solved, count in outcomes:
        log_fail = heads * np.log1p(-(grid**size))
        log_success = np.log(np.maximum(-np.expm1(log_fail), 1e-300))
        likelihood += solved * log_success + (count - solved) * log_fail
    best = int(np.flatnonzero(likelihood >= likelihood.max() - 1e-12)[-1])  # the last of equals: 1 if all succeed
    inside = grid[likelihood >= likelihood[best] - _CHI2 / 2]
    return Interval(round(float(grid[best]), 4), round(float(inside[0]), 4), round(float(inside[-1]), 4))


def waiting_shape(strata: Sequence[Sequence[Episodes]]) -> Interval:
    """The shape of Weibull's law of times to solve, one for all strata, with its likelihood-ratio interval.

    Shape 1 is a search without memory: every episode is equally likely to succeed. Below 1 the tail is heavy. Every
    stratum has its own scale. Unsolved runs are censored. The grid is from 0.05 to 20.
    """
    grid = np.geomspace(0.05, 20, 2000)
    likelihood = np.zeros(len(grid))
    for runs in strata:
        times = np.array([run.episode for run in runs], float)
        solved = np.array([run.solved for run in runs], bool)
        logs, count = np.log(times / times.max()), solved.sum()  # the unit does not matter
        if count:
            scale = np.exp(grid[:, None] * logs).sum(axis=1) / count
            likelihood += count * (np.log(grid) - np.log(scale)) + (grid - 1) * logs[solved].sum()
    best = int(likelihood.argmax())
    inside = grid[likelihood >= likelihood[best] - _CHI2 / 2]
    return Interval(float(grid[best]), float(inside[0]), float(inside[-1]))


class Stuck(NamedTuple):
    """Times to solve as a mixture: a body with Weibull's law and a share of runs that are never solved."""

    share: float
    shape: float
    """Of the body's law."""
    p: float
    """Of the likelihood-ratio test against one Weibull law for all runs."""


def stuck_runs(runs: Sequence[Episodes]) -> Stuck:
    """Whether a Weibull law with a share of stuck runs fits better than one without, by maximum likelihood.

    Unsolved runs are stuck, or belong to the body and are censored. For each shape of a grid, expectation and
    maximisation find the share. One law is share 0, the end of its range, so p is half of that of χ² with one degree
    of freedom.
    """
    from scipy import stats

    shapes = np.geomspace(0.05, 20, 1000)
    times = np.array([run.episode for run in runs], float)
    solved = np.array([run.solved for run in runs], bool)
    count = int(solved.sum())
    if count < 2 or count == len(runs):
        return Stuck(0.0, waiting_shape([runs]).estimate, 1.0)
    logs = np.log(times / times.max())
    powers = np.exp(shapes[:, None] * logs)  # [shapes, runs]

    def likelihood(stuck: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Log-likelihood by shape; `scale` is to the power of the shape."""
        survival = np.exp(-powers / scale[:, None])
        body = np.log(shapes / scale)[:, None] + (shapes[:, None] - 1) * logs - powers / scale[:, None]
        beyond = np.log(stuck[:, None] + (1 - stuck[:, None]) * survival + 1e-300)
        return np.where(solved, body + np.log1p(-stuck)[:, None], beyond).sum(axis=1)

    one = float(likelihood(np.zeros(len(shapes)), powers.sum(axis=1) / count).max())
    stuck = np.full(len(shapes), 0.5 * (1 - count / len(runs)))
    scale = powers.sum(axis=1) / count
    for _ in range(_ROUNDS):
        alive = (1 - stuck[:, None]) * np.exp(-powers / scale[:, None])
        in_body = np.where(solved, 1.0, alive / (stuck[:, None] + alive + 1e-300))
        scale = (in_body * powers).sum(axis=1) / count
        stuck = 1 - in_body.mean(axis=1)
    by_shape = likelihood(stuck, scale)
    best = int(by_shape.argmax())
    gain = max(0.0, 2 * (float(by_shape[best]) - one))
    return Stuck(float(stuck[best]), float(shapes[best]), float(stats.chi2.sf(gain, 1) / 2) if gain > 1e-6 else 1.0)


def _percentiles(values: np.ndarray) -> tuple[float, float]:
    """The ends of the interval; nearest values, because a value may be infinite."""
    low, high = np.percentile(values, [50 * (1 - LEVEL), 50 * (1 + LEVEL)], method="nearest")
    return float(low), float(high)


def _censored_lines(x: np.ndarray, y: np.ndarray, beyond: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Intercepts and slopes [D] of lines through points [D, n]; those in `beyond` are censored: somewhere above y.

    By expectation and maximisation: a censored value is replaced by its expectation given the line and its spread.
    """
    from scipy import special

    centred = x - x.mean(axis=1, keepdims=True)

    def least_squares(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        slope = (centred * values).sum(axis=1) / (centred * centred).sum(axis=1)
        return values.mean(axis=1) - slope * x.mean(axis=1), slope

    start, slope = least_squares(y)
    spread = np.sqrt(((y - start[:, None] - slope[:, None] * x) ** 2).mean(axis=1, keepdims=True)) + 1e-9
    for _ in range(_ROUNDS if beyond.any() else 0):
        line = start[:, None] + slope[:, None] * x
        z = (y - line) / spread
        hazard = np.exp(-(z**2) / 2 - special.log_ndtr(-z)) / math.sqrt(2 * math.pi)
        expected = np.where(beyond, line + spread * hazard, y)
        uncertain = np.where(beyond, spread**2 * (1 + z * hazard - hazard**2), 0.0)
        start, slope = least_squares(expected)
        error = expected - start[:, None] - slope[:, None] * x
        spread = np.sqrt((error**2 + uncertain).mean(axis=1, keepdims=True)) + 1e-9
    return start, slope
