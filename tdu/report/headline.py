"""The result of a group of runs, one agent on one environment, in a few numbers."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from tdu.report import curves
from tdu.report.collect import StoredRun
from tdu.report.text import rounded


class Headline(NamedTuple):
    """The trained policies of a group. None is a value that the runs do not have."""

    seeds: int  # Seeds with an evaluation of the trained policy
    episodes: int  # Episodes of their evaluations
    mean: float | None
    low: float | None  # 95 % interval: over seeds, or over the evaluation's episodes where there is one seed
    high: float | None
    best: float | None  # The best single evaluation of any seed
    mean_length: float | None  # Mean number of steps of an evaluation episode, over seeds
    success_rate: float | None
    """Share of successful evaluation episodes, over seeds; None if the environment does not report success."""


class Reached(NamedTuple):
    """When the seeds of a group reached a return, or met a rule."""

    what: str
    unit: str  # step or episode
    by_seed: dict[int, int | None]  # None for a seed that did not

    def __str__(self) -> str:
        """The median over all seeds; one that did not get there counts as later than all others."""
        middle, seeds = median(self.by_seed.values()), len(self.by_seed)
        if np.isfinite(middle):
            return f"{self.unit} {middle:,.0f}" + (f" (median of {seeds} seeds)" if seeds > 1 else "")
        count = sum(when is not None for when in self.by_seed.values())
        return f"{count} of {seeds} seeds" if count else "not reached"


def median(reached: Iterable[int | None]) -> float:
    """The median of times at which something was reached; None is never."""
    return float(np.median([np.inf if at is None else at for at in reached]))


def headline(seeds: Sequence[StoredRun]) -> Headline:
    trained = [run.trained_return for run in seeds if run.trained_return is not None]
    if not trained:
        return Headline(0, 0, None, None, None, None, None, None)
    best = max(run.best_return for run in seeds if run.best_return is not None)
    means = np.asarray([[one.mean] for one in trained])
    logged = [run.log["episode_return"] for run in seeds if "episode_return" in run.log]
    within, episodes = curves.bounds([means, *logged]), sum(one.episodes for one in trained)
    mean, low, high = (float(x[0]) for x in curves.band(means, within, fewest=2))
    if len(trained) == 1 and episodes >= _ENOUGH:
        half = 1.96 * trained[0].standard_error
        low, high = max(mean - half, within[0]), min(mean + half, within[1])
    length, success = (_mean(getattr(one, name) for one in trained) for name in ("mean_length", "success_rate"))
    ends = (None, None) if np.isnan(low) else (low, high)
    return Headline(len(trained), episodes, mean, ends[0], ends[1], best, length, success)


def _mean(values: Iterable[float | None]) -> float | None:
    """The mean of the values that are known."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


_ENOUGH = 5  # Episodes of an evaluation that are enough for an interval


def reached(seeds: Sequence[StoredRun], target: float) -> Reached | None:
    """The step of each seed's first evaluation of at least `target`; None without evaluations during the runs."""
    evaluated = [run for run in seeds if run.evaluations]
    found = {run.config.seed: run.first_reached(target) for run in evaluated}
    what = f"First evaluation of at least {rounded(target)}"
    return Reached(what, "step", {seed: at and at[1] for seed, at in found.items()}) if found else None


def first_as_good(seeds: Sequence[StoredRun]) -> Reached | None:
    """The step at which each seed's policy was first as good as at the end, within a standard error. None where every
    episode of every seed returned the same: nothing was reached.
    """
    found, targets = dict[int, int | None](), list[float]()
    returns = [run.log["episode_return"] for run in seeds if "episode_return" in run.log]
    if returns and np.ptp(np.concatenate(returns)) == 0:
        return None
    for run in seeds:
        trained = run.trained_return
        if run.evaluations and trained is not None:
            targets.append(trained.mean - trained.standard_error)
            at = run.first_reached(targets[-1])
            found[run.config.seed] = at and at[1]
    if not found:
        return None
    low, high = rounded(min(targets)), rounded(max(targets))
    least = low if low == high else f"{low} to {high}, depending on the seed"
    return Reached(f"First evaluation of at least {least}", "step", found)


def mastered(seeds: Sequence[StoredRun]) -> Reached | None:
    """When the greedy policy mastered the task; None where the environment has no optimal path."""
    ended = [(run.config.seed, run.result) for run in seeds if run.result is not None]
    found = {seed: result.mastered_episode for seed, result in ended if result.optimal_depth is not None}
    return Reached("Mastered", "episode", found) if found else None


def solved(seeds: Sequence[StoredRun]) -> Reached | None:
    """When the environment's rule for a solved task first held; None where it has no rule."""
    ended = [(run.config.seed, run.result) for run in seeds if run.result is not None]
    found = {seed: result.solved_episode for seed, result in ended if result.has_solved_rule}
    return Reached("Solved by the environment's rule", "episode", found) if found else None
