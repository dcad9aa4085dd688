"""Several runs on one machine: one process per core, one thread each, which beats two threads on one run.

Every run is the same command that a user would type for it alone, so run k equals `--seed k`.
"""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax

from tdu.errors import RunError
from tdu.run import folder as runs


class Job(NamedTuple):
    """One run: a name to show, and the arguments of its `tdu train`."""

    name: str
    arguments: list[str]
    out: Path


Tell = Callable[[str, dict[str, Any]], None]
"""Is given a job's name and what it reports of its progress."""


class Outcome(NamedTuple):
    """How a job ended: exit code, its result if it has one, and what it said if it failed."""

    job: Job
    code: int
    result: runs.RunResult | None
    stderr: str

    @property
    def reason(self) -> str:
        """Why it failed."""
        _, mine, sentence = self.stderr.rpartition("tdu: ")  # what stands before is its environment's
        return (sentence if mine else self.stderr) or f"exit code {self.code}"


@contextlib.contextmanager
def ending_as_interrupted() -> Iterator[None]:
    """The system's request to end is taken as Ctrl-C, so that the processes of jobs are ended too."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: Any) -> None:
        del number, frame
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


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


def train_command(job: Job) -> list[str]:
    """What a user would type for the job.

    With -m alone, Python would look for modules in the working folder first, and a user's numpy.py would hide NumPy. -P
    forbids that; an environment of the user's is found there all the same (`python.see_current_folder`).
    """
    safe = [] if in_own_folder() else ["-P"]
    return [sys.executable, *safe, "-m", "tdu", "train", *job.arguments, "--out", str(job.out), "--progress", "json"]


def in_own_folder() -> bool:
    """Whether the working folder is the one that tdu itself is imported from."""
    return Path(__file__).resolve().parents[2] == Path.cwd()


def run_all(
    jobs: list[Job],
    *,
    workers: int | None = None,
    tell: Tell,
    done: Callable[[Outcome], None],
    command: Callable[[Job], list[str]] = train_command,
    grace: float = 20.0,
) -> list[Outcome]:
    """Runs every job, at most `workers` at a time; one that fails does not stop the others.

    Whatever ends this call early ends the processes too: they are asked to stop, and killed after `grace` seconds.
    """
    waiting = list(jobs)
    running: list[_Process] = []
    outcomes: list[Outcome] = []
    with selectors.DefaultSelector() as pipes:
        try:
            while waiting or running:
                while waiting and len(running) < (workers or cores()):
                    job = waiting.pop(0)
                    running.append(_Process(job, command(job), tell, pipes))
                _read(pipes, _TICK)
                over = [process for process in running if not process.is_alive()]
                if over:
                    _drain(pipes)
                for process in over:
                    running.remove(process)
                    outcomes.append(process.outcome())
                    done(outcomes[-1])
        finally:
            _stop(running, pipes, grace)
            for key in [*pipes.get_map().values()]:
                _close(pipes, key)
    order = {job.name: i for i, job in enumerate(jobs)}
    return sorted(outcomes, key=lambda o: order[o.job.name])


_TICK = 0.05
_PIPE_READS = 64
"""Of 64 KiB each: more than a pipe ever holds."""


class _Process:
    """A job under way, and what its process writes.

    A process that the job has left behind may hold its pipes open for ever. So the end of a job is the end of its own
    process; what comes through the pipes later is read and forgotten.
    """

    def __init__(self, job: Job, command: list[str], tell: Tell, pipes: selectors.BaseSelector):
        self._job, self._tell = job, tell
        self._lines, self._errors = Lines(), b""
        self._over = False
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        pipes.register(self._process.stdout, selectors.EVENT_READ, self._take_output)
        pipes.register(self._process.stderr, selectors.EVENT_READ, self._take_errors)

    def _take_output(self, data: bytes) -> None:
        for line in self._lines.add(data):
            if not self._over and (report := parse_report(line)) is not None:
                self._tell(self._job.name, report)

    def _take_errors(self, data: bytes) -> None:
        if not self._over:
            self._errors = (self._errors + data)[-_LONGEST:]

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def outcome(self) -> Outcome:
        """How it ended, once it has; nothing is told of it any more."""
        self._over = True
        return ended(self._job, self._process.returncode, one_line(self._errors.decode(errors="replace")))

    def terminate(self) -> None:
        self._over = True
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)


def _read(pipes: selectors.BaseSelector, seconds: float) -> bool:
    """Hands on what has been written, after waiting so long for the first of it; returns whether there was anything."""
    ready = pipes.select(seconds)
    for key, _ in ready:
        if data := os.read(key.fd, 2**16):
            key.data(data)
        else:
            _close(pipes, key)
    return bool(ready)


def _drain(pipes: selectors.BaseSelector) -> None:
    """Hands on everything that lies in the pipes; what is written meanwhile, perhaps without end, may wait."""
    for _ in range(_PIPE_READS):
        if not _read(pipes, 0):
            break


def _close(pipes: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    pipes.unregister(key.fileobj)
    key.fileobj.close()  # type: ignore[union-attr]


def _stop(processes: list[_Process], pipes: selectors.BaseSelector, grace: float) -> None:
    """Ends processes; their pipes are read meanwhile, or one with much to say could not end."""
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + grace
    try:
        while any(process.is_alive() for process in processes) and time.monotonic() < deadline:
            _read(pipes, _TICK)
    finally:  # a second Ctrl-C does not wait
        for process in processes:
            process.kill()


_LONGEST = 2**16


class Lines:
    """Bytes as they come, cut into lines. What is not UTF-8 is replaced; of a line without an end, only the last is kept."""

    def __init__(self) -> None:
        self._rest = b""

    def add(self, data: bytes) -> list[str]:
        """The lines that are complete now."""
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[-_LONGEST:]
        return [line.decode(errors="replace") for line in lines]


def parse_report(line: str) -> dict[str, Any] | None:
    """What a run tells of its progress; None where its environment has printed something of its own."""
    try:
        report = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(report, dict) or not report.keys() >= _NUMBERS | _PERHAPS:
        return None
    numbers = [report[name] for name in _NUMBERS] + [report[name] for name in _PERHAPS if report[name] is not None]
    return report if all(isinstance(n, int | float) for n in numbers) else None


_NUMBERS = {"episode", "steps", "seconds", "share", "bonus", "steps_per_second", "greedy_depth"}
_PERHAPS = {
    "episodes", "most_steps", "return", "regret", "seconds_left", "greedy_return", "greedy_episode", "optimal_depth",
}  # fmt: skip
"""Numbers that may not be known. A test holds both to what a run reports."""


def one_line(text: str) -> str:
    """A text with every stretch of white space as one blank."""
    return " ".join(text.split())


def ended(job: Job, code: int, stderr: str) -> Outcome:
    """The outcome of a job, with the result that it left, if that can be read."""
    try:
        return Outcome(job, code, runs.read_result(job.out), stderr)
    except RunError as e:
        return Outcome(job, code or 2, None, stderr or str(e))
