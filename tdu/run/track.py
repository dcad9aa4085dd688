"""TensorBoard and Weights & Biases beside the run's own log, over environment steps. Needs the extra `track`."""

import os
from pathlib import Path
from typing import Any, Protocol

from tdu.errors import UserError, unknown
from tdu.run.runners.rows import WALL_TIME, Row

KINDS = ("tensorboard", "wandb")


class Writer(Protocol):
    """Where tracked values go."""

    def write(self, values: dict[str, float], steps: int) -> None:
        """Adds values at an environment step."""
        ...

    def close(self) -> None:
        """Writes everything out."""
        ...


class Tracker:
    """Tracks a run: each episode's row of the log, and each evaluation with its 95 % interval and the best one so far."""

    def __init__(self, writer: Writer):
        self._writer = writer

    def episode(self, row: Row) -> None:
        """Adds a row of the log."""
        values = {name: float(value) for name, value in row.items() if name not in ("steps", WALL_TIME)}
        self._writer.write(values, int(row["steps"]))

    def evaluation(self, row: Row, best: float) -> None:
        """Adds a row of evaluations.csv."""
        mean, half = row["greedy_return"], 1.96 * row["standard_error"]
        values = {"return": mean, "return_low": mean - half, "return_high": mean + half, "best_return": best}
        self._writer.write({f"evaluation/{name}": float(value) for name, value in values.items()}, int(row["steps"]))

    def close(self) -> None:
        """Writes everything out."""
        self._writer.close()


def start(kind: str, folder: Path | None, config: dict[str, Any]) -> Tracker:
    """The tracker of a run."""
    if kind not in KINDS:
        raise unknown("value of track", kind, KINDS)
    if folder is None:
        raise UserError(f"track={kind} needs the run's folder; give out.")
    try:
        return Tracker(_TensorBoard(folder) if kind == "tensorboard" else _Wandb(folder, config))
    except ModuleNotFoundError as e:
        raise UserError(
            f"--track {kind} needs the extra 'track' ({e.name} is missing): pip install 'tdu[track]'."
        ) from None


class _TensorBoard:
    def __init__(self, folder: Path):
        from tensorboardX import SummaryWriter

        self._make, self._folder = SummaryWriter, folder
        self._writer: Any = None

    def write(self, values: dict[str, float], steps: int) -> None:
        if self._writer is None:  # a resumed run writes its steps since the checkpoint again
            self._writer = self._make(str(self._folder / "tensorboard"), purge_step=steps)
        for name, value in values.items():
            self._writer.add_scalar(name, value, steps)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


class _Wandb:
    def __init__(self, folder: Path, config: dict[str, Any]):
        import wandb

        mode: Any = os.environ.get("WANDB_MODE") or ("online" if os.environ.get("WANDB_API_KEY") else "offline")
        self._run = wandb.init(project="tdu", name=folder.name, config=config, dir=str(folder), mode=mode)

    def write(self, values: dict[str, float], steps: int) -> None:
        self._run.log(values, step=steps)

    def close(self) -> None:
        self._run.finish()
