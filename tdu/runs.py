"""A run's folder: config.json, log.csv, checkpoints/ and result.json, locked while the run goes on.

`log.csv` has a row per episode and grows as the run does. A checkpoint remembers how many bytes of the log belong to it;
a resumed run cuts the log back to there, so that the log of a run that was killed and resumed equals that of one that
never was.
"""

import csv
import fcntl
import hashlib
import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from tdu import checkpoints
from tdu.errors import RunError, writing
from tdu.runners.rows import Row

_WHOLE = {"episode", "steps", "episode_len", "head", "total_bad_episodes"}


class Folder:
    """A run's folder, opened for writing."""

    def __init__(self, path: str | os.PathLike[str], *, resume: bool):
        self.path = Path(path)
        with writing(self.path):
            self._refuse_if_taken(resume)
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = open(self.path / ".lock", "a")  # noqa: SIM115 (held for as long as the run)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise RunError(f"{self.path} is in use by another process; wait for it or choose another --out.") from None
        self._refuse_if_taken(resume)
        self._log: io.FileIO | None = None

    def _refuse_if_taken(self, resume: bool) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise RunError(f"{self.path} is a file; choose another --out.")
        names = {p.name for p in self.path.iterdir()} - {".lock"} if self.path.is_dir() else set()
        if names and not resume:
            raise RunError(
                f"{self.path} already exists; continue it (--resume, or resume=True) or choose another folder (--out)."
            )
        if names - _OURS and not self.config_path.exists():
            raise RunError(f"{self.path} holds other files and no run; choose another --out.")

    @property
    def config_path(self) -> Path:
        return self.path / "config.json"

    def read_config(self) -> dict[str, Any] | None:
        """The config of the run that is here, if there is one."""
        return read_config(self.path) if self.config_path.exists() else None

    def write_config(self, config: dict[str, Any]) -> None:
        """Stores the run's config."""
        with writing(self.config_path):
            checkpoints.write_atomically(self.config_path, _json(config))

    def write_result(self, result: dict[str, Any]) -> None:
        """Stores the run's result, which marks it as finished."""
        with writing(self.path / "result.json"):
            checkpoints.write_atomically(self.path / "result.json", _json(result))

    def read_result(self) -> dict[str, Any] | None:
        """The result of a finished run."""
        return read_result(self.path)

    def open_log(self, columns: tuple[str, ...], *, at: int = 0) -> None:
        """Opens the log and cuts it back to its first `at` bytes; a new one gets its header."""
        self._log_path = self.path / "log.csv"
        with writing(self._log_path):
            self._log = open(self._log_path, "r+b" if self._log_path.exists() else "w+b", buffering=0)  # noqa: SIM115
            self._digest = hashlib.sha256(self._log.read(at))
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
        with writing(self.path / "checkpoints"):
            os.fsync(self._log.fileno())
            manifest = manifest | {"log_bytes": self._log.tell(), "log_sha256": self._digest.hexdigest()}
            checkpoints.save(self.path / "checkpoints", step, arrays, manifest)

    def close(self) -> None:
        """Closes the log and gives up the lock."""
        if self._log is not None:
            self._log.close()
        self._lock.close()

    def _write(self, text: str) -> None:
        assert self._log is not None
        data = memoryview(text.encode())
        with writing(self._log_path):
            while data:
                written = self._log.write(data)
                self._digest.update(data[:written])
                data = data[written:]


def make_folder(path: Path) -> None:
    """A folder for runs, if it is not there yet."""
    with writing(path):
        if path.exists() and not path.is_dir():
            raise RunError(f"{path} is a file; choose another folder.")
        path.mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK):
            raise PermissionError(13, "permission denied")


_OURS = {
    ".lock", "config.json", "log.csv", "checkpoints", "result.json", ".config.json.writing", "evaluation.json",
    "tensorboard", "wandb",
}  # fmt: skip


def log_matches(path: Path, manifest: dict[str, Any]) -> bool:
    """Whether the log still begins with what the checkpoint has seen of it."""
    data = path.read_bytes()[: manifest["log_bytes"]] if path.exists() else b""
    return len(data) == manifest["log_bytes"] and hashlib.sha256(data).hexdigest() == manifest["log_sha256"]


def read_config(folder: Path) -> dict[str, Any]:
    """A run's config.json."""
    path = folder / "config.json"
    config = read_json(path)
    if any(not isinstance(config.get(name), kind) for name, kind in _CONFIG.items()):
        raise RunError(f"{path} is not a run's config.")
    return config


_CONFIG = {"env": str, "agent": str, "seed": int, "episodes": int, "stop": bool, "config": dict}


def read_result(folder: Path) -> dict[str, Any] | None:
    """A run's result.json, if it has finished."""
    path = folder / "result.json"
    if not path.exists():
        return None
    result = read_json(path)
    if any(not isinstance(result.get(name), int | float) for name in ("episodes", "mean_return")):
        raise RunError(f"{path} is not a run's result.")
    return result


def read_log(path: Path, *, upto: int | None = None) -> dict[str, np.ndarray]:
    """A log as arrays by column; with `upto`, only its first bytes."""
    data = path.read_bytes()[:upto] if path.exists() else b""
    try:
        header, *lines = list(csv.reader(io.StringIO(data.decode()))) or [[]]
    except (UnicodeDecodeError, csv.Error):
        raise RunError(f"{path} is not a log.") from None
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
    try:
        numbers = np.asarray([float(c) for c in cells])
    except ValueError:
        raise RunError(f"the log's column {name} holds something that is not a number.") from None
    return numbers.astype(np.int64 if name in _WHOLE else np.float64)


def _json(value: dict[str, Any]) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()
