"""Loggers that people already use, beside the run's own log. Need the extra `track`; off by default."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tdu.errors import UserError, unknown
from tdu.run.runners.rows import WALL_TIME, Row

KINDS = ("tensorboard", "wandb")


def start(kind: str, folder: Path | None, config: dict[str, Any]) -> tuple[Callable[[Row], None], Callable[[], None]]:
    """A function that takes every finished episode's row, and one that ends it."""
    if kind not in KINDS:
        raise unknown("value of track", kind, KINDS)
    if folder is None:
        raise UserError(f"track={kind} needs the run's folder; give out.")
    return (_tensorboard if kind == "tensorboard" else _wandb)(folder, config)


def _tensorboard(folder: Path, config: dict[str, Any]) -> tuple[Callable[[Row], None], Callable[[], None]]:
    del config
    try:
        from tensorboardX import SummaryWriter
    except ModuleNotFoundError as e:
        raise _missing("tensorboard", e) from None
    writer: Any = None

    def row(values: Row) -> None:
        nonlocal writer
        if writer is None:  # a resumed run writes its episodes since the checkpoint again
            writer = SummaryWriter(str(folder / "tensorboard"), purge_step=int(values["episode"]))
        for name, value in values.items():
            if name not in ("episode", WALL_TIME):
                writer.add_scalar(name, float(value), int(values["episode"]))

    return row, lambda: writer.close() if writer is not None else None


def _wandb(folder: Path, config: dict[str, Any]) -> tuple[Callable[[Row], None], Callable[[], None]]:
    try:
        import wandb
    except ModuleNotFoundError as e:
        raise _missing("wandb", e) from None
    mode: Any = os.environ.get("WANDB_MODE") or ("online" if os.environ.get("WANDB_API_KEY") else "offline")
    run = wandb.init(project="tdu", name=folder.name, config=config, dir=str(folder), mode=mode)

    def row(values: Row) -> None:
        run.log({k: float(v) for k, v in values.items() if k != WALL_TIME}, step=int(values["episode"]))

    return row, run.finish


def _missing(kind: str, e: ModuleNotFoundError) -> UserError:
    return UserError(f"--track {kind} needs the extra 'track' ({e.name} is missing): pip install 'tdu[track]'.")
