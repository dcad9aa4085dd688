"""A log: a CSV file that only grows. A checkpoint stores its length and checksum.

A resumed run truncates its logs to that length. So the log of a run that was killed and resumed equals that of an
uninterrupted run.
"""

import array
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from tdu import files
from tdu.errors import RunError, reading, writing
from tdu.run.runners.rows import Column, Row, column

Log = dict[str, np.ndarray]
"""A log as arrays by column."""


class Stamp(NamedTuple):
    """The length and checksum of the beginning of a file."""

    bytes: int
    sha256: str


_MAX_LINE = 2**20

EMPTY = Stamp(0, hashlib.sha256().hexdigest())


class GrowingFile:
    """A file that only grows, with a running checksum."""

    def __init__(self, path: Path, *, keep: int = 0):
        """Opens the file and truncates it to its first `keep` bytes."""
        self._path = path
        with writing(path):
            self._file = files.open_own(path)
            self._digest, self._bytes = hashlib.sha256(), 0
            while piece := self._file.read(min(2**20, keep - self._bytes)):
                self._digest.update(piece)
                self._bytes += len(piece)
            self._file.truncate(keep)
            self._file.seek(keep)

    def write(self, content: bytes) -> None:
        data = memoryview(content)
        with writing(self._path):
            while data:
                written = self._file.write(data)
                self._digest.update(data[:written])
                self._bytes += written
                data = data[written:]

    def stamp(self) -> Stamp:
        return Stamp(self._bytes, self._digest.hexdigest())

    def flush(self) -> None:
        with writing(self._path):
            os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


class LogWriter(GrowingFile):
    """A log that is being written. Without columns, the first row defines them."""

    def __init__(self, path: Path, columns: Sequence[Column] | None, *, keep: int = 0):
        """Opens the log and truncates it to its first `keep` bytes; a new log gets its header."""
        super().__init__(path, keep=keep)
        self._columns = columns
        if keep and columns is None:
            with reading(path), files.open_regular(path) as f:
                self._columns = [column(name) for name in next(_rows(f, keep), [])]
        elif columns is not None and not keep:
            self._write_header(columns)

    def append(self, rows: Iterable[Row]) -> None:
        lines = []
        for row in rows:
            if self._columns is None:
                self._columns = [column(name) for name in row]
                self._write_header(self._columns)
            lines.append(",".join(str(c.number(row[c.name])) for c in self._columns) + "\n")
        self.write("".join(lines).encode())

    def _write_header(self, columns: Sequence[Column]) -> None:
        self.write((",".join(c.name for c in columns) + "\n").encode())


class MemoryLog:
    """The log of a run without a folder, eight bytes a number. Without columns, the first row defines them."""

    def __init__(self, columns: Sequence[Column] = ()):
        self._columns: dict[Column, array.array[Any]] = {c: _growing(c) for c in columns}

    def append(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self._columns = self._columns or {c: _growing(c) for c in map(column, row)}
            for c, numbers in self._columns.items():
                numbers.append(c.number(row[c.name]))

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()), ()))

    def arrays(self) -> Log:
        return {c.name: np.array(numbers, _dtype(c)) for c, numbers in self._columns.items()}


def rows_of(log: Log) -> list[Row]:
    values = zip(*(numbers.tolist() for numbers in log.values()), strict=True)
    return [dict(zip(log, row, strict=True)) for row in values]


def matches(path: Path, stamp: Stamp) -> bool:
    """Whether the beginning of a log matches a stamp."""
    try:
        with reading(path):
            return files.sha256(path, upto=stamp.bytes) == stamp
    except FileNotFoundError:
        return stamp == EMPTY


def read_log(path: Path, *, upto: int | None = None) -> Log:
    """A log as arrays by column; with `upto`, only its first bytes. An incomplete last row is ignored.

    It is read row by row, so that only the arrays are in memory.
    """
    try:
        with reading(path), files.open_regular(path) as f:
            return _read(f, path, upto)
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError:
        raise RunError(f"{path} is not a log.") from None


def _read(file: BinaryIO, path: Path, upto: int | None) -> Log:
    rows = _rows(file, upto)
    columns = [column(name) for name in next(rows, [])]
    numbers = [_growing(c) for c in columns]
    for row, cells in enumerate(rows, 1):
        if len(cells) != len(columns):
            raise RunError(f"row {row} of {path} has {len(cells)} cells instead of {len(columns)}.")
        for c, values, text in zip(columns, numbers, cells, strict=True):
            try:
                values.append(int(text) if c.whole else float(text))
            except (ValueError, OverflowError):
                kind = "a whole number" if c.whole else "a number"
                raise RunError(f"the log's column {c.name} has a value that is not {kind}.") from None
    log: Log = {c.name: np.array(values, _dtype(c)) for c, values in zip(columns, numbers, strict=True)}
    for c in columns:
        if c.whole and len(log[c.name]) and not 0 <= log[c.name].min() <= log[c.name].max() <= c.most:
            raise RunError(f"column {c.name} of {path} has a value outside 0 to {c.most}.")
    return log


def _rows(file: BinaryIO, upto: int | None) -> Iterator[list[str]]:
    """The cells of the header and of every complete row within the first `upto` bytes."""
    read = 0
    while line := file.readline(_MAX_LINE):
        read += len(line)
        if len(line) == _MAX_LINE:
            raise RunError("a log has a line that is too long.")
        if not line.endswith(b"\n") or (upto is not None and read > upto):
            return
        yield line.decode().rstrip("\r\n").split(",")


def _growing(its_column: Column) -> "array.array[Any]":
    return array.array("q" if its_column.whole else "d")


def _dtype(its_column: Column) -> type:
    return np.int64 if its_column.whole else np.float64
