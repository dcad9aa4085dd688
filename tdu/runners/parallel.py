"""Several runs on one machine: one process per core, one thread each, which beats two threads on one run.

Every run is the same command that a user would type for it alone, so run k equals `--seed k`.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax

from tdu import runs
from tdu.errors import RunError


class Job(NamedTuple):
    """One run: a name to show, and the arguments of its `tdu train`."""

    name: str
    arguments: list[str]
    out: Path


class Outcome(NamedTuple):
    """How a job ended: exit code, its result if it has one, and what it said if it failed."""

    job: Job
    code: int
    result: runs.RunResult | None
    words: str

    @property
    def reason(self) -> str:
        """Why it failed."""
        return self.words.removeprefix("tdu: ") or f"exit code {self.code}"


def use_one_core() -> None:
    """Makes this process compute on one core. To be called before JAX's first computation; yields to the user's own."""
    os.environ.setdefault("NPROC", "1")
    flags = os.environ.get("XLA_FLAGS", "")
    if "xla_cpu_multi_thread_eigen" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} --xla_cpu_multi_thread_eigen=false".strip()
    if "JAX_CPU_ENABLE_ASYNC_DISPATCH" not in os.environ:
        jax.config.update("jax_cpu_enable_async_dispatch", False)  # one core has nobody to hand a computation to


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_all(
    jobs: list[Job],
    *,
    workers: int | None = None,
    tell: Callable[[str, dict[str, Any]], None],
    done: Callable[[Outcome], None],
) -> list[Outcome]:
    """Runs every job, at most `workers` at a time; one that fails does not stop the others."""
    waiting = list(jobs)
    running: list[tuple[Job, subprocess.Popen[str], list[threading.Thread], list[str]]] = []
    outcomes: list[Outcome] = []
    try:
        while waiting or running:
            while waiting and len(running) < (workers or cores()):
                running.append(_start(waiting.pop(0), tell))
            time.sleep(0.05)
            for entry in [e for e in running if e[1].poll() is not None]:
                running.remove(entry)
                job, process, readers, errors = entry
                for reader in readers:
                    reader.join()
                outcome = ended(job, process.returncode, " ".join(errors).strip())
                outcomes.append(outcome)
                done(outcome)
    finally:
        for _, process, _, _ in running:
            process.terminate()
        for _, process, _, _ in running:
            process.wait()
    order = {job.name: i for i, job in enumerate(jobs)}
    return sorted(outcomes, key=lambda o: order[o.job.name])


def _start(job: Job, tell: Callable[[str, dict[str, Any]], None]) -> Any:
    command = [sys.executable, "-m", "tdu", "train", *job.arguments, "--out", str(job.out), "--progress", "json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    errors: list[str] = []

    def read_progress() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if (told := progress_line(line)) is not None:
                tell(job.name, told)

    def read_errors() -> None:
        assert process.stderr is not None
        errors.extend(line.strip() for line in process.stderr)

    readers = [threading.Thread(target=f, daemon=True) for f in (read_progress, read_errors)]
    for reader in readers:
        reader.start()
    return job, process, readers, errors


def progress_line(line: str) -> dict[str, Any] | None:
    """What a run tells of its progress; None where its environment has printed something of its own."""
    try:
        told = json.loads(line)
    except ValueError:
        return None
    return told if isinstance(told, dict) and told.keys() >= _TOLD else None


_TOLD = frozenset(
    [
        "episode",
        "episodes",
        "steps",
        "share",
        "seconds",
        "return",
        "regret",
        "bonus",
        "steps_per_second",
        "seconds_left",
    ]
)


def ended(job: Job, code: int, words: str) -> Outcome:
    """The outcome of a job, with the result that it left, if that can be read."""
    try:
        return Outcome(job, code, runs.read_result(job.out), words)
    except RunError as e:
        return Outcome(job, code or 2, None, words or str(e))
