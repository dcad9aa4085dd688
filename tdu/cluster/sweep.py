"""A sweep on a Ray cluster: the same jobs as on one machine, one per core of the cluster. Needs the extra `ray`.

A worker trains in its own process, in the sweep's folder if it shares that disk, else in a folder of its own that is sent
back when the run is over. When a worker dies, Ray starts the job again elsewhere; where the folder is shared, the run goes on
from its last checkpoint.
"""

import contextlib
import io
import itertools
import os
import secrets
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any

from tdu.cluster import connection
from tdu.cluster.messages import Handle, Ref
from tdu.errors import RunError, UserError
from tdu.run.folder.lock import LOCKS, is_in_use
from tdu.run.processes import Facts, Job, Lines, Outcome, Tell, ended, one_line, parse_report

_RETRIES = 10


def run_all(
    jobs: list[Job],
    *,
    workers: int | None = None,
    address: str | None = None,
    tell: Tell,
    done: Callable[[Outcome], None],
) -> list[Outcome]:
    """Runs every job; one that fails does not stop the others. Without an address, a cluster is started on this machine."""
    if not jobs:
        return []
    root = jobs[0].out.parent.absolute()
    try:
        ray = connection.connect(address, workers)
    except UserError:
        with contextlib.suppress(OSError):
            root.rmdir()  # nothing was begun
        raise
    marker = root / f".sweep-{secrets.token_hex(8)}"
    outcomes = []
    try:
        root.mkdir(parents=True, exist_ok=True)
        marker.touch()
        make_latest, work = _shipped()
        latest = ray.remote(num_cpus=0, max_restarts=-1)(make_latest).remote()
        remote = ray.remote(num_cpus=1, max_calls=1, max_retries=_RETRIES)(work)
        waiting = {
            remote.remote(
                *connection.working_folder(), tuple(job._replace(out=job.out.absolute())), str(marker), latest
            ): job
            for job in jobs
        }
        machines, heard_at = connection.Machines(ray), time.monotonic()
        while waiting:
            machines.living()
            ready, _ = ray.wait(list(waiting), num_returns=1, timeout=1.0)
            under_way = {job.name for job in waiting.values()}
            reports = _take(ray, latest)
            if reports is not None:
                heard_at = time.monotonic()
            elif time.monotonic() - heard_at > connection.PATIENCE:
                raise connection.nothing_starts(connection.PATIENCE)
            for name, report in (reports or {}).items():
                if name in under_way:
                    tell(name, report)
            for reference in ready:
                outcomes.append(_outcome(ray, reference, waiting.pop(reference)))
                done(outcomes[-1])
    finally:
        marker.unlink(missing_ok=True)
        ray.shutdown()
    order = {job.name: i for i, job in enumerate(jobs)}
    return sorted(outcomes, key=lambda o: order[o.job.name])


def _shipped() -> tuple[type, Callable[..., tuple[int, str, bytes | None]]]:
    """What is sent to the cluster, as code: see `connection.shipped_entry`."""
    enter = connection.shipped_entry()

    class Latest:
        """The last report of each run."""

        def __init__(self) -> None:
            self._reports: dict[str, Facts] = {}

        def put(self, name: str, report: Facts) -> None:
            self._reports[name] = report

        def take(self) -> dict[str, Facts]:
            reports, self._reports = self._reports, {}
            return reports

    def work(folder: str, holds_tdu: bool, *arguments: Any) -> tuple[int, str, bytes | None]:
        enter(folder, holds_tdu)
        from tdu.cluster import sweep

        return sweep.work(*arguments)

    return Latest, work


def _take(ray: ModuleType, latest: Handle) -> dict[str, Facts] | None:
    """The reports since the last call; None while their process has not started, or is restarted."""
    try:
        return ray.get(latest.take.remote(), timeout=5)
    except (ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError):
        return None


class _ReportingOutput(io.RawIOBase):
    """A worker's standard output: its progress reports are passed on, at most once a second."""

    def __init__(self, put: Callable[[Facts], object]):
        super().__init__()
        self._put, self._lines, self._last = put, Lines(), -1.0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        for line in self._lines.add(bytes(data)):
            if time.monotonic() - self._last > 1.0 and (report := parse_report(line)) is not None:
                self._last = time.monotonic()
                self._put(report)
        return len(data)


def work(fields: tuple[Any, ...], marker: str, latest: Handle) -> tuple[int, str, bytes | None]:
    """One run in a worker: its exit code, its messages, and its folder if it does not share the sweep's disk."""
    from tdu.cli import main

    job = Job(*fields)
    shared = Path(marker).exists()
    with contextlib.ExitStack() as stack:
        own = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder = job.out if shared else own / job.out.name
        errors = io.BytesIO()
        output = _ReportingOutput(lambda report: latest.put.remote(job.name, report))
        stack.enter_context(contextlib.redirect_stderr(_text_stream(errors)))
        stack.enter_context(contextlib.redirect_stdout(_text_stream(output)))
        _await_lock(folder)
        arguments = job.with_file(own / "settings.json").arguments
        code = main(["train", *arguments, "--out", str(folder), "--progress", "json"])
        return code, one_line(errors.getvalue().decode(errors="replace")), None if shared else _pack(folder)


def _text_stream(raw: Any) -> io.TextIOWrapper:
    return io.TextIOWrapper(raw, encoding="utf-8", errors="replace", write_through=True)


def _await_lock(folder: Path, seconds: float = 60.0) -> None:
    """Waits for the lock of a worker that is dying; if another process holds it, the run reports that."""
    deadline = time.monotonic() + seconds
    while is_in_use(folder) and time.monotonic() < deadline:
        time.sleep(0.2)


def _outcome(ray: ModuleType, reference: Ref, job: Job) -> Outcome:
    try:
        code, stderr, packed = ray.get(reference)
    except ray.exceptions.RayTaskError as e:
        return Outcome(job, 1, None, f"{type(e.cause).__name__}: {one_line(str(e.cause))[:300]}")
    except ray.exceptions.RayError as e:
        return Outcome(job, 1, None, f"its worker was lost ({one_line(str(e))[:200]})")
    if packed is not None:
        try:
            stderr = one_line(f"{stderr} {_place(packed, job.out)}")
        except (OSError, RunError, zipfile.BadZipFile) as e:
            return Outcome(job, code or 2, None, one_line(f"{stderr} {e}"))
    return ended(job, code, stderr)


def _pack(folder: Path) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.name not in LOCKS:
                archive.write(path, path.relative_to(folder).as_posix())
    return data.getvalue()


def _place(packed: bytes, out: Path) -> str:
    """Moves a folder that was sent to its place, whole; returns a sentence if there was another folder.

    The other folder is kept under another name, in a subfolder where it does not count as a run of the sweep.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as temporary:
        sent = Path(temporary) / "run"
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            paths = [PurePosixPath(name) for name in archive.namelist()]
            if any(path.is_absolute() or ".." in path.parts for path in paths):
                raise RunError(f"a worker sent something for {out} that is not the folder of a run.")
            archive.extractall(sent)
        if not sent.exists():
            return ""
        if is_in_use(out):
            kept = _unused(out, "sent")
            sent.rename(kept)
            raise RunError(f"{out} is in use by another process; the folder that a worker sent is in {kept}.")
        sentence = ""
        if out.is_dir() and not out.is_symlink() and {p.name for p in out.iterdir()} <= LOCKS:
            for name in LOCKS:
                (out / name).unlink(missing_ok=True)
        elif os.path.lexists(out):
            kept = _unused(out, "before")
            out.rename(kept)
            sentence = f"the folder that was in {out} is now in {kept}."
        sent.rename(out)
        return sentence


def _unused(out: Path, kind: str) -> Path:
    """An unused name beside a run's folder, in a subfolder that exists."""
    parent = out.with_name(f"{out.name}.{kind}")
    parent.mkdir(exist_ok=True)
    return next(path for n in itertools.count(1) if not os.path.lexists(path := parent / str(n)))
