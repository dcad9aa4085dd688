"""A run's folder: config.json, log.csv, checkpoints/ and result.json, locked while the run goes on.

`log.csv` has a row per episode and grows as the run does. A checkpoint remembers how many bytes of the log belong to it;
a resumed run cuts the log back to there, so that the log of a run that was killed and resumed equals that of one that
never was.
"""

import csv
import fcntl
import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from tdu import checkpoints
from tdu.errors import RunError
from tdu.runners.rows import Row

_WHOLE = {"episode", "steps", "episode_len", "head", "total_bad_episodes"}


class Folder:
    """A run's folder, opened for writing."""

    def __init__(self, path: str | os.PathLike[str], *, resume: bool):
        self.path = Path(path)
        if self.path.exists() and not self.path.is_dir():
            raise RunError(f"{self.path} is a file; choose another --out.")
        used = self.path.is_dir() and any(p.name != ".lock" for p in self.path.iterdir())
        if used and not resume:
            raise RunError(f"{self.path} already exists; add --resume to continue it, or choose another --out.")
        if used and not self.config_path.exists() and any(p.name not in _OURS for p in self.path.iterdir()):
            raise RunError(f"{self.path} holds other files and no run; choose another --out.")
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = open(self.path / ".lock", "a")  # noqa: SIM115 (held for as long as the run)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise RunError(f"{self.path} is in use by another process; wait for it or choose another --out.") from None
        self._log: io.FileIO | None = None

    @property
    def config_path(self) -> Path:
        return self.path / "config.json"

    def read_config(self) -> dict[str, Any] | None:
        """The config of the run that is here, if there is one."""
        return read_json(self.config_path) if self.config_path.exists() else None

    def write_config(self, config: dict[str, Any]) -> None:
        """Stores the run's config."""
        checkpoints.write_atomically(self.config_path, _json(config))

    def write_result(self, result: dict[str, Any]) -> None:
        """Stores the run's result, which marks it as finished."""
        checkpoints.write_atomically(self.path / "result.json", _json(result))

    def read_result(self) -> dict[str, Any] | None:
        """The result of a finished run."""
        path = self.path / "result.json"
        return read_json(path) if path.exists() else None

    def open_log(self, columns: tuple[str, ...], *, at: int = 0) -> None:
        """Opens the log and cuts it back to its first `at` bytes; a new one gets its header."""
        path = self.path / "log.csv"
        if at > (path.stat().st_size if path.exists() else 0):
            raise RunError(f"{path} is shorter than its checkpoint says; it was changed and cannot be continued.")
        self._log = open(path, "r+b" if path.exists() else "w+b", buffering=0)  # noqa: SIM115
        self._log.truncate(at)
        self._log.seek(at)
        self._columns = columns
        if at == 0:
            self._write(",".join(columns) + "\n")

    def append(self, rows: list[Row]) -> None:
        """Adds rows to the log."""
        text = io.StringIO()
        writer = csv.DictWriter(text, self._columns, lineterminator="\n")
        writer.writerows({k: str(v) for k, v in row.items()} for row in rows)
        self._write(text.getvalue())

    def save_checkpoint(self, step: int, arrays: Any, manifest: dict[str, Any]) -> None:
        """Writes a checkpoint that remembers the log's present length."""
        assert self._log is not None
        os.fsync(self._log.fileno())
        manifest = manifest | {"log_bytes": self._log.tell()}
        checkpoints.save(self.path / "checkpoints", step, arrays, manifest)

    def close(self) -> None:
        """Closes the log and gives up the lock."""
        if self._log is not None:
            self._log.close()
        self._lock.close()

    def _write(self, text: str) -> None:
        assert self._log is not None
        data = memoryview(text.encode())
        while data:
            data = data[self._log.write(data) :]


_OURS = {".lock", "config.json", "log.csv", "checkpoints", "result.json", ".config.json.writing"}


def read_log(path: Path, *, upto: int | None = None) -> dict[str, np.ndarray]:
    """A log as arrays by column; with `upto`, only its first bytes."""
    data = path.read_bytes()[:upto] if path.exists() else b""
    header, *lines = list(csv.reader(io.StringIO(data.decode()))) or [[]]
    lines = [line for line in lines if len(line) == len(header)]
    cells = list(zip(*lines, strict=True)) if lines else [()] * len(header)
    return {name: _column(name, cell) for name, cell in zip(header, cells, strict=True)}


def rows_to_arrays(rows: list[Row], columns: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Rows kept in memory as arrays by column."""
    return {name: _column(name, [row[name] for row in rows]) for name in columns}


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file of ours."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError) as e:
        raise RunError(f"{path} cannot be read ({e}).") from None
    if not isinstance(found, dict):
        raise RunError(f"{path} is not a run's file.")
    return found


def _column(name: str, cells: Any) -> np.ndarray:
    return np.asarray([float(c) for c in cells]).astype(np.int64 if name in _WHOLE else np.float64)


def _json(value: dict[str, Any]) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()
