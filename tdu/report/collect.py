"""What `tdu report` and `tdu plot` are given: runs, sweeps and folders of results, read with all that is wrong with them."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tdu.errors import UserError
from tdu.report import page_parts
from tdu.report.summary import label
from tdu.run import folder as runs
from tdu.run.folder import folder as folders
from tdu.run.folder.snapshots import Record


class Shown(NamedTuple):
    """A run."""

    name: str
    """Of its folder."""
    config: runs.RunConfig
    result: runs.RunResult | None
    state: str
    """finished, running or cut off."""
    log: dict[str, np.ndarray]
    record: Record | None
    notes: list[str]
    """What has to be known of it."""
    evaluations: dict[str, np.ndarray]
    """What its policy returned when it was tried out on the way; empty where it was not."""

    @property
    def agent(self) -> str:
        """Its agent, with the options that are not the usual ones."""
        return label(self.config)


class Table(NamedTuple):
    """Rows that an experiment has left."""

    name: str
    """Of its file."""
    columns: list[str]
    rows: list[list[str]]


class Evidence(NamedTuple):
    """A folder of results/: what its README says, the figures it shows, and the rows."""

    name: str
    text: str
    figures: dict[str, bytes]
    tables: list[Table]
    notes: list[str]


class Collected(NamedTuple):
    """Everything that was found, and what could not be used and why."""

    runs: list[Shown]
    evidence: list[Evidence]
    left_out: dict[str, str]


def collect(paths: Sequence[Path], *, with_records: bool = True) -> Collected:
    """Reads the folders. One that is damaged is left out with its reason; if nothing is left, that is the user's to mend."""
    found, evidence, left_out = list[Shown](), list[Evidence](), dict[str, str]()
    for path in dict.fromkeys(paths):
        if not path.is_dir():
            raise UserError(f"{path} is not a folder.")
        inside = [path] if (path / folders.CONFIG).exists() else runs.find_runs(path)
        for folder in inside:
            try:
                found.append(_read(folder, with_records=with_records))
            except UserError as e:
                left_out[str(folder)] = str(e)
        if (path / ROWS).exists() or (not inside and (path / TEXT).exists()):
            evidence.append(_evidence(path, left_out))
        elif not inside:
            left_out[str(path)] = "it has no runs in it."
    evidence = [one for one in evidence if one.text or one.tables]
    if not found and not evidence:
        raise UserError(" ".join(f"{name}: {why}" for name, why in left_out.items()) or "there is nothing to show.")
    return Collected(found, evidence, left_out)


ROWS, TEXT = "runs.csv", "README.md"


def _read(folder: Path, *, with_records: bool) -> Shown:
    notes: list[str] = []
    config, result = runs.read_config(folder), runs.read_result(folder)
    log = runs.read_checked_log(folder, config, result, notes.append)
    label(config)
    if log and "episode" not in log:
        raise UserError("its log has no column episode.")
    state = "finished" if result is not None else "running" if folders.is_in_use(folder) else "cut off"
    strange = [name for name, numbers in log.items() if not np.isfinite(numbers).all()]
    if strange:
        notes.append(f"its log has something that is not a number in {', '.join(strange)}; that is left out.")
    if not log or not len(log["episode"]):
        notes.append("no episode of it has ended yet.")
    evaluations: dict[str, np.ndarray] = {}
    try:
        found = runs.read_evaluations(folder, config, notes.append)
        if found and not found.keys() >= {"episode", "greedy_return"}:
            raise UserError("they have no columns episode and greedy_return.")
        if found and len(found["episode"]):
            evaluations = found
    except UserError as e:
        notes.append(f"its evaluations are left out: {e}")
    record = None
    if with_records:
        try:
            record = runs.read_record(folder, config, notes.append)
        except UserError as e:
            notes.append(f"its record is left out: {e}")
    return Shown(folder.name, config, result, state, log, record, list(dict.fromkeys(notes)), evaluations)


def _evidence(folder: Path, left_out: dict[str, str]) -> Evidence:
    """What a folder of results has; a file of it that cannot be read is left out with its reason."""
    text, figures, tables, notes = "", dict[str, bytes](), list[Table](), list[str]()
    try:
        text = (folder / TEXT).read_text()
    except FileNotFoundError:
        notes.append(f"it has no {TEXT}, so its rows stand without a word.")
    except (OSError, ValueError) as e:
        left_out[str(folder / TEXT)] = f"it cannot be read ({e})."
    for name in page_parts.figures_of(text):
        try:
            figures[name] = (folder / name).read_bytes()
        except OSError:
            notes.append(f"its figure {name} is not there.")
    for path in sorted(folder.glob("*.csv")):
        try:
            tables.append(_table(path))
        except (OSError, ValueError, csv.Error) as e:
            left_out[str(path)] = f"it cannot be read ({e})."
    return Evidence(folder.resolve().name, text, figures, tables, notes)


def _table(path: Path) -> Table:
    with open(path, newline="") as f:
        columns, *rows = list(csv.reader(f)) or [[]]
    if not columns or any(len(row) != len(columns) for row in rows):
        raise ValueError("its rows are of different lengths" if columns else "it is empty")
    return Table(path.name, columns, rows)
