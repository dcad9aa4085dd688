"""Runs on a Ray cluster: the same jobs as on one machine, one per core of the cluster. Needs the extra `ray`.

A worker trains in its own process, straight into the sweep's folder if it can see it, else into a folder of its own that is
sent back when the run is over. A worker that dies takes nothing with it: Ray starts the job again elsewhere, and the run goes
on from its last checkpoint where the folder is shared.
"""

import contextlib
import io
import os
import secrets
import socket
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tdu.errors import UserError
from tdu.runners.parallel import Job, Outcome, ended, parse_report

_RETRIES = 10


def run_all(
    jobs: list[Job],
    *,
    workers: int | None = None,
    address: str | None = None,
    tell: Callable[[str, dict[str, Any]], None],
    done: Callable[[Outcome], None],
) -> list[Outcome]:
    """Runs every job; one that fails does not stop the others. Without an address, a cluster is started on this machine."""
    ray = _start(address, workers)
    root = jobs[0].out.parent.absolute() if jobs else Path()
    root.mkdir(parents=True, exist_ok=True)
    marker = root / f".sweep-{secrets.token_hex(8)}"
    marker.touch()
    try:
        board = ray.remote(num_cpus=0, max_restarts=-1)(_Board).remote()
        remote = ray.remote(num_cpus=1, max_calls=1, max_retries=_RETRIES)(_work)
        waiting = {remote.remote(j.name, j.arguments, str(j.out.absolute()), str(marker), board): j for j in jobs}
        outcomes = []
        while waiting:
            ready, _ = ray.wait(list(waiting), num_returns=1, timeout=1.0)
            with contextlib.suppress(
                ray.exceptions.RayActorError
            ):  # then it starts anew; what it knew was only to be shown
                under_way = {job.name for job in waiting.values()}
                for name, told in ray.get(board.take.remote()).items():
                    if name in under_way:
                        tell(name, told)
            for reference in ready:
                job = waiting.pop(reference)
                outcome = _outcome(ray, reference, job)
                outcomes.append(outcome)
                done(outcome)
    finally:
        marker.unlink(missing_ok=True)
        ray.shutdown()
    order = {job.name: i for i, job in enumerate(jobs)}
    return sorted(outcomes, key=lambda o: order[o.job.name])


def _knock(address: str) -> None:
    """An address that nobody answers at is refused at once; Ray would try for minutes."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if not colon or not port.isdigit():
        if address in ("auto", "local"):
            return
        raise UserError(f"'{address}' is not the address of a Ray cluster; write host:port.")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
    except (OSError, OverflowError) as e:
        raise UserError(f"no Ray cluster answers at {address} ({getattr(e, 'strerror', None) or e}).") from None


def _start(address: str | None, workers: int | None) -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ModuleNotFoundError as e:
        raise UserError(f"--engine ray needs the extra 'ray' ({e.name} is missing): pip install 'tdu[ray]'.") from None
    if address is not None:
        _knock(address)
    paths = [os.getcwd(), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    passed = {name: os.environ[name] for name in ("TDU_MNIST", "XLA_FLAGS", "NPROC") if name in os.environ}
    settings: dict[str, Any] = {
        "runtime_env": {"env_vars": passed | {"PYTHONPATH": os.pathsep.join(paths)}},
        "logging_level": "ERROR",
        "log_to_driver": False,
    }
    if address is None:
        settings |= {"num_cpus": workers, "include_dashboard": False}
    try:
        ray.init(address=address, **settings) if address else ray.init(**settings)
    except (ConnectionError, ValueError, RuntimeError) as e:
        place = address or "this machine"
        raise UserError(f"no Ray cluster answers at {place} ({' '.join(str(e).split())[:200]}).") from None
    return ray


class _Board:
    """What workers have last told of their runs; an actor of the cluster."""

    def __init__(self) -> None:
        self._told: dict[str, dict[str, Any]] = {}

    def put(self, name: str, told: dict[str, Any]) -> None:
        self._told[name] = told

    def take(self) -> dict[str, dict[str, Any]]:
        told, self._told = self._told, {}
        return told


class _Teller(io.StringIO):
    """A worker's standard output: what it says of its progress goes to the board, once a second."""

    def __init__(self, board: Any, name: str):
        super().__init__()
        self._board, self._name, self._last = board, name, 0.0

    def write(self, words: str) -> int:
        if time.monotonic() - self._last > 1.0 and (told := parse_report(words)) is not None:
            self._last = time.monotonic()
            self._board.put.remote(self._name, told)
        return len(words)


def _work(name: str, arguments: list[str], out: str, marker: str, board: Any) -> tuple[int, str, bytes | None]:
    """One run, in a worker: exit code, what it said, and its folder if the sweep's is out of sight."""
    from tdu.cli import main

    shared = Path(marker).exists()
    with contextlib.ExitStack() as stack:
        folder = Path(out) if shared else Path(stack.enter_context(tempfile.TemporaryDirectory())) / Path(out).name
        said = stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        stack.enter_context(contextlib.redirect_stdout(_Teller(board, name)))
        code = main(["train", *arguments, "--out", str(folder), "--progress", "json"])
        words = " ".join(said.getvalue().split())
        return code, words, None if shared else _packed(folder)


def _outcome(ray: Any, reference: Any, job: Job) -> Outcome:
    try:
        code, words, packed = ray.get(reference)
    except ray.exceptions.RayTaskError as e:
        return Outcome(job, 1, None, f"{type(e.cause).__name__}: {' '.join(str(e.cause).split())[:300]}")
    except ray.exceptions.RayError as e:
        return Outcome(job, 1, None, f"its worker was lost ({' '.join(str(e).split())[:200]})")
    if packed is not None:
        _unpack(packed, job.out)
    return ended(job, code, words)


def _packed(folder: Path) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.name != ".lock":
                archive.write(path, path.relative_to(folder).as_posix())
    return data.getvalue()


def _unpack(packed: bytes, out: Path) -> None:
    """Puts a folder in its place; nothing that is there already is overwritten."""
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        for name in archive.namelist():
            path = (out / name).resolve()
            if out.resolve() in path.parents and not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(archive.read(name))
