"""Shared by kill_and_resume.py and mutations.py: kinds of small runs, and digests of a run folder.

Files are found by walking the folder, so new file names in checkpoints need no change here.
"""

import csv
import hashlib
import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from safetensors.numpy import load

KINDS: dict[str, tuple[str, ...]] = {
    "compiled": ("deep_sea:size=10,stochastic=true",),
    "bsuite": ("bsuite:catch/0",),
    "gymnasium": ("gym:CartPole-v1",),
    "vector": ("gym:CartPole-v1", "--num-envs", "4"),
}
"""Kinds of runs: the arguments of `tdu train`."""
SMALL = (
    "--until", "budget", "--hidden-sizes", "8", "--exploiters", "2", "--explorers", "2", "--batch-size", "8",
    "--replay-capacity", "200", "--min-replay", "16", "--progress", "none",
)  # fmt: skip
TIMES = {"seconds", "steps_per_second", "log_sha256", "checkpoint_sha256", "sha256"}
"""Fields of a result that depend on wall time, directly or through a checksum."""

QUICK_COMPILER = (
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
    "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
)
"""XLA_FLAGS with which programs compile in half the time and run slower. Numbers differ from a user's by rounding."""


def keep_compiled(folder: Path) -> None:
    """Shares compiled programs between this process and those it starts. Call it before tdu is imported."""
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"


def facts(out: Path) -> dict[str, str]:
    """Digests of logs, arrays and result. Two runs of one seed must share them, wherever they were interrupted.

    Wall time is excluded. An unreadable file has a message instead of a digest.
    """
    parts = {"log": _log, "learner log": _learner_log, "state": _state, "result": _result}
    return {name: _digest(part, out) for name, part in parts.items()}


def checkpoints(out: Path) -> list[Path]:
    """The complete checkpoints, oldest first."""
    return sorted(p for p in (out / "checkpoints").glob("*") if p.name.isdigit())


def _log(out: Path, name: str = "log.csv") -> bytes:
    rows = list(csv.reader(io.StringIO((out / name).read_text())))
    times = {i for i, name in enumerate(rows[0]) if name in TIMES}
    return json.dumps([[cell for i, cell in enumerate(row) if i not in times] for row in rows]).encode()


def _learner_log(out: Path) -> bytes:
    """The learner's log; short runs have none."""
    return _log(out, "learner.csv") if (out / "learner.csv").exists() else b""


def _state(out: Path) -> bytes:
    found: dict[str, list[np.ndarray]] = {}
    for path in sorted(checkpoints(out)[-1].rglob("*.safetensors")):
        for name, array in load(path.read_bytes()).items():
            found.setdefault(name, []).append(array)
    parts = [f"{n}{a.dtype}{a.shape}".encode() + a.tobytes() for n, arrays in sorted(found.items()) for a in arrays]
    return b"".join(hashlib.sha256(part).digest() for part in parts)


def result(out: Path) -> dict:
    """A run's result without wall time."""
    return {k: v for k, v in json.loads((out / "result.json").read_text()).items() if k not in TIMES}


def _result(out: Path) -> bytes:
    return json.dumps(result(out), sort_keys=True).encode()


def _digest(part, out: Path) -> str:
    try:
        return hashlib.sha256(part(out)).hexdigest()
    except Exception as e:
        return f"unreadable: {type(e).__name__}: {e}"


def typed() -> list[str]:
    """The script's arguments without output paths."""
    words = sys.argv[1:]
    places = ("--out", "--keep")
    return [w for w, before in zip(words, ["", *words], strict=False) if w not in places and before not in places]


def commit() -> str:
    """The measured commit; "-dirty" if files were changed."""
    words = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    described = subprocess.run(words, cwd=Path(__file__).parent, capture_output=True, text=True)
    return described.stdout.strip() or "unknown"


class Clock:
    """Elapsed time, and an estimate of the remaining time."""

    def __init__(self, total: int):
        self._total, self._started = total, time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    def words(self, done: int) -> str:
        """Progress in one line."""
        left = round(self.seconds * (self._total - done) / max(done, 1))
        return f"{done} of {self._total}, about {left // 60}:{left % 60:02d} left"


def write(out: Path, outcome: dict) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(outcome, indent=1) + "\n")
