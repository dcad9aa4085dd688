"""Runs on Deep Sea by method and size, and bsuite's score of them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from reproduction.deep_sea_runs import sea, size_of
from reproduction.experiment import EPISODES
from reproduction.rows import Row, first_of_each
from tdu.report import statistics
from tdu.report.bsuite_scores import beats_dithering, logged_from
from tdu.report.statistics import Interval

SIZES = tuple(range(10, 51, 2))
FEW_SIZES = (10, 20, 30, 40, 50)
LARGEST_SIZES = (44, 46, 48, 50)
ENSEMBLES = ("tdu", "bdqn")
METHODS = (*((name, preset) for preset in ("paper", "listing", "boot_dqn") for name in ENSEMBLES), ("dqn", "paper"))


def group(
    rows: Sequence[Row],
    agent: str,
    *,
    stochastic: bool,
    preset: str = "paper",
    options: str = "",
    sizes: Sequence[int] = SIZES,
    limit: int = EPISODES,
) -> dict[int, list[Row]]:
    """One agent's runs with these changes to its preset, by size, one row for each seed."""
    found: dict[int, list[Row]] = {}
    size_of_sea = {sea(size, stochastic=stochastic): size for size in sizes}
    for row in first_of_each(rows).values():
        mine = (row.agent, row.preset, row.options, row.limit) == (agent, preset, options, limit)
        if mine and row.env in size_of_sea:
            found.setdefault(size_of_sea[row.env], []).append(row)
    return {size: sorted(found[size], key=lambda row: row.seed) for size in sorted(found)}


class Score(NamedTuple):
    """bsuite's score of one method: the share of sizes solved."""

    by_seed: dict[int, int]
    """Solved sizes of each seed that has all of `sizes`."""
    all: Interval
    """bsuite's rule at every episode."""
    official: Interval
    """bsuite's rule at the episodes that bsuite logs."""
    sizes: Sequence[int]
    rows: Sequence[Row]
    """Every run of these seeds and sizes."""

    @property
    def is_whole(self) -> bool:
        """Whether a seed has every size."""
        return bool(self.by_seed) and len(self.sizes) == len(SIZES)


def score(by_size: Mapping[int, Sequence[Row]], sizes: Sequence[int]) -> Score:
    """Over the seeds that have all of some sizes, so that every size weighs the same."""
    found = {(size, row.seed): row for size in sizes for row in by_size.get(size, ())}
    seeds = sorted({seed for _, seed in found if all((size, seed) in found for size in sizes)})
    by_seed = {seed: sum(_counts(found[size, seed]) for size in sizes) for seed in seeds}
    mine = [found[size, seed] for seed in seeds for size in sizes]
    every, official = (statistics.share(sum(map(counts, mine)), len(mine)) for counts in (_counts, counts_officially))
    return Score(by_seed, every, official, sizes, mine)


def _counts(row: Row) -> bool:
    return beats_dithering(row.solved_episode, size_of(row.env))


def counts_officially(row: Row) -> bool:
    """Whether bsuite's score counts a run, which is taken to be still solved at the next episode that bsuite logs."""
    solved = row.solved_episode
    return solved is not None and beats_dithering(logged_from(solved), size_of(row.env))


def best_score(by_size: Mapping[int, Sequence[Row]]) -> Score:
    """Over all sizes where a seed has them, otherwise over the five that every method is run on."""
    whole = score(by_size, SIZES)
    return whole if whole.by_seed else score(by_size, FEW_SIZES)


def at_one(rows: Sequence[Row], preset: str = "paper") -> dict[int, list[Row]]:
    """TDU's runs at λ = 1, deterministic, by size."""
    return group(rows, "tdu", stochastic=False, preset=preset, options="prior_scale=1.0")


def variant(stochastic: bool) -> str:
    """What a sea is called."""
    return "stochastic" if stochastic else "deterministic"
