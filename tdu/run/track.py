"""Logging to TensorBoard or Weights & Biases, beside log.csv, over environment steps. Needs the extra `track`."""

import dataclasses
import importlib
import math
import os
from pathlib import Path
from typing import Any

from tdu.errors import UserError, setting, unknown
from tdu.options import TRACKERS
from tdu.run.folder.records import RunResult
from tdu.run.live_run import LiveRun, Observer
from tdu.run.runners.rows import WALL_TIME, Row


def check(kind: str | None, out: object) -> None:
    """Refuses an unknown kind, a missing package, and a run without a folder."""
    if kind is None:
        return
    if kind not in TRACKERS:
        raise unknown("value of track", kind, TRACKERS)
    if out is None:
        raise UserError(f"track={kind} needs the run's folder; give out.")
    try:
        importlib.import_module(TRACKERS[kind])
    except ModuleNotFoundError as e:
        raise UserError(
            f"{setting('track', kind)} needs the extra 'track' ({e.name} is missing): pip install 'tdu[track]'."
        ) from None


class Tracker(Observer):
    """Tracks every episode's row, and each evaluation with its 95 % interval and the best one so far."""

    def __init__(self, run: LiveRun, kind: str):
        assert run.folder is not None
        self._run, self._folder, self._kind = run, run.folder.path, kind
        self._writer: _TensorBoard | _Wandb | None = None
        self._tracked: Row | None = None  # the last evaluation that was written

    def start(self) -> None:
        self._tracked = self._run.last_evaluation
        is_wandb = self._kind == "wandb"
        self._writer = _Wandb(self._folder, self._run.config.to_json()) if is_wandb else _TensorBoard(self._folder)

    def _write(self, values: dict[str, float], steps: int) -> None:
        assert self._writer is not None
        self._writer.write(values, steps)

    def episode(self, row: Row) -> None:
        values = {name: float(value) for name, value in row.items() if name not in ("steps", WALL_TIME)}
        self._write(values, int(row["steps"]))

    def advanced(self, rows: list[Row]) -> None:
        row = self._run.last_evaluation
        if row is not None and row is not self._tracked:
            self._tracked = row
            self._evaluation(row)

    def ended(self, result: RunResult) -> None:
        end = result.greedy_return
        if end is not None and (self._tracked is None or self._tracked["steps"] < result.steps):
            self._evaluation(dataclasses.asdict(end) | {"greedy_return": end.mean, "steps": result.steps})

    def _evaluation(self, row: Row) -> None:
        mean, half = row["greedy_return"], 1.96 * row["standard_error"]
        values = {"return": mean, "return_low": mean - half, "return_high": mean + half, "length": row["mean_length"]}
        values |= {"best_return": max(self._run.best_return, mean), "success_rate": row["success_rate"]}
        known = {f"evaluation/{name}": float(x) for name, x in values.items() if x is not None and math.isfinite(x)}
        self._write(known, int(row["steps"]))

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


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
