"""Runs what an experiment's rows lack, and tells how much that is.

Every run is a `tdu train` in a folder of its own under `runs/reproduce`; when it ends, its row goes into
`results/NAME/runs.csv`. So whatever stops this, and wherever, loses at most the time since a checkpoint, and a row that is
there, of any machine, is never made again. One row serves every experiment that asks for the same run.
"""

import functools
import platform
import re
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from reproduction import catalogue, rows
from reproduction.experiment import Grid
from reproduction.rows import FILE, Row
from tdu.environments import TWIN, parse
from tdu.errors import UserError, tell
from tdu.run import folder as runs
from tdu.run import processes as parallel
from tdu.run import progress
from tdu.run.processes import Job, Outcome, Tell
from tdu.run.sweeps import Cell

SCRATCH = Path("runs") / "reproduce"
RESULTS = Path("results")

Say = Callable[[str], None]


class Asked(NamedTuple):
    """A run that is missing, and the experiment whose file its row goes into."""

    experiment: str
    cell: Cell


class Status(NamedTuple):
    """How far an experiment is."""

    done: int
    missing: int
    hours: float
    """Estimated from runs that are alike."""
    unknown: int
    """Missing runs to which none is alike, and which the hours leave out."""


def read_all(results: Path, say: Say = tell) -> dict[str, list[Row]]:
    """The rows of every experiment; a file that is no table of runs is named and left out."""
    found = {}
    for name in catalogue.grids():
        try:
            found[name] = rows.read(results / name / FILE, say)
        except UserError as e:
            say(str(e))
            found[name] = []
    return found


def all_rows(every: Mapping[str, Sequence[Row]]) -> list[Row]:
    """Rows that any experiment may use, in one order for all, so that two pages never use two rows for one run."""
    return [row for name in catalogue.grids() for row in every.get(name, ())]


def missing(names: Sequence[str], preset: str, every: Mapping[str, Sequence[Row]]) -> list[Asked]:
    """The runs that no row is there for, the most valuable first."""
    known = {row.identity for theirs in every.values() for row in theirs}
    asked: dict[rows.Identity, Asked] = {}
    for name in names:
        for cell in catalogue.grids()[name].all_cells(preset, all_rows(every)):
            if rows.identity(cell) not in known:
                asked.setdefault(rows.identity(cell), Asked(name, cell))
    return list(asked.values())


def check(asked: Sequence[Asked]) -> None:
    """A UserError says what a run or its score needs that is not here: an extra."""
    for name in dict.fromkeys(one.experiment for one in asked):
        catalogue.grids()[name].check()
    for one in asked:
        one.cell.config()


def status(name: str, preset: str, every: Mapping[str, Sequence[Row]]) -> Status:
    """What of an experiment is done, and how long the rest may take on one core."""
    cells = dict.fromkeys(map(rows.identity, catalogue.grids()[name].all_cells(preset, all_rows(every))))
    left = missing([name], preset, every)
    seconds = [estimate(asked.cell, [row for theirs in every.values() for row in theirs]) for asked in left]
    known = [s for s in seconds if s is not None]
    return Status(len(cells) - len(left), len(left), sum(known) / 3600, len(seconds) - len(known))


def estimate(cell: Cell, known: Sequence[Row]) -> float | None:
    """Seconds that a run may take: the median of runs of the same agent on the nearest size of the same kind of task.

    A sea or tree of another size takes as much more as the square of the sizes' ratio: episodes and steps in each grow. One
    whose batch alone is larger than theirs takes as much more as the batch. A run limited by steps takes as long per step as
    they do.
    """
    mine, size = kind(cell.env)
    batch = re.search(r"batch_size=(\d+)", cell.options_text)
    slower = int(batch.group(1)) / _USUAL_BATCH if batch else 1.0
    alike = [
        (
            abs(kind(row.env)[1] - size),
            row.seconds * (cell.steps / row.steps if cell.steps else (size / kind(row.env)[1]) ** 2),
        )
        for row in known
        if row.seconds and (row.agent, row.preset, kind(row.env)[0]) == (cell.agent, cell.preset, mine)
        if "batch_size" not in row.options
    ]
    nearest = min((distance for distance, _ in alike), default=None)
    return slower * statistics.median(s for distance, s in alike if distance == nearest) if alike else None


_USUAL_BATCH = 32


def kind(env: str) -> tuple[str, float]:
    """An environment with N for its size, and that; bsuite's settings of an experiment are taken as alike."""
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
    asked: Sequence[Asked],
    *,
    results: Path = RESULTS,
    scratch: Path = SCRATCH,
    deadline: float | None = None,
    jobs: int = 1,
    engine: progress.Engine = parallel.run_all,
    display: str = "auto",
    machine: str | None = None,
    say: Say = tell,
) -> Stopped:
    """Makes the runs and adds a row for each that ends. At `deadline` (of time.monotonic) those under way are saved."""
    if not asked:
        return Stopped(0, 0, [])
    by_folder = {one.cell.job(scratch).out: one for one in asked}  # two lengths of one run share a name
    grids, where = catalogue.grids(), (commit(), machine or processor())
    finished, failed = 0, []

    def record(outcome: Outcome) -> None:
        nonlocal finished
        one = by_folder[outcome.job.out]
        try:
            if outcome.code or outcome.result is None:
                raise UserError(outcome.reason)
            row = made_of(one.cell, outcome.job.out, outcome.result, grids[one.experiment], where)
            rows.append(results / one.experiment / FILE, row)
        except UserError as e:
            failed.append(f"{outcome.job.name} failed: {e}")
            say(failed[-1])
            return
        finished += 1

    with_rows = _watched(engine, record, deadline)
    queue = [one.cell.job(scratch) for one in asked]
    runs.make_folder(scratch)
    try:
        progress.run_jobs(queue, display, workers=jobs, engine=with_rows)
    except _TimeIsUp:
        say(
            f"the time is up; {len(asked) - finished - len(failed)} runs are left, and the same command goes on with them."
        )
    return Stopped(finished, len(asked) - finished, failed)


def made_of(cell: Cell, folder: Path, result: runs.RunResult, grid: Grid, where: tuple[str, str]) -> Row:
    """The row of a run that has ended."""
    measured = grid.measure(folder, result)
    env, agent, preset, options, seed, limit = rows.identity(cell)
    return Row(
        env=env,
        agent=agent,
        preset=preset,
        options=options,
        seed=seed,
        limit=limit,
        solved_episode=result.solved_episode,
        mastered_episode=result.mastered_episode,
        full_depth_episode=measured.full_depth_episode,
        episodes=result.episodes,
        steps=result.steps,
        score=measured.score,
        successes=measured.successes,
        seconds=round(result.seconds, 1),
        commit=where[0],
        processor=where[1],
    )


class _TimeIsUp(Exception):
    """Ends a queue of runs; each of those under way is asked to save itself."""


def _watched(engine: progress.Engine, record: Callable[[Outcome], None], deadline: float | None) -> progress.Engine:
    """An engine whose every end is recorded, and which ends at a time."""

    def check() -> None:
        if deadline is not None and time.monotonic() > deadline:
            raise _TimeIsUp

    def run_all(jobs: list[Job], *, workers: int | None, tell: Tell, done: Callable[[Outcome], None]) -> list[Outcome]:
        def told(name: str, report: dict[str, object]) -> None:
            tell(name, report)
            check()

        def ended(outcome: Outcome) -> None:
            record(outcome)
            done(outcome)
            check()

        check()
        return engine(jobs, workers=workers, tell=told, done=ended)

    return run_all


@functools.cache
def commit() -> str:
    """The commit of the code that runs, with a + where it was changed since; without git, the version."""
    root = Path(__file__).resolve().parents[1]
    try:
        head = _git(root, "rev-parse", "--short=7", "HEAD")
        return head + ("+" if _git(root, "status", "--porcelain", "--", "tdu") else "")
    except (OSError, subprocess.CalledProcessError):
        return f"v{metadata.version('tdu')}"


def _git(root: Path, *words: str) -> str:
    found = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=True)
    return found.stdout.strip()


@functools.cache
def processor() -> str:
    """What computes here: on another kind of processor, which a name alone does not tell, the same seed is another run."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    found = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if "model name" not in found:
        return platform.processor() or "unknown"
    kind = [f"{name.removeprefix('cpu ')} {found[name]}" for name in ("cpu family", "model") if name in found]
    return found["model name"] + (f" ({', '.join(kind)})" if kind else "")
