"""Analysis of variance with two factors, and intervals over groups of seeds."""

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple, SupportsFloat

import numpy as np
from scipy import special


class Anova(NamedTuple):
    """Whether a factor explains more of the values than chance would, given another factor."""

    f: float
    p: float
    factor_freedom: int
    residual_freedom: int


def anova(values: Sequence[float], factor: Sequence[Hashable], controlling: Sequence[Hashable]) -> Anova | None:
    """Analysis of variance of `factor`, controlling for another one, without interaction between them.

    F compares least squares with both against least squares with the other factor alone; cells may have different sizes. None
    where the values cannot tell: one level only, nothing left over, or no spread at all.
    """
    alone, both = _indicators(controlling), np.hstack([_indicators(controlling), _indicators(factor)])
    return _compared(np.asarray(values, float), alone, both)


def interaction(values: Sequence[float], one: Sequence[Hashable], other: Sequence[Hashable]) -> Anova | None:
    """The same for what two factors do together, beyond what each does alone; a cell needs several values for that."""
    alone = np.hstack([_indicators(one), _indicators(other)])
    return _compared(np.asarray(values, float), alone, _indicators(list(zip(one, other, strict=True))))


def interval_of_groups(
    groups: Sequence[np.ndarray],
    statistic: Callable[[np.ndarray], SupportsFloat],
    *,
    resamples: int = 2000,
    share: float = 0.95,
    seed: int = 0,
) -> tuple[float, float]:
    """The interval that holds `share` of what `statistic` of the groups' means is where each group is drawn anew from itself.

    A group is the seeds of a game: seeds are drawn with replacement, games are kept.
    """
    draws = np.random.default_rng(seed)
    means = [np.mean(group[draws.integers(len(group), size=(resamples, len(group)))], axis=1) for group in groups]
    found = [float(statistic(row)) for row in np.stack(means, axis=1)]
    low, high = np.quantile(found, [(1 - share) / 2, (1 + share) / 2])
    return float(low), float(high)


def _compared(values: np.ndarray, smaller: np.ndarray, larger: np.ndarray) -> Anova | None:
    """F of a larger linear model against a smaller one that it holds."""
    left, rank = _residual(values, smaller)
    left_larger, rank_larger = _residual(values, larger)
    gained, residual = rank_larger - rank, len(values) - rank_larger
    if gained <= 0 or residual <= 0 or left_larger <= 1e-12 * max(float(np.sum(values**2)), 1e-300):
        return None
    f = max(left - left_larger, 0.0) / gained / (left_larger / residual)
    return Anova(float(f), float(special.fdtrc(gained, residual, f)), gained, residual)


def _residual(values: np.ndarray, columns: np.ndarray) -> tuple[float, int]:
    """Sum of squares that the columns leave over, and their rank."""
    weights, _, rank, _ = np.linalg.lstsq(columns, values, rcond=None)
    return float(np.sum((values - columns @ weights) ** 2)), int(rank)


def _indicators(levels: Sequence[Hashable]) -> np.ndarray:
    """A column for each level: 1 where a value has it, [n, levels]."""
    names = list(dict.fromkeys(levels))
    return np.asarray([[float(level == name) for name in names] for level in levels])
