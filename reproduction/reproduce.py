"""Makes the runs that an experiment's rows lack, and estimates how long they take.

Every run is a `tdu train` in a folder under `runs/reproduce`. When it ends, its row is added to `results/NAME/runs.csv`.
An interruption loses at most the time since the last checkpoint. A run that has a row, from any machine, is never made again.
One row serves every experiment that requires the same run.
"""

import re
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from reproduction import catalogue, origin, rows
from reproduction.arguments import RESULTS, SCRATCH
from reproduction.experiment import Grid
from reproduction.rows import FILE, RunRow
from tdu.environments import TWIN, parse
from tdu.errors import UserError, tell
from tdu.run import folder as run_folder
from tdu.run import processes as parallel
from tdu.run import progress
from tdu.run.processes import Job, Outcome, Tell
from tdu.run.sweeps import Cell

RowsByExperiment = Mapping[str, Sequence[RunRow]]


class MissingRun(NamedTuple):
    """A run without a row, and the experiment whose file its row will be in."""

    experiment: str
    cell: Cell


class Status(NamedTuple):
    """How much of an experiment is done."""

    done: int
    missing: int
    hours: float
    """Estimated from similar runs."""
    unknown: int
    """Missing runs without a similar one; the hours do not include them."""


def read_all(results: Path, say: Callable[[str], None] = tell) -> dict[str, list[RunRow]]:
    """The rows of every experiment; a file that is not a table of runs is reported and left out."""
    every: dict[str, list[RunRow]] = {}
    for name in catalogue.grids():
        try:
            every[name] = rows.read(results / name / FILE, say)
        except UserError as e:
            say(str(e))
            every[name] = []
    return every


def all_rows(every: RowsByExperiment) -> list[RunRow]:
    """All rows in one fixed order, so that two pages never use two rows for one run."""
    return [row for name in catalogue.grids() for row in every.get(name, ())]


def missing(names: Sequence[str], preset: str, every: RowsByExperiment) -> list[MissingRun]:
    """The runs without a row, most valuable first."""
    known = all_rows(every)
    done = {row.identity for row in known}
    found: dict[rows.Identity, MissingRun] = {}
    for name in names:
        for cell in catalogue.grids()[name].all_cells(preset, known):
            if rows.identity(cell) not in done:
                found.setdefault(rows.identity(cell), MissingRun(name, cell))
    return list(found.values())


def check(wanted: Sequence[MissingRun]) -> None:
    """Raises a UserError if a run or its score needs an extra that is not installed."""
    for name in dict.fromkeys(run.experiment for run in wanted):
        catalogue.grids()[name].check()
    for run in wanted:
        run.cell.config()


def status(name: str, preset: str, every: RowsByExperiment) -> Status:
    """What is done, and how long the rest may take on one core."""
    known = all_rows(every)
    cells = dict.fromkeys(map(rows.identity, catalogue.grids()[name].all_cells(preset, known)))
    left = missing([name], preset, every)
    seconds = [estimate(run.cell, known) for run in left]
    estimated = [s for s in seconds if s is not None]
    return Status(len(cells) - len(left), len(left), sum(estimated) / 3600, len(seconds) - len(estimated))


def estimate(cell: Cell, known: Sequence[RunRow]) -> float | None:
    """Estimated seconds: the median of the agent's runs on the nearest size of the same kind of task; None without any.

    Time grows with the square of the size, because episodes and their steps both grow, and with the batch size. If a run is
    limited by steps, time is proportional to its steps.
    """
    task, size = kind(cell.env)
    batch = re.search(r"batch_size=(\d+)", cell.options_text)
    slower = int(batch.group(1)) / _USUAL_BATCH if batch else 1.0
    similar = [
        (
            abs(kind(row.env)[1] - size),
            row.seconds * (cell.steps / row.steps if cell.steps else (size / kind(row.env)[1]) ** 2),
        )
        for row in known
        if row.seconds and (row.agent, row.preset, kind(row.env)[0]) == (cell.agent, cell.preset, task)
        if "batch_size" not in row.options
    ]
    nearest = min((distance for distance, _ in similar), default=None)
    return slower * statistics.median(s for distance, s in similar if distance == nearest) if similar else None


_USUAL_BATCH = 32


def kind(env: str) -> tuple[str, float]:
    """An environment with N in place of its size, and the size. Settings of one bsuite experiment are one kind."""
    env_id = parse(env)
    if env_id.source in (TWIN, "atari"):
        return env_id.experiment or env_id.source, 1.0
    size = re.search(r"(?<=size=|epth=)[1-9]\d*", env)
    return (env.replace(size.group(), "N", 1), float(size.group())) if size else (env, 1.0)


class Stopped(NamedTuple):
    """How a call of `run` ended."""

    finished: int
    left: int
    failed: Sequence[str]


def run(
    wanted: Sequence[MissingRun],
    *,
    results: Path = RESULTS,
    scratch: Path = SCRATCH,
    deadline: float | None = None,
    jobs: int = 1,
    engine: progress.Engine = parallel.run_all,
    display: str = "auto",
    machine: str | None = None,
    say: Callable[[str], None] = tell,
) -> Stopped:
    """Makes the runs and adds a row for each one that ends. At `deadline` (time.monotonic) running ones are saved."""
    if not wanted:
        return Stopped(0, 0, [])
    by_folder = {one.cell.job(scratch).out: one for one in wanted}  # two lengths of one run share a name
    grids = catalogue.grids()
    finished, failed = 0, []

    def record(outcome: Outcome) -> None:
        nonlocal finished
        one = by_folder[outcome.job.out]
        try:
            if outcome.code or outcome.result is None:
                raise UserError(outcome.reason)
            row = row_of(one.cell, outcome.job.out, outcome.result, grids[one.experiment], machine)
            rows.append(results / one.experiment / FILE, row)
        except UserError as e:
            failed.append(f"{outcome.job.name} failed: {e}")
            say(failed[-1])
            return
        finished += 1

    queue = [one.cell.job(scratch) for one in wanted]
    run_folder.make_folder(scratch)
    try:
        progress.run_jobs(queue, display, workers=jobs, engine=_watched(engine, record, deadline))
    except _TimeIsUp:
        say(
            f"the time is up; {len(wanted) - finished - len(failed)} runs are left; the same command continues with them."
        )
    return Stopped(finished, len(wanted) - finished, failed)


def row_of(cell: Cell, folder: Path, result: run_folder.RunResult, grid: Grid, machine: str | None = None) -> RunRow:
    """The row of a run that has ended."""
    measured = grid.measure(folder, result)
    return RunRow(
        *rows.identity(cell),
        solved_episode=result.solved_episode,
        mastered_episode=result.mastered_episode,
        full_depth_episode=measured.full_depth_episode,
        episodes=result.episodes,
        steps=result.steps,
        score=measured.score,
        successes=measured.successes,
        seconds=round(result.seconds, 1),
        commit=origin.commit(),
        processor=machine or origin.processor(),
    )


class _TimeIsUp(Exception):
    """Ends a queue of runs; each running one saves a checkpoint."""


def _watched(engine: progress.Engine, record: Callable[[Outcome], None], deadline: float | None) -> progress.Engine:
    """An engine that records every end and stops at the deadline."""

    def check() -> None:
        if deadline is not None and time.monotonic() > deadline:
            raise _TimeIsUp

    def run_all(jobs: list[Job], *, workers: int | None, tell: Tell, done: Callable[[Outcome], None]) -> list[Outcome]:
        def tell_and_check(name: str, report: dict[str, object]) -> None:
            tell(name, report)
            check()

        def end(outcome: Outcome) -> None:
            record(outcome)
            done(outcome)
            check()

        check()
        return engine(jobs, workers=workers, tell=tell_and_check, done=end)

    return run_all
