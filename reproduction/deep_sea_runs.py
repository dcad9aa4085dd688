"""Runs on Deep Sea: ids, rows by size, bsuite's score of them, and lucky solves."""

import csv
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from reproduction import statistics
from reproduction.experiment import EPISODES, Measured, Verdict, cell
from reproduction.rows import RunRow, first_of_each
from reproduction.statistics import Interval
from tdu.environments import parse
from tdu.report.bsuite_scores import beats_dithering, logged_from
from tdu.run import folder as run_folder
from tdu.run.sweeps import Cell

SIZES = tuple(range(10, 51, 2))
FEW_SIZES = (10, 20, 30, 40, 50)
ENSEMBLES = ("tdu", "bdqn")
VARIANTS = (False, True)
"""Deterministic and stochastic Deep Sea."""
CHESTS = 10
"""A solved run on stochastic Deep Sea that reached fewer chests is a lucky solve."""
EARLY = 500
"""Most lucky solves are before this episode."""
LUCKY, UNKNOWN = "°", "?"
ABOUT_LUCK = (
    f"{LUCKY} marks a run that counts as solved with fewer than ten chests. {UNKNOWN} marks a solved run whose chests were "
    "not recorded. bsuite counts an episode as bad if the agent goes left on the diagonal. On stochastic Deep Sea a slip "
    "leaves the diagonal and the episode is then not bad, so a run can count as solved without the chest."
)


def deep_sea_id(size: int, *, stochastic: bool) -> str:
    """The id of an environment."""
    return f"deep_sea:size={size}" + (",stochastic=true" if stochastic else "")


def size_of(env: str) -> int:
    """The size in an id."""
    return int(parse(env).options()["size"])


def is_stochastic(env: str) -> bool:
    """Whether an id is of stochastic Deep Sea."""
    return parse(env).options().get("stochastic") == "true"


def variant(stochastic: bool) -> str:
    """The word for a variant."""
    return "stochastic" if stochastic else "deterministic"


def deep_sea_cells(
    agents: Sequence[str],
    seeds: Iterable[int],
    *,
    sizes: Sequence[int] = SIZES,
    variants: Sequence[bool] = VARIANTS,
    **options: Any,
) -> list[Cell]:
    """Runs by seed, variant, size and agent, in this order; `options` are those of `cell`."""
    return [
        cell(deep_sea_id(size, stochastic=stochastic), agent, seed, **options)
        for seed, stochastic, size, agent in itertools.product(seeds, variants, sizes, agents)
    ]


def measure(folder: Path, result: run_folder.RunResult) -> Measured:
    """Whether bsuite counts the run as solved, and how often the chest was reached."""
    chests = run_folder.read_log(folder / "log.csv")["denoised_return"]
    score = float(beats_dithering(result.solved_episode, size_of(result.env)))
    return Measured(score=score, successes=round(float(chests[-1])))


def group(
    rows: Sequence[RunRow],
    agent: str,
    *,
    stochastic: bool,
    preset: str = "paper",
    options: str = "",
    sizes: Sequence[int] = SIZES,
    limit: int = EPISODES,
) -> dict[int, list[RunRow]]:
    """One agent's runs with these options, by size and in order of seeds."""
    by_size: dict[int, list[RunRow]] = {}
    size_of_env = {deep_sea_id(size, stochastic=stochastic): size for size in sizes}
    for row in first_of_each(rows).values():
        wanted = (row.agent, row.preset, row.options, row.limit) == (agent, preset, options, limit)
        if wanted and row.env in size_of_env:
            by_size.setdefault(size_of_env[row.env], []).append(row)
    return {size: sorted(by_size[size], key=lambda row: row.seed) for size in sorted(by_size)}


def prior_scale_one(rows: Sequence[RunRow], preset: str = "paper") -> dict[int, list[RunRow]]:
    """TDU's runs at λ = 1 on deterministic Deep Sea, by size."""
    return group(rows, "tdu", stochastic=False, preset=preset, options="prior_scale=1.0")


class DeepSeaScore(NamedTuple):
    """bsuite's score of one method: the share of sizes solved."""

    by_seed: dict[int, int]
    """Number of solved sizes of each seed that has all of `sizes`."""
    all: Interval
    """bsuite's rule at every episode."""
    official: Interval
    """bsuite's rule at the episodes that bsuite logs."""
    sizes: Sequence[int]
    rows: Sequence[RunRow]
    """Every run of these seeds and sizes."""

    @property
    def is_whole(self) -> bool:
        """Whether a seed has all 21 sizes."""
        return bool(self.by_seed) and len(self.sizes) == len(SIZES)


def score(by_size: Mapping[int, Sequence[RunRow]], sizes: Sequence[int]) -> DeepSeaScore:
    """The score over the seeds that have all of `sizes`, so that every size has the same weight."""
    runs = {(size, row.seed): row for size in sizes for row in by_size.get(size, ())}
    seeds = sorted({seed for _, seed in runs if all((size, seed) in runs for size in sizes)})
    by_seed = {seed: sum(_counts(runs[size, seed]) for size in sizes) for seed in seeds}
    rows = [runs[size, seed] for seed in seeds for size in sizes]
    every, official = (statistics.share(sum(map(counts, rows)), len(rows)) for counts in (_counts, counts_officially))
    return DeepSeaScore(by_seed, every, official, sizes, rows)


def best_score(by_size: Mapping[int, Sequence[RunRow]]) -> DeepSeaScore:
    """The score over all sizes if a seed has them, otherwise over the five that every method is run on."""
    whole = score(by_size, SIZES)
    return whole if whole.by_seed else score(by_size, FEW_SIZES)


def _counts(row: RunRow) -> bool:
    return beats_dithering(row.solved_episode, size_of(row.env))


def counts_officially(row: RunRow) -> bool:
    """Whether bsuite's score counts a run, if it is still solved at the next episode that bsuite logs."""
    solved = row.solved_episode
    return solved is not None and beats_dithering(logged_from(solved), size_of(row.env))


def published() -> dict[str, list[tuple[int, int]]]:
    """Published episodes to solve by method, as (size, episodes), from published_deep_sea.csv.

    DP-DQN and the tabular agents are as reported by DP-DQN's authors. Their fit 5.33·N^1.45 is below their own point at size
    50, so the file has the points. HyperAgent's numbers are budgets, not episodes to solve, and are left out.
    """
    points: dict[str, list[tuple[int, int]]] = {}
    with open(Path(__file__).parent / "published_deep_sea.csv", newline="") as f:
        for row in csv.DictReader(f):
            if "budget" not in row["note"]:
                points.setdefault(row["method"], []).append((int(row["size"]), int(row["episodes_to_solve"])))
    return points


def luck(row: RunRow) -> str:
    """The mark of a lucky solve on stochastic Deep Sea, or of a solve that may be lucky."""
    if row.solved_episode is None or not is_stochastic(row.env):
        return ""
    return UNKNOWN if row.successes is None else LUCKY if row.successes < CHESTS else ""


def without_luck(rows: Sequence[RunRow], *, early_unknown: bool = False) -> list[RunRow]:
    """The same rows with lucky solves as unsolved; with `early_unknown` also early solves that may be lucky."""

    def excluded(row: RunRow) -> bool:
        mark = luck(row)
        return mark == LUCKY or (early_unknown and mark == UNKNOWN and (row.solved_episode or 0) < EARLY)

    return [row._replace(solved_episode=None, score=0.0) if excluded(row) else row for row in rows]


def luck_words(
    shown: Sequence[RunRow], rows: Sequence[RunRow], verdicts: Callable[[Sequence[RunRow]], Mapping[str, Verdict]]
) -> str:
    """How many of the shown runs are lucky solves, and the verdicts on all rows without them."""
    marks = [luck(row) for row in shown]
    early = sum((row.solved_episode or 0) < EARLY for row, mark in zip(shown, marks, strict=True) if mark == UNKNOWN)
    solved = sum(row.solved_episode is not None for row in shown)
    parts = [
        f"Of {solved} solved runs on stochastic Deep Sea, {marks.count(LUCKY)} had fewer than ten chests (lucky); "
        f"for {marks.count(UNKNOWN)} the chests were not recorded. If lucky runs count as unsolved:",
        _list(verdicts(without_luck(rows))),
    ]
    if early:
        parts += [
            f"If runs with unrecorded chests, solved before episode {EARLY}, count as unsolved too ({early} runs here):",
            _list(verdicts(without_luck(rows, early_unknown=True))),
        ]
    return "\n\n".join(parts)


def _list(verdicts: Mapping[str, Verdict]) -> str:
    return "\n".join(f"- {claim}, {verdict.word}: {verdict.because}." for claim, verdict in verdicts.items())
