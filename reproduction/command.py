"""`tdu reproduce`: makes the missing runs of an experiment, and its page from the rows of all finished runs."""

import argparse
import fnmatch
import functools
import time
from collections.abc import Sequence

from reproduction import catalogue, pages, reproduce, rows
from reproduction.arguments import PRESETS
from reproduction.experiment import Own
from reproduction.reproduce import MissingRun, RowsByExperiment
from tdu import agents
from tdu.errors import UserError, tell, unknown
from tdu.run import processes as parallel
from tdu.run import progress as displays
from tdu.run.plan import refuse_without_ray
from tdu.run.sweeps import Cell


def run(parsed: argparse.Namespace) -> int:
    if parsed.preset not in PRESETS:
        raise unknown("preset", parsed.preset, PRESETS)
    if parsed.hours is not None and not parsed.hours > 0:
        raise UserError(f"hours must be above 0, not {parsed.hours:g}.")
    refuse_without_ray(parsed.engine, address=parsed.address)
    for agent in parsed.agent or ():
        agents.find(agent)
    names = _names(parsed.names)
    if (parsed.agent or parsed.env) and (parsed.pages or not names):
        raise UserError("--agent and --env choose runs of an experiment; give its name, without --pages.")
    if parsed.pages and not names:
        raise UserError(f"--pages needs a name: {', '.join(catalogue.EXPERIMENTS)}, or all.")
    if parsed.results.exists() and not parsed.results.is_dir():
        raise UserError(f"{parsed.results} is a file; --results is a folder.")
    if parsed.pages and not parsed.results.exists():
        raise UserError(f"{parsed.results} does not exist, so there are no rows.")
    return _list(parsed) if not names else _reproduce(names, parsed)


def _names(given: list[str]) -> list[str]:
    names = list(dict.fromkeys(name for word in given for name in (catalogue.EXPERIMENTS if word == "all" else [word])))
    for name in names:
        catalogue.find(name)
    return names


def _list(parsed: argparse.Namespace) -> int:
    every = reproduce.read_all(parsed.results)
    guessed = False
    print(f"{'experiment':<16}{'done':>6}{'missing':>9}{'hours left':>12}   what")
    for name, experiment in catalogue.EXPERIMENTS.items():
        if isinstance(experiment, Own):
            print(f"{name:<16}{'':>27}   {experiment.summary}")
            continue
        state = reproduce.status(name, parsed.preset, every)
        known = f"{state.hours:.1f}" if state.hours or not state.unknown else ""
        hours = " + ".join(filter(None, (known, "?" if state.unknown else "")))
        guessed = guessed or bool(state.unknown)
        what = experiment.summary + _obstacle(name, parsed, every)
        print(f"{name:<16}{state.done:>6}{state.missing:>9}{hours:>12}   {what}")
    question = " A question mark is for runs unlike any that was made." if guessed else ""
    print(
        f"\nPreset {parsed.preset}: {PRESETS[parsed.preset]}. Hours of one core, estimated from similar runs.{question}"
    )
    if parsed.preset == "laptop":
        for name, grid in catalogue.grids().items():
            print(f"{name} leaves out of the preset paper: {grid.left_out}")
    return 0


def _obstacle(name: str, parsed: argparse.Namespace, every: RowsByExperiment) -> str:
    try:
        reproduce.check(reproduce.missing([name], parsed.preset, every))
    except UserError as e:
        return f"; cannot be run here: {e}"
    return ""


def _is_chosen(cell: Cell, parsed: argparse.Namespace) -> bool:
    """Whether --agent and --env include a run."""
    return (not parsed.agent or cell.agent in parsed.agent) and (
        not parsed.env or any(fnmatch.fnmatchcase(cell.env, pattern) for pattern in parsed.env)
    )


def _check_choice(grids: Sequence[str], parsed: argparse.Namespace, every: RowsByExperiment) -> None:
    """Every agent and every pattern must match a run, made or missing."""
    known = reproduce.all_rows(every)
    cells = [cell for name in grids for cell in catalogue.grids()[name].all_cells(parsed.preset, known)]
    environments, agents_run = dict.fromkeys(cell.env for cell in cells), dict.fromkeys(cell.agent for cell in cells)
    where = ", ".join(grids)
    for pattern in parsed.env or ():
        if not any(fnmatch.fnmatchcase(env, pattern) for env in environments):
            example = next(iter(environments))
            raise UserError(f"no run of {where} is on '{pattern}'; one is on '{example}', for example.")
    for agent in parsed.agent or ():
        if agent not in agents_run:
            raise UserError(f"no run of {where} is of {agent}; its agents are {', '.join(agents_run)}.")


def _runnable(names: Sequence[str], parsed: argparse.Namespace, every: RowsByExperiment) -> list[str]:
    """The experiments with usable files and installed extras. If there are several names, others are reported and skipped."""
    found = []
    for name in names:
        try:
            if name in catalogue.grids():
                rows.check_file(parsed.results / name / rows.FILE)
                if not parsed.pages:
                    reproduce.check(_missing([name], parsed, every))
            elif parsed.agent or parsed.env:
                raise UserError(f"{name} is not a grid of runs; --agent and --env do not apply to it.")
        except UserError as e:
            if len(names) == 1:
                raise
            tell(f"{name} is left out: {e}")
            continue
        found.append(name)
    return found


def _missing(grids: Sequence[str], parsed: argparse.Namespace, every: RowsByExperiment) -> list[MissingRun]:
    return [run for run in reproduce.missing(grids, parsed.preset, every) if _is_chosen(run.cell, parsed)]


def _run_stages(grids: Sequence[str], parsed: argparse.Namespace, every: RowsByExperiment) -> bool:
    """Makes the missing runs, then those that the new rows require; returns whether a run failed."""
    engine: displays.Engine = parallel.run_all
    if parsed.engine == "ray":
        from tdu.cluster import sweep as distributed

        engine = functools.partial(distributed.run_all, address=parsed.address)
    deadline = None if parsed.hours is None else time.monotonic() + 3600 * parsed.hours
    wanted = _missing(grids, parsed, every)
    tell(f"{len(wanted)} runs are missing." if wanted else "no run is missing.")
    tried: set[MissingRun] = set()
    while wanted:
        tried |= set(wanted)
        stopped = reproduce.run(
            wanted, results=parsed.results, scratch=parsed.runs, deadline=deadline, jobs=parsed.jobs, engine=engine,
            display=parsed.progress, machine="a Ray cluster" if parsed.address else None,
        )  # fmt: skip
        if stopped.left:
            return bool(stopped.failed)
        known = reproduce.read_all(parsed.results, say=lambda sentence: None)
        wanted = [run for run in _missing(grids, parsed, known) if run not in tried]
        if wanted:
            tell(f"the next stage has {len(wanted)} runs.")
    return False


def _reproduce(names: Sequence[str], parsed: argparse.Namespace) -> int:
    grids = [name for name in names if name in catalogue.grids()]
    notes: list[str] = []
    every = reproduce.read_all(parsed.results, notes.append)
    if grids:
        _check_choice(grids, parsed, every)
    runnable = _runnable(names, parsed, every)
    skipped = [str(parsed.results / name / rows.FILE) for name in names if name not in runnable]
    for note in notes:
        if not any(path in note for path in skipped):
            tell(note)
    failed = False
    grids = [name for name in grids if name in runnable]
    if grids and not parsed.pages:
        failed = _run_stages(grids, parsed, every)
        every = reproduce.read_all(parsed.results, say=lambda sentence: None)  # notes were printed above
    for name in runnable:
        try:
            _write_page(name, parsed, every)
        except UserError as e:
            if len(names) == 1 or not parsed.pages:
                raise
            tell(f"{e} The other pages are made.")
    return 1 if failed else 0


def _write_page(name: str, parsed: argparse.Namespace, every: RowsByExperiment) -> None:
    """The page of an experiment; `theory` also computes its missing tables."""
    experiment, folder = catalogue.find(name), parsed.results / name
    if not isinstance(experiment, Own):
        for claim, verdict in pages.write(name, parsed.preset, every, folder).items():
            print(f"{name}, {claim}: {verdict.word}; {verdict.because}")
    elif parsed.pages:
        experiment.pages(folder)
    else:
        experiment.reproduce(folder, preset=parsed.preset)
    tell(f"the page is {folder / pages.PAGE}.")
