"""What kill_and_resume.py and mutations.py share: kinds of small runs, and what a run's folder amounts to.

Files are found by walking a folder, not by name, so that both go on working where a checkpoint has other files.
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
"""Kinds of runs, by what follows `tdu train`."""
SMALL = (
    "--until", "budget", "--hidden-sizes", "8", "--exploiters", "2", "--explorers", "2", "--batch-size", "8",
    "--replay-capacity", "200", "--min-replay", "16", "--progress", "none",
)  # fmt: skip
TIMES = {"seconds", "steps_per_second", "log_sha256", "checkpoint_sha256", "sha256"}
"""What a result says of wall time, and digests of what has wall time in it."""

QUICK_COMPILER = (
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
    "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
)
"""XLA_FLAGS with which programs compile in half the time and run slower: other numbers than a user's, but as many of them."""


def keep_compiled(folder: Path) -> None:
    """Lets this process and those it starts share what is compiled. To be called before tdu is imported."""
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"


def facts(out: Path) -> dict[str, str]:
    """What two runs of one seed must have in common, wherever they were cut off: logs, arrays and result as digests.

    Wall time is left out. What cannot be read says so in place of its digest.
    """
    parts = {"log": _log, "learner log": _learner_log, "state": _state, "result": _result}
    return {name: _told(part, out) for name, part in parts.items()}


def checkpoints(out: Path) -> list[Path]:
    """The checkpoints that are whole, oldest first."""
    return sorted(p for p in (out / "checkpoints").glob("*") if p.name.isdigit())


def _log(out: Path, name: str = "log.csv") -> bytes:
    rows = list(csv.reader(io.StringIO((out / name).read_text())))
    times = {i for i, name in enumerate(rows[0]) if name in TIMES}
    return json.dumps([[cell for i, cell in enumerate(row) if i not in times] for row in rows]).encode()


def _learner_log(out: Path) -> bytes:
    """Short runs have none."""
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


def _told(part, out: Path) -> str:
    try:
        return hashlib.sha256(part(out)).hexdigest()
    except Exception as e:
        return f"unreadable: {type(e).__name__}: {e}"


def typed() -> list[str]:
    """The script's arguments without the places it was to write to."""
    words = sys.argv[1:]
    places = ("--out", "--keep")
    return [w for w, before in zip(words, ["", *words], strict=False) if w not in places and before not in places]


def commit() -> str:
    """The commit that was measured; "-dirty" if anything was changed since."""
    words = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    told = subprocess.run(words, cwd=Path(__file__).parent, capture_output=True, text=True)
    return told.stdout.strip() or "unknown"


class Clock:
    """How long something took, and how long the rest may take."""

    def __init__(self, total: int):
        self._total, self._started = total, time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._started

    def words(self, done: int) -> str:
        """How far it is, in one line."""
        left = round(self.seconds * (self._total - done) / max(done, 1))
        return f"{done} of {self._total}, about {left // 60}:{left % 60:02d} left"


def write(out: Path, outcome: dict) -> None:
    """Saves what came out."""
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(outcome, indent=1) + "\n")
