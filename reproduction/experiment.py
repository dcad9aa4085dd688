"""What an experiment is: a grid of runs with what is measured of each and what is made of all; or a function of its own."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from reproduction.rows import Row, first_of_each, identity
from tdu import agents
from tdu.report import statistics
from tdu.report.statistics import Comparison, Episodes, Interval, Paired
from tdu.run import folder as runs
from tdu.run.runners.mastery import Until
from tdu.run.sweeps import Cell

EPISODES = 10_000
"""Where runs on Deep Sea and the tree are censored, as in bsuite."""

PRESETS = {"laptop": "a thinned grid", "paper": "the grid as published"}


class Measured(NamedTuple):
    """What a row says of a run beside what every result has."""

    score: float | None = None
    successes: int | None = None
    full_depth_episode: int | None = None


Word = Literal[
    "reproduced", "partly reproduced", "not reproduced", "inconclusive", "not yet enough data", "answered",
    "reached", "not reached",
]  # fmt: skip


class Verdict(NamedTuple):
    """What the rows say about the claim, by the rule that the experiment's page states."""

    word: Word
    because: str


def judged(*statements: bool | None) -> Word:
    """The word for a claim of several statements, each of which holds, does not, or is left open by the runs there are."""
    if all(statements):
        return "reproduced"
    if any(statements):
        return "partly reproduced"
    return "not reproduced" if any(held is False for held in statements) else "inconclusive"


def checked(statements: Mapping[str, bool | None]) -> str:
    """Which statements hold, which do not, and which the runs leave open."""
    words = {"holds": True, "does not": False, "open": None}
    found = {word: [name for name, held in statements.items() if held is value] for word, value in words.items()}
    return "; ".join(f"{word}: {', '.join(names)}" for word, names in found.items() if names)


def sooner(test: Comparison) -> bool | None:
    """Whether a test says that the first group solves sooner; None where it says neither that nor the opposite."""
    return test.z > 0 if test.p < 0.05 else None


def at_least(found: Interval, bound: float) -> bool | None:
    """Whether all of an interval reaches a bound, or none of it does; None where the bound lies inside."""
    return True if found.low >= bound else False if found.high < bound else None


class Report(NamedTuple):
    """What is made of an experiment's rows, without training."""

    verdicts: Mapping[str, Verdict]
    """By claim."""
    body: str
    """Markdown: tables with their intervals, and what the figures show."""
    figures: Mapping[str, Callable[[], Any]]
    """What draws each figure, by name."""
    details: str = ""
    """Markdown for the end of the page: tables of every run."""
    shown: Sequence[Row] = ()
    """Rows in tables and figures, where they are more than those of the grid: other seeds."""


class Grid(NamedTuple):
    """An experiment that is a grid of runs."""

    summary: str
    claims: Mapping[str, str]
    """What is to be shown, by the name that verdicts use."""
    rules: str
    """By which rule the verdict is computed, in short; results/RULES.md has all of it."""
    cells: Callable[[str], list[Cell]]
    """Its runs under a preset, the most valuable first."""
    left_out: str
    """What the laptop preset leaves out of the longer one."""
    measure: Callable[[Path, runs.RunResult], Measured]
    report: Callable[[Sequence[Row]], Report]
    next_cells: Callable[[str, Sequence[Row]], list[Cell]] | None = None
    """Runs of later stages, which depend on the rows of earlier ones."""

    check: Callable[[], Any] = lambda: None
    """Raises a UserError where `measure` needs an extra that is not here."""

    def all_cells(self, preset: str, rows: Sequence[Row]) -> list[Cell]:
        """Its runs as far as these rows determine them."""
        return self.cells(preset) + (self.next_cells(preset, rows) if self.next_cells else [])


class Own(NamedTuple):
    """An experiment that is a function of its own."""

    summary: str
    reproduce: Callable[..., Any]
    """Is called with the folder of its results, and `preset`."""
    pages: Callable[[Path], Any]
    """Is called with the same folder, and computes nothing."""


def cell(
    env: str,
    agent: str,
    seed: int,
    *,
    preset: str = "paper",
    episodes: int | None = EPISODES,
    until: Until = "solved",
    **options: Any,
) -> Cell:
    """A run of a grid. Options that are the preset's own are left unsaid, so that one run has one name in every grid."""
    if not options:
        return Cell(env, agent, preset, seed=seed, episodes=episodes, until=until)
    default = _defaults(agent, preset)
    chosen = dataclasses.asdict(agents.configure(agent, options, preset))
    changed = tuple((name, chosen[name]) for name in sorted(options) if chosen[name] != default[name])
    return Cell(env, agent, preset, changed, seed=seed, episodes=episodes, until=until)


@functools.cache
def _defaults(agent: str, preset: str) -> dict[str, Any]:
    return dataclasses.asdict(agents.configure(agent, {}, preset))


def select(rows: Sequence[Row], cells: Sequence[Cell]) -> list[Row]:
    """The rows of these runs, in the order of the runs."""
    found = first_of_each(rows)
    return [found[key] for key in dict.fromkeys(map(identity, cells)) if key in found]


def ended(rows: Sequence[Row]) -> list[Episodes]:
    """When each run was solved, or that it was not."""
    return [Episodes(row.solved_episode or row.episodes, row.solved_episode is not None) for row in rows]


def against(first: Mapping[int, Sequence[Row]], second: Mapping[int, Sequence[Row]]) -> Comparison:
    """Whether the first runs solve sooner, on the sizes that both have, each compared with itself."""
    return statistics.stratified_logrank([(ended(first[n]), ended(second[n])) for n in first if n in second])


def paired(first: Mapping[int, Sequence[Row]], second: Mapping[int, Sequence[Row]]) -> Paired | None:
    """The test of pairs of runs with the same size and seed; None where there are no pairs."""
    theirs = {(size, row.seed): row for size, rows in second.items() for row in rows}
    pairs = [
        (row, theirs[size, row.seed]) for size, rows in first.items() for row in rows if (size, row.seed) in theirs
    ]
    times = [ended(pair) for pair in pairs]
    return statistics.sign_flip([(time[0], time[1]) for time in times]) if times else None


def faster(test: Paired) -> bool | None:
    """Whether the first group is faster by the paired test; None where it is neither faster nor slower."""
    return test.ratio.estimate < 1 if test.p < 0.05 else None


def paired_words(test: Paired) -> str:
    """The ratio of episodes with its interval, and p."""
    return f"{interval_words(test.ratio)}, {p_words(test.p)}"


def middle(rows: Sequence[Row]) -> float:
    """The median episode of solving; the last one run where the unsolved reach into the middle."""
    found = statistics.censored_median([row.solved_episode for row in rows])
    return max(row.episodes for row in rows) if found is None else found


def every_word(rows: Sequence[Row], mark: Callable[[Row], str] = lambda row: "") -> str:
    """Every run's episode in order of seeds, with what `mark` says of it; `>E` is unsolved after E."""
    ordered = sorted(rows, key=lambda row: row.seed)
    return ", ".join(f"{row.solved_episode or f'>{row.episodes}'}{mark(row)}" for row in ordered) or "–"


def interval_words(interval: Interval, digits: int = 2) -> str:
    """An estimate with its interval."""

    def number(value: float) -> str:
        return "∞" if value == float("inf") else f"{value:.{digits}f}".replace("-", "−")

    between = "–" if interval.low >= 0 else " to "
    return f"{number(interval.estimate)} ({number(interval.low)}{between}{number(interval.high)})"


def markdown(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table."""
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def p_words(p: float) -> str:
    """A p-value as people write it."""
    return "p < 0.0001" if p < 1e-4 else f"p = {p:.2g}"
