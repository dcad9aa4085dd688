"""Several runs on one machine: one process per core, with one thread each.

Every run is a `tdu train` whose settings are in a config file.
"""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tdu.errors import RunError
from tdu.files import Json
from tdu.interrupts import raise_interrupt
from tdu.run.folder import RunResult, read_result
from tdu.run.signals import handled


class Job(NamedTuple):
    """One run."""

    name: str
    arguments: list[str]
    """Of its `tdu train`."""
    out: Path
    settings: Json | None = None
    """The content of its config file; None for none."""

    def with_file(self, path: Path) -> "Job":
        """The job with its settings in a file."""
        if self.settings is None:
            return self
        path.write_text(json.dumps(self.settings), "utf-8")
        return self._replace(arguments=["--config", str(path), "--trust", *self.arguments], settings=None)


Facts = dict[str, Any]
"""What a display shows of a run, as JSON; see `progress.facts`."""

Tell = Callable[[str, Facts], None]
"""Called with a job's name and its progress report."""


class Outcome(NamedTuple):
    """How a job ended."""

    job: Job
    code: int
    """Its exit code."""
    result: RunResult | None
    stderr: str

    @property
    def reason(self) -> str:
        """Why it failed."""
        _, prefix, sentence = self.stderr.rpartition("tdu: ")  # its environment may have printed something before
        return (sentence if prefix else self.stderr) or f"exit code {self.code}"


@contextlib.contextmanager
def ending_as_interrupted() -> Iterator[None]:
    """Turns SIGTERM and SIGHUP into a KeyboardInterrupt, so that the processes of jobs are ended too."""
    with handled(raise_interrupt, signal.SIGTERM, signal.SIGHUP):
        yield


def use_one_core() -> None:
    """Makes this process compute on one core. Call it before JAX's first computation. The user's own flags have priority."""
    import jax

    os.environ.setdefault("NPROC", "1")
    flags = os.environ.get("XLA_FLAGS", "")
    if "xla_cpu_multi_thread_eigen" not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} --xla_cpu_multi_thread_eigen=false".strip()
    if "JAX_CPU_ENABLE_ASYNC_DISPATCH" not in os.environ:
        jax.config.update("jax_cpu_enable_async_dispatch", False)  # no second core to compute on


def cores() -> int:
    """Number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def train_command(job: Job) -> list[str]:
    """The command line of a job.

    With -m alone, Python would look for modules in the working folder first, and a file numpy.py there would hide NumPy.
    -P prevents that. Environments of the user in that folder are still found (`user_code.see_current_folder`).
    """
    safe = [] if in_own_folder() else ["-P"]
    return [sys.executable, *safe, "-m", "tdu", "train", *job.arguments, "--out", str(job.out), "--progress", "json"]


def in_own_folder() -> bool:
    """Whether tdu is imported from the working folder."""
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
    """Runs every job, at most `workers` at a time. One that fails does not stop the others.

    If this call ends early, the processes are terminated, and killed after `grace` seconds.
    """
    waiting = list(jobs)
    running: list[_Process] = []
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="tdu-") as settings, selectors.DefaultSelector() as pipes:
        try:
            while waiting or running:
                while waiting and len(running) < (workers or cores()):
                    job = waiting.pop(0)
                    file = Path(settings) / f"{len(outcomes) + len(running)}.json"
                    running.append(_Process(job, command(job.with_file(file)), tell, pipes))
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
_PIPE_READS = 64  # reads of 64 KiB: more than a pipe can hold


class _Process:
    """A job under way, and its output.

    A child process of the job may hold its pipes open for ever. So a job ends with its own process; later output is read
    and dropped.
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
    """Passes on new output, waiting up to `seconds` for it; returns whether there was any."""
    ready = pipes.select(seconds)
    for key, _ in ready:
        if data := os.read(key.fd, 2**16):
            key.data(data)
        else:
            _close(pipes, key)
    return bool(ready)


def _drain(pipes: selectors.BaseSelector) -> None:
    """Passes on all output that is in the pipes now."""
    for _ in range(_PIPE_READS):
        if not _read(pipes, 0):
            break


def _close(pipes: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    pipes.unregister(key.fileobj)
    key.fileobj.close()  # type: ignore[union-attr]


def _stop(processes: list[_Process], pipes: selectors.BaseSelector, grace: float) -> None:
    """Ends processes. Their pipes are read meanwhile, because a full pipe would block them."""
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
    """Splits bytes into lines as they arrive. Invalid UTF-8 is replaced; of a very long line only the end is kept."""

    def __init__(self) -> None:
        self._rest = b""

    def add(self, data: bytes) -> list[str]:
        *lines, rest = (self._rest + data).split(b"\n")
        self._rest = rest[-_LONGEST:]
        return [line.decode(errors="replace") for line in lines]


def parse_report(line: str) -> Facts | None:
    """A progress report from a line of output; None if the line is something else."""
    try:
        report = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(report, dict) or not report.keys() >= _NUMBERS | _OPTIONAL_NUMBERS:
        return None
    numbers = [report[name] for name in (*_NUMBERS, *(n for n in _OPTIONAL_NUMBERS if report[n] is not None))]
    return report if all(isinstance(n, int | float) for n in numbers) else None


_NUMBERS = {"episode", "steps", "seconds", "share", "bonus", "steps_per_second", "greedy_depth"}
_OPTIONAL_NUMBERS = {
    "episodes", "most_steps", "return", "regret", "seconds_left", "greedy_return", "greedy_episode", "greedy_length",
    "success_rate", "optimal_depth",
}  # fmt: skip
"""Numbers that may be null. A test compares both with what a run reports."""


def one_line(text: str) -> str:
    """A text with all white space replaced by single blanks."""
    return " ".join(text.split())


def ended(job: Job, code: int, stderr: str) -> Outcome:
    """The outcome of a job, with its result if there is a readable one."""
    try:
        return Outcome(job, code, read_result(job.out), stderr)
    except RunError as e:
        return Outcome(job, code or 2, None, stderr or str(e))
