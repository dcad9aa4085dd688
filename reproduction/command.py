"""`tdu reproduce`: the paper's figures, one name each, from the rows of finished runs and whatever runs are missing."""

import argparse
import fnmatch
import functools
import time
from collections.abc import Mapping, Sequence

from reproduction import catalogue, pages, reproduce, rows
from reproduction.experiment import PRESETS, Own
from reproduction.reproduce import Asked
from tdu import agents
from tdu.cli.parser import Parser, folder, number, whole
from tdu.errors import UserError, tell, unknown
from tdu.run import processes as parallel
from tdu.run import progress as displays
from tdu.run.plan import refuse_without_ray
from tdu.run.sweeps import Cell

Every = Mapping[str, Sequence[rows.Row]]
"""Rows by experiment."""

_EXAMPLES = """\
examples:
  tdu reproduce                               what there is, what is done, and how long the rest may take
  tdu reproduce deep_sea --hours 2            goes on with what is missing, for two hours
  tdu reproduce deep_sea --preset paper       the grid as published
  tdu reproduce deep_sea --agent cts --agent rnd  of what is missing, the runs of these agents
  tdu reproduce bsuite --env 'bandit*'        those on environments whose names look so
  tdu reproduce all                           everything, the most valuable first (make evidence)
  tdu reproduce deep_sea --pages              tables, figures and verdict from the rows that are there; no training
"""


def run(arguments: list[str]) -> int:
    parser = Parser(
        prog="tdu reproduce",
        description="The paper's figures, each from the rows in results/NAME/runs.csv. Runs that have no row are made; "
        "those that have one, of whichever machine, never again. Whatever interrupts it, the same command goes on.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        epilog=_EXAMPLES,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(catalogue.EXPERIMENTS)}, or all")
    parser.add_argument(
        "--preset",
        default="laptop",
        help=" or ".join(f"{name}: {words}" for name, words in PRESETS.items()) + " (default laptop)",
    )
    parser.add_argument(
        "--agent", action="append", metavar="AGENT", help="only runs of this agent; may be given several times"
    )
    parser.add_argument(
        "--env", action="append", metavar="PATTERN",
        help="only runs on environments of this name, * and ? as in a shell; may be given several times",
    )  # fmt: skip
    parser.add_argument("--hours", type=number("hours"), metavar="H", help="stop after so long; nothing is lost")
    parser.add_argument("--jobs", type=whole("jobs", 1, 10**6), default=1, help="runs at a time (default 1)")
    parser.add_argument("--engine", choices=("local", "ray"), default="local", help="where it runs (default local)")
    parser.add_argument("--address", help="of a Ray cluster; without it one is started on this machine")
    parser.add_argument(
        "--pages", action="store_true", help="no training: only the pages, from the rows that are there"
    )
    parser.add_argument(
        "--results", type=folder, metavar="DIR", default=reproduce.RESULTS, help="rows and pages (default results)"
    )
    parser.add_argument(
        "--runs", type=folder, metavar="DIR", default=reproduce.SCRATCH, help=f"runs (default {reproduce.SCRATCH})"
    )
    parser.add_argument(
        "--progress", choices=("auto", "plain", "none"), default="auto", help="how to show progress (default auto)"
    )
    parsed = parser.parse_args(arguments)
    if parsed.preset not in PRESETS:
        raise unknown("preset", parsed.preset, PRESETS)
    if parsed.hours is not None and not parsed.hours > 0:
        raise UserError(f"hours must be above 0, not {parsed.hours:g}.")
    refuse_without_ray(parsed.engine, address=parsed.address)
    for agent in parsed.agent or ():
        agents.find(agent)
    names = _names(parsed.names)
    if (parsed.agent or parsed.env) and (parsed.pages or not names):
        raise UserError("--agent and --env choose which runs of an experiment are made; give its name, and no --pages.")
    if parsed.pages and not names:
        raise UserError(f"say which pages: {', '.join(catalogue.EXPERIMENTS)}, or all.")
    if parsed.results.exists() and not parsed.results.is_dir():
        raise UserError(f"{parsed.results} is a file; --results is a folder.")
    if parsed.pages and not parsed.results.exists():
        raise UserError(f"{parsed.results} does not exist, so there are no rows to make pages of.")
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
        print(
            f"{name:<16}{state.done:>6}{state.missing:>9}{hours:>12}   {experiment.summary}{_lacking(name, parsed, every)}"
        )
    unknown_hours = " A question mark stands for runs unlike any that has been made." if guessed else ""
    print(
        f"\nPreset {parsed.preset}: {PRESETS[parsed.preset]}. Hours are of one core, from runs that are alike."
        + unknown_hours
    )
    if parsed.preset == "laptop":
        for name, grid in catalogue.grids().items():
            print(f"{name} leaves out of the preset paper: {grid.left_out}")
    return 0


def _lacking(name: str, parsed: argparse.Namespace, every: Every) -> str:
    try:
        reproduce.check(reproduce.missing([name], parsed.preset, every))
    except UserError as e:
        return f"; cannot be run here: {e}"
    return ""


def _is_chosen(cell: Cell, parsed: argparse.Namespace) -> bool:
    """Whether --agent and --env, where they are given, want a run."""
    return (not parsed.agent or cell.agent in parsed.agent) and (
        not parsed.env or any(fnmatch.fnmatchcase(cell.env, pattern) for pattern in parsed.env)
    )


def _check_choice(grids: Sequence[str], parsed: argparse.Namespace, every: Every) -> None:
    """Every agent and every pattern must be of some run, made or missing."""
    known = reproduce.all_rows(every)
    cells = [cell for name in grids for cell in catalogue.grids()[name].all_cells(parsed.preset, known)]
    environments, theirs = dict.fromkeys(cell.env for cell in cells), dict.fromkeys(cell.agent for cell in cells)
    where = ", ".join(grids)
    for pattern in parsed.env or ():
        if not any(fnmatch.fnmatchcase(env, pattern) for env in environments):
            example = next(iter(environments))
            raise UserError(f"no run of {where} is on '{pattern}'; one is on '{example}', for example.")
    for agent in parsed.agent or ():
        if agent not in theirs:
            raise UserError(f"no run of {where} is of {agent}; its agents are {', '.join(theirs)}.")


def _that_can_run(names: Sequence[str], parsed: argparse.Namespace, every: Every) -> list[str]:
    """Those whose files can be used and whose extras are here; of several, one that cannot be run is named and left out."""
    found = []
    for name in names:
        try:
            if name in catalogue.grids():
                rows.check_file(parsed.results / name / rows.FILE)
                if not parsed.pages:
                    reproduce.check(_asked([name], parsed, every))
            elif parsed.agent or parsed.env:
                raise UserError(f"{name} is not made of runs that --agent and --env could choose from.")
        except UserError as e:
            if len(names) == 1:
                raise
            tell(f"{name} is left out: {e}")
            continue
        found.append(name)
    return found


def _asked(grids: Sequence[str], parsed: argparse.Namespace, every: Every) -> list[Asked]:
    return [one for one in reproduce.missing(grids, parsed.preset, every) if _is_chosen(one.cell, parsed)]


def _run_stages(grids: Sequence[str], parsed: argparse.Namespace, every: Every, engine: displays.Engine) -> bool:
    """Makes what is missing, and then what the new rows require; returns whether a run failed."""
    deadline = None if parsed.hours is None else time.monotonic() + 3600 * parsed.hours
    asked = _asked(grids, parsed, every)
    tell(f"{len(asked)} runs are missing." if asked else "no run is missing.")
    tried: set[Asked] = set()
    while asked:
        tried |= set(asked)
        stopped = reproduce.run(
            asked, results=parsed.results, scratch=parsed.runs, deadline=deadline, jobs=parsed.jobs, engine=engine,
            display=parsed.progress, machine="a Ray cluster" if parsed.address else None,
        )  # fmt: skip
        if stopped.left:
            return bool(stopped.failed)
        known = reproduce.read_all(parsed.results, say=lambda sentence: None)
        asked = [one for one in _asked(grids, parsed, known) if one not in tried]
        if asked:
            tell(f"the next stage has {len(asked)} runs.")
    return False


def _reproduce(names: Sequence[str], parsed: argparse.Namespace) -> int:
    grids = [name for name in names if name in catalogue.grids()]
    notes: list[str] = []
    every = reproduce.read_all(parsed.results, notes.append)
    if grids:
        _check_choice(grids, parsed, every)
    able = _that_can_run(names, parsed, every)
    told = [str(parsed.results / name / rows.FILE) for name in names if name not in able]
    for note in notes:
        if not any(path in note for path in told):
            tell(note)
    failed = False
    grids = [name for name in grids if name in able]
    if grids and not parsed.pages:
        engine: displays.Engine = parallel.run_all
        if parsed.engine == "ray":
            from tdu.cluster import sweep as distributed

            engine = functools.partial(distributed.run_all, address=parsed.address)
        failed = _run_stages(grids, parsed, every, engine)
        every = reproduce.read_all(parsed.results, say=lambda sentence: None)  # it was said above
    for name in able:
        experiment = catalogue.find(name)
        if isinstance(experiment, Own):
            if parsed.pages:
                try:
                    experiment.pages(parsed.results / name)
                except UserError as e:
                    if len(names) == 1:
                        raise
                    tell(f"{e} The other pages are made.")
                    continue
            else:
                experiment.reproduce(parsed.results / name, preset=parsed.preset)
            tell(f"the page is {parsed.results / name / pages.PAGE}.")
            continue
        verdicts = pages.write(name, parsed.preset, every, parsed.results / name)
        for claim, verdict in verdicts.items():
            print(f"{name}, {claim}: {verdict.word}; {verdict.because}")
        tell(f"the page is {parsed.results / name / pages.PAGE}.")
    return 2 if failed else 0
