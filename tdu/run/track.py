"""Logging to TensorBoard or Weights & Biases, beside log.csv. Needs the extra `track`."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tdu.errors import UserError, unknown
from tdu.run.observers import Observer
from tdu.run.runners.rows import WALL_TIME, Row

KINDS = ("tensorboard", "wandb")


class Tracker(Observer):
    """Passes every episode's row to another logger; None for no logger."""

    def __init__(self, kind: str | None, folder: Path | None, config: dict[str, Any]):
        self._kind, self._folder, self._config = kind, folder, config
        self._log: Callable[[Row], None] | None = None
        self._close: Callable[[], object] | None = None

    def start(self) -> None:
        if self._kind is None:
            return
        if self._kind not in KINDS:
            raise unknown("value of track", self._kind, KINDS)
        if self._folder is None:
            raise UserError(f"track={self._kind} needs the run's folder; give out.")
        begin = _tensorboard if self._kind == "tensorboard" else _wandb
        self._log, self._close = begin(self._folder, self._config)

    def episode(self, row: Row) -> None:
        if self._log is not None:
            self._log(row)

    def close(self) -> None:
        if self._close is not None:
            self._close()


def _tensorboard(folder: Path, config: dict[str, Any]) -> tuple[Callable[[Row], None], Callable[[], object]]:
    del config
    try:
        from tensorboardX import SummaryWriter
    except ModuleNotFoundError as e:
        raise _missing("tensorboard", e) from None
    writer: Any = None

    def log(row: Row) -> None:
        nonlocal writer
        if writer is None:  # a resumed run logs the episodes after its checkpoint again
            writer = SummaryWriter(str(folder / "tensorboard"), purge_step=int(row["episode"]))
        for name, value in row.items():
            if name not in ("episode", WALL_TIME):
                writer.add_scalar(name, float(value), int(row["episode"]))

    return log, lambda: writer.close() if writer is not None else None


def _wandb(folder: Path, config: dict[str, Any]) -> tuple[Callable[[Row], None], Callable[[], object]]:
    try:
        import wandb
    except ModuleNotFoundError as e:
        raise _missing("wandb", e) from None
    mode: Any = os.environ.get("WANDB_MODE") or ("online" if os.environ.get("WANDB_API_KEY") else "offline")
    run = wandb.init(project="tdu", name=folder.name, config=config, dir=str(folder), mode=mode)

    def log(row: Row) -> None:
        run.log({k: float(v) for k, v in row.items() if k != WALL_TIME}, step=int(row["episode"]))

    return log, run.finish


def _missing(kind: str, e: ModuleNotFoundError) -> UserError:
    return UserError(f"--track {kind} needs the extra 'track' ({e.name} is missing): pip install 'tdu[track]'.")
