"""Runs on a Ray cluster: the same jobs as on one machine, one per core of the cluster. Needs the extra `ray`.

A worker trains in its own process, straight into the sweep's folder if it can see it, else into a folder of its own that is
sent back when the run is over. A worker that dies takes nothing with it: Ray starts the job again elsewhere, and the run goes
on from its last checkpoint where the folder is shared.
"""

import contextlib
import io
import itertools
import os
import re
import secrets
import socket
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

from tdu.errors import RunError, UserError
from tdu.run.folder import LOCKS, is_in_use
from tdu.run.processes import Job, Lines, Outcome, Tell, ended, in_own_folder, one_line, parse_report

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
    ray = connect(address, workers)
    root = jobs[0].out.parent.absolute()
    marker = root / f".sweep-{secrets.token_hex(8)}"
    outcomes = []
    try:
        root.mkdir(parents=True, exist_ok=True)
        marker.touch()
        make_latest, work = _shipped()
        latest = ray.remote(num_cpus=0, max_restarts=-1)(make_latest).remote()
        remote = ray.remote(num_cpus=1, max_calls=1, max_retries=_RETRIES)(work)
        waiting = {
            remote.remote(*working_folder(), tuple(job._replace(out=job.out.absolute())), str(marker), latest): job
            for job in jobs
        }
        while waiting:
            ready, _ = ray.wait(list(waiting), num_returns=1, timeout=1.0)
            under_way = {job.name for job in waiting.values()}
            for name, report in _take(ray, latest).items():
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


def connect(address: str | None, workers: int | None) -> Any:
    """Ray, with a cluster: the one at the address, or one of its own on this machine."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ModuleNotFoundError as e:
        raise UserError(f"--engine ray needs the extra 'ray' ({e.name} is missing): pip install 'tdu[ray]'.") from None
    if not hasattr(ray, "init"):
        found = getattr(ray, "__file__", None) or next(iter(ray.__path__))
        raise UserError(f"--engine ray found {found} and not Ray; rename it, or start tdu in another folder.")
    if address is not None:
        _refuse_silence(address)
    settings: dict[str, Any] = {
        "runtime_env": {"env_vars": _environment_of_workers()},
        "logging_level": "ERROR",
        "log_to_driver": False,
    }
    if address in (None, "local"):
        settings |= {"num_cpus": workers, "include_dashboard": False}
    try:
        with warnings.catch_warnings():  # JAX warns of every fork; what Ray forks here becomes another program at once
            warnings.filterwarnings("ignore", message=r"os\.fork\(\)", category=RuntimeWarning)
            ray.init(address=address or "local", **settings)
    except (ConnectionError, ValueError, RuntimeError, ray.exceptions.RayError) as e:
        ray.shutdown()
        raise UserError(_why_not_connected(address, str(e))) from None
    return ray


_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""How HTTP/2 begins, which Ray speaks: the preface and empty settings. The answer begins with settings, frames of kind 4."""


def _refuse_silence(address: str) -> None:
    """An address that nobody answers at is refused at once; Ray would try for minutes."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if not colon or not port.isdigit():
        if address in ("auto", "local"):
            return
        raise UserError(f"'{address}' is not the address of a Ray cluster; write host:port.")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=5) as connection:
            if os.environ.get("RAY_USE_TLS", "0") != "1":  # where it is, only Ray's own certificates get an answer
                connection.sendall(_HELLO)
                if connection.recv(9)[3:4] != b"\x04":
                    raise OSError("what is there does not speak as Ray does")
    except (OSError, OverflowError) as e:
        raise UserError(f"no Ray cluster answers at {address} ({getattr(e, 'strerror', None) or e}).") from None


def _environment_of_workers() -> dict[str, str]:
    """Variables that workers get. The working folder is no part of PYTHONPATH: there it would come before all packages."""
    passed = {name: os.environ[name] for name in ("TDU_MNIST", "XLA_FLAGS", "NPROC") if name in os.environ}
    paths = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if in_own_folder():
        paths.insert(0, os.getcwd())
    return passed | ({"PYTHONPATH": os.pathsep.join(paths)} if paths else {})


def _why_not_connected(address: str | None, reason: str) -> str:
    """One sentence for what Ray raised."""
    versions = re.findall(r"Ray: (\S+)\s+Python: (\S+)", reason)
    if "Version mismatch" in reason and len(versions) == 2:
        (ray, python), (our_ray, our_python) = versions
        return (
            f"the Ray cluster at {address} has Ray {ray} on Python {python}, "
            f"and this is Ray {our_ray} on Python {our_python}; install the cluster's versions here."
        )
    reason = one_line(reason)[:200].rstrip(".")
    if address in (None, "local"):
        return f"Ray does not start on this machine ({reason})."
    return f"no Ray cluster lets us in at {address} ({reason}); if it wants a token, set RAY_AUTH_MODE=token."


def _shipped() -> tuple[type, Callable[..., tuple[int, str, bytes | None]]]:
    """What is sent to the cluster, as code and not as names to import.

    Ray looks for modules in the working folder first, where a user's numpy.py would hide NumPy. So the folder moves to the
    end before anything is imported, tdu included; unless it is where tdu itself is.
    """

    class Latest:
        """What workers have last reported of their runs."""

        def __init__(self) -> None:
            self._reports: dict[str, dict[str, Any]] = {}

        def put(self, name: str, report: dict[str, Any]) -> None:
            self._reports[name] = report

        def take(self) -> dict[str, dict[str, Any]]:
            reports, self._reports = self._reports, {}
            return reports

    def work(folder: str, holds_tdu: bool, *arguments: Any) -> tuple[int, str, bytes | None]:
        import os
        import sys

        if not holds_tdu:
            sys.path[:] = [path for path in sys.path if path != folder] + [folder]
        if os.path.isdir(folder):
            os.chdir(folder)
        from tdu.cluster import sweep as distributed

        return distributed.work(*arguments)

    return Latest, work


def shipped_process(kind: str) -> type:
    """A process of a run (`distributed_actors`), as code too; the cluster's lists show it by its kind."""

    class Process:
        def __init__(self, folder: str, holds_tdu: bool, kind: str):
            import os
            import sys

            if not holds_tdu:
                sys.path[:] = [path for path in sys.path if path != folder] + [folder]
            if os.path.isdir(folder):
                os.chdir(folder)
            if kind != "learner":
                os.environ["JAX_PLATFORMS"] = "cpu"  # a GPU is the learner's
            from tdu.cluster import actors as distributed_actors

            self._it = distributed_actors.KINDS[kind]()

        def call(self, method: str, *arguments: Any) -> Any:
            return getattr(self._it, method)(*arguments) if method != "is_there" else None

    Process.__name__ = Process.__qualname__ = kind.capitalize()
    return Process


def working_folder() -> tuple[str, bool]:
    """What a process on the cluster has to know of this one's folder."""
    return os.getcwd(), in_own_folder()


def _take(ray: Any, latest: Any) -> dict[str, dict[str, Any]]:
    try:
        return ray.get(latest.take.remote(), timeout=10)
    except (ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError):
        return {}  # it starts anew; what it knew was only to be shown


class _ReportingOutput(io.RawIOBase):
    """A worker's standard output: what it reports of its progress is passed on, at most once a second."""

    def __init__(self, put: Callable[[dict[str, Any]], Any]):
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


def work(fields: tuple[Any, ...], marker: str, latest: Any) -> tuple[int, str, bytes | None]:
    """One run, in a worker: exit code, standard error, and its folder if the worker cannot see the sweep's."""
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
    """Waits for the lock of a worker that has died or is about to; if somebody else holds it, the run will say so."""
    deadline = time.monotonic() + seconds
    while is_in_use(folder) and time.monotonic() < deadline:
        time.sleep(0.2)


def _outcome(ray: Any, reference: Any, job: Job) -> Outcome:
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
    """Puts a folder that was sent in its place, whole; returns a sentence if something lay there.

    That is moved aside, and nothing of it is mixed or lost. What is aside lies too deep to be taken for a run of the sweep.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as temporary:
        sent = Path(temporary) / "run"
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            paths = [PurePosixPath(name) for name in archive.namelist()]
            if any(path.is_absolute() or ".." in path.parts for path in paths):
                raise RunError(f"what a worker sent for {out} is not a run's folder.")
            archive.extractall(sent)
        if not sent.exists():
            return ""
        if is_in_use(out):
            aside = _unused(out, "sent")
            sent.rename(aside)
            raise RunError(f"{out} is in use by another process; what a worker sent for it is in {aside}.")
        sentence = ""
        if _is_as_good_as_empty(out):
            for name in LOCKS:
                (out / name).unlink(missing_ok=True)
        elif os.path.lexists(out):
            aside = _unused(out, "before")
            out.rename(aside)
            sentence = f"what lay in {out} is now in {aside}."
        sent.rename(out)
        return sentence


def _is_as_good_as_empty(folder: Path) -> bool:
    return folder.is_dir() and not folder.is_symlink() and {p.name for p in folder.iterdir()} <= LOCKS


def _unused(out: Path, kind: str) -> Path:
    """A name beside a run's folder that nothing has yet; its own folder is there."""
    parent = out.with_name(f"{out.name}.{kind}")
    parent.mkdir(exist_ok=True)
    return next(path for n in itertools.count(1) if not os.path.lexists(path := parent / str(n)))
