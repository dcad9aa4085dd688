"""`runs.csv`: one line per finished run. Lines are only added, by any machine, and never removed or changed.

A row has the run (environment, agent, preset, changed options, seed, limit of episodes), its result (the episode of solving,
empty if it was not solved), and its origin (commit, processor). A damaged line is reported and left in the file.
"""

import contextlib
import csv
import errno
import fcntl
import io
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tdu import agents, files
from tdu.environments import parse
from tdu.errors import UserError, writing
from tdu.run.sweeps import Cell

FILE = "runs.csv"

Identity = tuple[str, str, str, str, int, int | None]


class RunRow(NamedTuple):
    """One finished run."""

    env: str
    agent: str
    preset: str
    options: str
    """Differences from the preset; `steps=N` if steps are limited, `until=budget` if only the budget ends the run."""
    seed: int
    limit: int | None
    """Maximum number of episodes; None for the environment's own."""
    solved_episode: int | None
    episodes: int
    steps: int
    score: float | None
    """The run's part of the experiment's score, between 0 and 1; for Atari the human-normalised score."""
    successes: int | None
    """Episodes that reached the goal."""
    seconds: float | None
    commit: str
    processor: str
    mastered_episode: int | None = None
    """None also if the environment has no rule of mastery, and in rows without this column."""
    full_depth_episode: int | None = None
    """The first check at which the greedy policy followed the whole optimal path; only for the experiment `luck`."""

    @property
    def identity(self) -> Identity:
        """What distinguishes its run from others. The same run on another kind of machine has the same identity."""
        return (self.env, self.agent, self.preset, self.options, self.seed, self.limit)


COLUMNS = RunRow._fields
_REQUIRED = len(COLUMNS) - len(RunRow._field_defaults)


def identity(cell: Cell) -> Identity:
    """The identity of a run that is not made yet."""
    steps = "" if cell.steps is None else f"steps={cell.steps}"
    until = "until=budget" if cell.until == "budget" else ""
    options = " ".join(filter(None, (cell.options_text, steps, until)))
    return (cell.env, cell.agent, cell.preset, options, cell.seed, cell.episodes)


def read(path: Path, say: Callable[[str], None]) -> list[RunRow]:
    """The rows of a file, in its order; `say` gets a sentence for each damaged line."""
    if not path.exists():
        return []
    rows = []
    text = _text(path)
    columns = _columns(text, path)
    for number, line in enumerate(_lines(text)[1:], 2):
        try:
            if line:
                rows.append(_row(_by_name(columns, line)))
        except (ValueError, csv.Error) as e:
            say(f"line {number} of {path} is left out: {e}.")
    return rows


def append(path: Path, row: RunRow) -> None:
    """Adds a row. The file is replaced atomically, under a lock, and its other lines stay as they are.

    If another process on the same kind of machine has added the same run, nothing is added.
    """
    with writing(path), _locked(path.parent):
        existing = {(old.identity, old.processor) for old in read(path, lambda sentence: None)}
        if (row.identity, row.processor) in existing:
            return
        text = _text(path) if path.exists() else _line(COLUMNS)
        lines = _with_all_columns(_lines(text), _columns(text, path))
        files.write_atomically(path, ("\n".join(lines) + "\n" + _line(row)).encode())


def first_of_each(rows: Iterable[RunRow]) -> dict[Identity, RunRow]:
    """One row per run, the first in the file: it was chosen before the result of a second machine was known."""
    first: dict[Identity, RunRow] = {}
    for row in rows:
        first.setdefault(row.identity, row)
    return first


def check_file(path: Path) -> None:
    """Raises a UserError if no row can be added to a file. The file and its folder need not exist yet."""
    if path.exists():
        _columns(_text(path), path)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(path.parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _text(path: Path) -> str:
    if not path.is_file():
        raise UserError(f"{path} is no file; move it away.")
    try:
        return path.read_text("utf-8-sig")  # spreadsheets write a byte order mark
    except (OSError, UnicodeDecodeError) as e:
        raise UserError(f"{path} cannot be read ({e}); repair it, or move it away.") from None


def _columns(text: str, path: Path) -> list[str]:
    """The header: our columns, perhaps without the optional ones at the end."""
    with contextlib.suppress(csv.Error):
        header = _cells(_lines(text)[0])
        if len(header) >= _REQUIRED and header == list(COLUMNS[: len(header)]):
            return header
    raise UserError(f"{path} is no table of runs (its columns are not {', '.join(COLUMNS[:3])} …); move it away.")


def _lines(text: str) -> list[str]:
    """One line per row: a quote that is not closed damages only its own line."""
    return text.removesuffix("\n").split("\n")


def _cells(line: str) -> list[str]:
    return next(csv.reader([line], strict=True), [])


def _by_name(columns: Sequence[str], line: str) -> dict[str, str]:
    cells = _cells(line)
    if len(cells) != len(columns):
        raise ValueError("its number of cells is not the header's")
    return dict(zip(columns, cells, strict=True))


def _line(cells: Sequence[Any]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow("" if cell is None else cell for cell in cells)
    return out.getvalue()


def _with_all_columns(lines: Sequence[str], columns: Sequence[str]) -> list[str]:
    """The same lines with empty cells for the columns that they lack; damaged lines stay as they are."""
    added = "," * (len(COLUMNS) - len(columns))

    def whole(line: str) -> bool:
        try:
            return len(_cells(line)) == len(columns)
        except csv.Error:
            return False

    body = [line.rstrip("\r") + added if added and whole(line) else line for line in lines[1:]]
    return [",".join(COLUMNS), *body]


def _row(texts: Mapping[str, str]) -> RunRow:
    """A row from the cells of a line; a ValueError gives the reason why it cannot be one."""
    texts = {name: value.strip() for name, value in texts.items()}
    for name in ("env", "agent", "preset"):
        if not texts[name]:
            raise ValueError(f"it has no {name}")
    if texts["agent"] not in agents.AGENTS:
        raise ValueError(f"this version has no agent '{texts['agent']}'")
    if texts["preset"] not in {*agents.PRESETS, *agents.RECURRENT_PRESETS}:
        raise ValueError(f"this version has no preset '{texts['preset']}'")
    limit, solved = _whole(texts, "limit", 1), _whole(texts, "solved_episode", 1)
    episodes = _required(texts, "episodes", 1)
    if solved is not None and solved > episodes:
        raise ValueError(f"it is solved at episode {solved} of {episodes}")
    if solved is None and limit is not None and episodes < limit:
        raise ValueError(f"it has {episodes} of its {limit} episodes and is not solved")
    any_score = parse(texts["env"]).source == "atari"
    return RunRow(
        env=texts["env"],
        agent=texts["agent"],
        preset=texts["preset"],
        options=texts["options"],
        seed=_required(texts, "seed", 0),
        limit=limit,
        solved_episode=solved,
        mastered_episode=_whole(texts, "mastered_episode", 1),
        full_depth_episode=_whole(texts, "full_depth_episode", 1),
        episodes=episodes,
        steps=_required(texts, "steps", 1),
        score=_real(texts, "score", math.inf, -math.inf) if any_score else _real(texts, "score", 1.0),
        successes=_whole(texts, "successes", 0),
        seconds=_real(texts, "seconds", math.inf),
        commit=texts["commit"],
        processor=texts["processor"],
    )


def _whole(texts: Mapping[str, str], name: str, least: int) -> int | None:
    return _required(texts, name, least) if texts.get(name) else None


def _required(texts: Mapping[str, str], name: str, least: int) -> int:
    text = texts[name]
    if not (text.isascii() and text.isdigit()) or int(text) < least:
        raise ValueError(f"{name} is '{text}' and not a whole number of at least {least}")
    return int(text)


def _real(texts: Mapping[str, str], name: str, most: float, least: float = 0.0) -> float | None:
    text = texts[name]
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and least <= value <= most):
        bounds = (" of at least 0" if least == 0 else "") + (" and at most 1" if most == 1 else "")
        raise ValueError(f"{name} is '{text}' and not a number{bounds}")
    return value


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One process at a time adds to a folder's rows; the system releases the lock if the process dies."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
