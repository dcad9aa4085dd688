"""An experiment: a grid of runs, what is measured in each run, and the page made from all of them."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from reproduction import drawing
from reproduction.rows import RunRow, first_of_each, identity
from tdu import agents
from tdu.run import folder as run_folder
from tdu.run.runners.mastery import Until
from tdu.run.sweeps import Cell

EPISODES = 10_000
"""Maximum number of episodes on Deep Sea and the Binary Tree, as in bsuite."""


class Measured(NamedTuple):
    """The columns of a row that an experiment measures itself."""

    score: float | None = None
    successes: int | None = None
    full_depth_episode: int | None = None


Word = Literal[
    "reproduced", "partly reproduced", "not reproduced", "inconclusive", "not yet enough data", "answered",
    "reached", "not reached",
]  # fmt: skip


class Verdict(NamedTuple):
    """The result of applying a claim's rule to the rows."""

    word: Word
    because: str


class Findings(NamedTuple):
    """Everything computed from an experiment's rows, without training."""

    verdicts: Mapping[str, Verdict]
    """By claim."""
    body: str
    """Markdown: tables with intervals, and figures."""
    figures: Mapping[str, drawing.Drawing]
    """Functions that draw the figures, by file name."""
    details: str = ""
    """Markdown for the end of the page: tables of every run."""
    shown: Sequence[RunRow] = ()
    """Rows in tables and figures that may be outside the grid, such as other seeds."""


class Grid(NamedTuple):
    """An experiment that is a grid of runs."""

    summary: str
    claims: Mapping[str, str]
    rules: str
    """The rule of the verdicts in one line; results/RULES.md has the full text."""
    cells: Callable[[str], list[Cell]]
    """The runs of a preset, most valuable first."""
    left_out: str
    """What the preset `laptop` leaves out of `paper`."""
    measure: Callable[[Path, run_folder.RunResult], Measured]
    report: Callable[[Sequence[RunRow]], Findings]
    next_cells: Callable[[str, Sequence[RunRow]], list[Cell]] | None = None
    """Runs of later stages, which depend on the rows of earlier ones."""
    check: Callable[[], Any] = lambda: None
    """Raises a UserError if an extra that `measure` needs is not installed."""

    def all_cells(self, preset: str, rows: Sequence[RunRow]) -> list[Cell]:
        """All runs that these rows determine."""
        return self.cells(preset) + (self.next_cells(preset, rows) if self.next_cells else [])


class Own(NamedTuple):
    """An experiment that is not a grid of runs."""

    summary: str
    reproduce: Callable[..., Any]
    """Takes the results folder and `preset`."""
    pages: Callable[[Path], Any]
    """Takes the results folder and computes nothing new."""


def cell(
    env: str,
    agent: str,
    seed: int,
    *,
    preset: str = "paper",
    episodes: int | None = EPISODES,
    until: Until = "solved",
    **options: object,
) -> Cell:
    """A run. Options equal to the preset's are dropped, so that a run has one identity in every grid."""
    if not options:
        return Cell(env, agent, preset, seed=seed, episodes=episodes, until=until)
    default = _defaults(agent, preset)
    chosen = dataclasses.asdict(agents.configure(agent, options, preset))
    changed = tuple((name, chosen[name]) for name in sorted(options) if chosen[name] != default[name])
    return Cell(env, agent, preset, changed, seed=seed, episodes=episodes, until=until)


@functools.cache
def _defaults(agent: str, preset: str) -> dict[str, object]:
    return dataclasses.asdict(agents.configure(agent, {}, preset))


def select(rows: Sequence[RunRow], cells: Sequence[Cell]) -> list[RunRow]:
    """The rows of these runs, in the order of the runs."""
    first = first_of_each(rows)
    return [first[key] for key in dict.fromkeys(map(identity, cells)) if key in first]
