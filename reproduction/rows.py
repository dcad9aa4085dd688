"""The rows that finished runs leave: `runs.csv`, one line per run, kept for ever and added to by any machine.

A row says what was run (environment, agent, preset, options that differ from it, seed, limit of episodes), what came out
(episode of solving, or nothing where it was not solved within `episodes`), and where (commit, processor). Nothing that a
file holds is ever taken out of it: a line that cannot be understood is named and left where it is.
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


class Row(NamedTuple):
    """One finished run."""

    env: str
    agent: str
    preset: str
    options: str
    """What differs from the preset; `steps=N` where steps are limited, `until=budget` where nothing else ends the run."""
    seed: int
    limit: int | None
    """Episodes that the run was given; None for the environment's own number."""
    solved_episode: int | None
    episodes: int
    steps: int
    score: float | None
    """What the run counts in the experiment's score, between 0 and 1; of an Atari game, the human-normalised score."""
    successes: int | None
    """Episodes that reached the goal, where the environment has one."""
    seconds: float | None
    commit: str
    processor: str
    mastered_episode: int | None = None
    """None also where the environment cannot be mastered, and in older rows."""
    full_depth_episode: int | None = None
    """The first check at which the greedy policy followed the whole optimal path; only the experiment `luck` needs it."""

    @property
    def identity(self) -> Identity:
        """What tells its run from others. Another machine's run of the same identity is another draw of the same thing."""
        return (self.env, self.agent, self.preset, self.options, self.seed, self.limit)


COLUMNS = Row._fields
_NEEDED = {"env", "agent", "preset", "seed", "solved_episode", "episodes", "steps"}


def identity(cell: Cell) -> Identity:
    """The same of a run that is asked for."""
    steps = "" if cell.steps is None else f"steps={cell.steps}"
    until = "until=budget" if cell.until == "budget" else ""
    options = " ".join(filter(None, (cell.options_text, steps, until)))
    return (cell.env, cell.agent, cell.preset, options, cell.seed, cell.episodes)


def read(path: Path, say: Callable[[str], None]) -> list[Row]:
    """The rows of a file, in its order; of one that cannot be understood, `say` is told where it is and why.

    Older versions had fewer columns: what they did not write down is unknown, but for their limit of 10,000 episodes.
    """
    if not path.exists():
        return []
    rows = []
    text = _text(path)
    _check_header(text, path)
    header = _header(text)
    for number, line in enumerate(_lines(text)[1:], 2):
        try:
            if line:
                rows.append(_row(_by_name(header, line)))
        except (ValueError, csv.Error) as e:
            say(f"line {number} of {path} is left out: {e}.")
    return rows


def append(path: Path, row: Row) -> None:
    """Adds a row. The file is replaced as a whole, under a lock, and all its other lines stay as they are.

    Where another process on the same kind of machine was faster, its row is the same one, and stays alone.
    """
    with writing(path), _locked(path.parent):
        there = {(known.identity, known.processor) for known in read(path, lambda sentence: None)}
        if (row.identity, row.processor) in there:
            return
        text = _text(path) if path.exists() else _line(COLUMNS)
        _check_header(text, path)
        if _header(text)[: len(COLUMNS)] != list(COLUMNS):
            text = _with_our_columns(text)
        if not text.endswith("\n"):
            text += "\n"  # a line that was cut off stays a line of its own
        others = len(_header(text)) - len(COLUMNS)
        files.write_atomically(path, (text + _line([*row, *[None] * others])).encode())


def first_of_each(rows: Iterable[Row]) -> dict[Identity, Row]:
    """One row for each run, the one that was there first: chosen before anybody saw what a second machine got."""
    found: dict[Identity, Row] = {}
    for row in rows:
        found.setdefault(row.identity, row)
    return found


def check_file(path: Path) -> None:
    """A UserError says why no row could be added to a file; it, or its folder, need not be there yet."""
    if path.exists():
        _check_header(_text(path), path)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(path.parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _text(path: Path) -> str:
    if not path.is_file():
        raise UserError(f"{path} is no file; move it away.")
    try:
        return path.read_text("utf-8-sig")  # what a spreadsheet has saved may begin with a mark
    except (OSError, UnicodeDecodeError) as e:
        raise UserError(f"{path} cannot be read ({e}); mend it, or move it away.") from None


def _check_header(text: str, path: Path) -> None:
    lacking = _NEEDED - set(_header(text))
    if lacking:
        raise UserError(f"{path} is no table of runs (it has no column {min(lacking)}); mend it, or move it away.")


def _header(text: str) -> list[str]:
    try:
        return _cells(_lines(text)[0])
    except csv.Error:
        return []


def _lines(text: str) -> list[str]:
    """One for each row, whatever stands in it: a quote that is not closed spoils no line but its own."""
    return text.removesuffix("\n").split("\n")


def _cells(line: str) -> list[str]:
    return next(csv.reader([line], strict=True), [])


def _by_name(header: Sequence[str], line: str) -> dict[str, str]:
    """A line's texts; a ValueError where they are not as many as the header's."""
    cells = _cells(line)
    if len(cells) != len(header):
        raise ValueError("it has another number of cells than the header")
    return dict(zip(header, cells, strict=True))


def _line(cells: Sequence[Any]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow("" if cell is None else cell for cell in cells)
    return out.getvalue()


def _with_our_columns(text: str) -> str:
    """A table of an older version with the columns of this one; what those do not name comes behind them.

    What had no limit of its own had the older versions', and a line that cannot be understood stays as it is.
    """
    header = _header(text)
    others = [name for name in header if name not in COLUMNS]
    lines = [_line([*COLUMNS, *others])]
    for line in _lines(text)[1:]:
        try:
            cells = {"limit": _OLD_LIMIT} | _by_name(header, line)
            lines.append(_line([cells.get(name, "") for name in (*COLUMNS, *others)]))
        except (ValueError, csv.Error):
            lines.append(line + "\n")
    return "".join(lines)


_OLD_LIMIT = "10000"


def _row(cells: Mapping[str, str]) -> Row:
    """A row from a line's texts; a ValueError says what is wrong with it."""
    texts = {"limit": _OLD_LIMIT} | {name: value.strip() for name, value in cells.items()}
    for name in ("env", "agent", "preset"):
        if not texts[name]:
            raise ValueError(f"it has no {name}")
    if texts["agent"] not in agents.AGENTS:
        raise ValueError(f"this version has no agent '{texts['agent']}'")
    if texts["preset"] not in {*agents.PRESETS, *agents.RECURRENT_PRESETS}:
        raise ValueError(f"this version has no preset '{texts['preset']}'")
    limit = _whole(texts, "limit", 1)
    solved, episodes = _whole(texts, "solved_episode", 1), _whole(texts, "episodes", 1, needed=True)
    assert episodes is not None
    if solved is not None and solved > episodes:
        raise ValueError(f"it is solved at episode {solved} of {episodes}")
    if solved is None and limit is not None and episodes < limit:
        raise ValueError(f"it has {episodes} of its {limit} episodes and is not solved")
    seed, steps = _whole(texts, "seed", 0, needed=True), _whole(texts, "steps", 1, needed=True)
    assert seed is not None
    assert steps is not None
    return Row(
        env=texts["env"],
        agent=texts["agent"],
        preset=texts["preset"],
        options=texts.get("options", ""),
        seed=seed,
        limit=limit,
        solved_episode=solved,
        mastered_episode=_whole(texts, "mastered_episode", 1),
        full_depth_episode=_whole(texts, "full_depth_episode", 1),
        episodes=episodes,
        steps=steps,
        score=_real(texts, "score", math.inf, -math.inf)
        if parse(texts["env"]).source == "atari"
        else _real(texts, "score", 1.0),
        successes=_whole(texts, "successes", 0),
        seconds=_real(texts, "seconds", math.inf),
        commit=texts.get("commit", ""),
        processor=texts.get("processor", ""),
    )


def _whole(texts: dict[str, str], name: str, least: int, *, needed: bool = False) -> int | None:
    text = texts.get(name, "")
    if not text and not needed:
        return None
    if not (text.isascii() and text.isdigit()) or int(text) < least:
        raise ValueError(f"{name} is '{text}' and not a whole number of at least {least}")
    return int(text)


def _real(texts: dict[str, str], name: str, most: float, least: float = 0.0) -> float | None:
    text = texts.get(name, "")
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
    """One process at a time adds to a folder's rows; the system gives the lock back when a process dies."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
