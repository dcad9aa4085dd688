"""Tests between groups of rows, and how several statements become one verdict."""

from collections.abc import Mapping, Sequence

from reproduction import statistics
from reproduction.experiment import Word
from reproduction.rows import RunRow
from reproduction.statistics import Comparison, Episodes, Interval, Paired

BySize = Mapping[int, Sequence[RunRow]]
"""Rows by size or depth."""


def judged(*statements: bool | None) -> Word:
    """The word for a claim with several statements: True holds, False fails, None is open."""
    if all(statements):
        return "reproduced"
    if any(statements):
        return "partly reproduced"
    return "not reproduced" if any(held is False for held in statements) else "inconclusive"


def sooner(test: Comparison) -> bool | None:
    """Whether the first group solves sooner; None if p is 0.05 or more."""
    return test.z > 0 if test.p < 0.05 else None


def faster(test: Paired) -> bool | None:
    """Whether the first group is faster by the paired test; None if p is 0.05 or more."""
    return test.ratio.estimate < 1 if test.p < 0.05 else None


def at_least(interval: Interval, bound: float) -> bool | None:
    """Whether the whole interval reaches a bound; None if the bound lies inside."""
    return True if interval.low >= bound else False if interval.high < bound else None


def solve_times(rows: Sequence[RunRow]) -> list[Episodes]:
    """The episode at which each run was solved, or the last one if it was not."""
    return [Episodes(row.solved_episode or row.episodes, row.solved_episode is not None) for row in rows]


def mastery_times(rows: Sequence[RunRow]) -> list[Episodes]:
    """The episode at which each run was mastered, or the last one if it was not."""
    return [Episodes(row.mastered_episode or row.episodes, row.mastered_episode is not None) for row in rows]


def solved_count(rows: Sequence[RunRow]) -> int:
    """The number of solved runs."""
    return sum(row.solved_episode is not None for row in rows)


def logrank(first: BySize, second: BySize) -> Comparison:
    """Whether the first runs solve sooner, stratified by the sizes that both have."""
    return statistics.stratified_logrank(
        [(solve_times(first[n]), solve_times(second[n])) for n in first if n in second]
    )


def paired(first: BySize, second: BySize) -> Paired | None:
    """The test of pairs of runs with the same size and seed; None if there are no pairs."""
    partners = {(size, row.seed): row for size, rows in second.items() for row in rows}
    pairs = [
        (row, partners[size, row.seed]) for size, rows in first.items() for row in rows if (size, row.seed) in partners
    ]
    return paired_runs(pairs) if pairs else None


def paired_runs(pairs: Sequence[tuple[RunRow, RunRow]]) -> Paired:
    """The same test for given pairs."""
    return statistics.sign_flip([(first, second) for first, second in map(solve_times, pairs)])


def middle(rows: Sequence[RunRow]) -> float:
    """The median episode of solving; the largest number of episodes run if half of the runs are unsolved."""
    median = statistics.censored_median([row.solved_episode for row in rows])
    return max(row.episodes for row in rows) if median is None else median
