"""Connecting to a Ray cluster, and the code that is sent to it. Needs the extra `ray`."""

import logging
import os
import re
import resource
import socket
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from tdu.errors import TrainingError, UserError
from tdu.run.processes import cores, in_own_folder, one_line

PATIENCE = 300.0
"""Seconds without an answer, or without a step, after which a run ends with an error."""

_HEAD_PATIENCE = 10.0
"""Seconds without an answer of the cluster's head. After 60 seconds, Ray itself would end the process."""

_SILENCE = 5.0  # seconds after which an address counts as silent
_ROOM = "see whether `ulimit -u` allows more processes and whether the temporary folder (RAY_TMPDIR or /tmp) has space"


def connect(address: str | None, workers: int | None) -> ModuleType:
    """Ray, connected to the cluster at the address, or to a new one on this machine."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ModuleNotFoundError as e:
        raise UserError(f"--engine ray needs the extra 'ray' ({e.name} is missing): pip install 'tdu[ray]'.") from None
    if not hasattr(ray, "init"):
        found = getattr(ray, "__file__", None) or next(iter(ray.__path__))
        raise UserError(f"--engine ray found {found} and not Ray; rename it, or start tdu in another folder.")
    if ray.is_initialized():
        raise UserError("this process is connected to Ray already; call ray.shutdown() first.")
    if address is not None:
        _refuse_silence(address)
    is_local = address in (None, "local")
    if is_local:
        _refuse_low_limit(workers or cores())
    try:
        with warnings.catch_warnings():  # JAX warns of every fork; here a fork becomes another program at once
            warnings.filterwarnings("ignore", message=r"os\.fork\(\)", category=RuntimeWarning)
            ray.init(
                address=address or "local",
                runtime_env={"env_vars": _environment_of_workers()},
                logging_level=logging.ERROR,
                log_to_driver=False,
                num_cpus=workers if is_local else None,
                include_dashboard=False if is_local else None,
            )
    except Exception as e:  # Ray raises plain Exceptions too
        ray.shutdown()
        raise UserError(_why_not_connected(address, str(e))) from None
    return ray


def _refuse_low_limit(workers: int) -> None:
    """Refuses a limit of processes (`ulimit -u`, which counts threads) with which Ray hangs while it starts."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    needed, user = 400 + 50 * workers, os.getuid()
    if limit == resource.RLIM_INFINITY or user == 0:
        return
    used = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            used += len(os.listdir(process / "task")) if process.stat().st_uid == user else 0
        except OSError:  # it has ended
            continue
    if limit < used + needed:
        raise UserError(
            f"Ray needs about {needed} processes and threads for {workers} workers, and the limit of {limit} "
            f"(`ulimit -u`) leaves {max(limit - used, 0)}; raise it, or use fewer workers."
        )


class Machines:
    """The machines of a cluster. A driver needs two processes of Ray: the head's GCS, and the raylet of its machine."""

    def __init__(self, ray: ModuleType):
        context = ray.get_runtime_context()
        self._ray, self._own, self._head = ray, context.get_node_id(), context.gcs_address
        self._heard_at = time.monotonic()

    def living(self) -> dict[str, str] | None:
        """Addresses by id; None if the head does not answer at the moment.

        A TrainingError if it does not answer for too long, or if this machine's raylet has died.
        """
        try:
            _greet(self._head)  # one that was just killed may still accept a connection
        except OSError:  # calls to it would hang
            if time.monotonic() - self._heard_at > _HEAD_PATIENCE:
                raise TrainingError(
                    f"the head of the Ray cluster (its GCS at {self._head}) has died; {_CONTINUE}"
                ) from None
            return None
        self._heard_at = time.monotonic()
        living = {node["NodeID"]: node["NodeManagerAddress"] for node in self._ray.nodes() if node["Alive"]}
        if self._own not in living:
            raise TrainingError(f"the raylet of this machine, through which the run reaches Ray, has died; {_CONTINUE}")
        return living


_CONTINUE = "everything up to the last checkpoint is saved; continue with the same command (tdu train: and --resume)."


def nothing_starts(seconds: float) -> TrainingError:
    """The error for a cluster on which no process has started for that long."""
    return TrainingError(f"Ray has started no process in {seconds:.0f} seconds; {_ROOM}.")


_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""How HTTP/2, Ray's protocol, begins: the preface and empty settings. The answer begins with settings, a frame of kind 4."""


def _refuse_silence(address: str) -> None:
    """Refuses an address at which no cluster answers; Ray itself would try for minutes."""
    _, colon, port = address.rpartition("://")[2].rpartition(":")
    if not colon or not port.isdigit():
        if address in ("auto", "local"):
            return
        raise UserError(f"'{address}' is not the address of a Ray cluster; write host:port.")
    try:
        _greet(address.rpartition("://")[2])
    except (OSError, OverflowError) as e:
        raise UserError(f"no Ray cluster answers at {address} ({getattr(e, 'strerror', None) or e}).") from None


def _greet(address: str) -> None:
    """Raises an OSError if no Ray answers at host:port."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host.strip("[]"), int(port)), timeout=_SILENCE) as connection:
        if os.environ.get("RAY_USE_TLS", "0") != "1":  # with TLS, only Ray's own certificates get an answer
            connection.sendall(_HELLO)
            if connection.recv(9)[3:4] != b"\x04":
                raise OSError("it is not Ray")


def _environment_of_workers() -> dict[str, str]:
    """Environment variables of workers. The working folder is not in PYTHONPATH, where it would precede all packages."""
    passed = {name: os.environ[name] for name in ("TDU_MNIST", "XLA_FLAGS", "NPROC") if name in os.environ}
    paths = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if in_own_folder():
        paths.insert(0, os.getcwd())
    return passed | ({"PYTHONPATH": os.pathsep.join(paths)} if paths else {})


def _why_not_connected(address: str | None, reason: str) -> str:
    """Ray's error in one sentence."""
    versions = re.findall(r"Ray: (\S+)\s+Python: (\S+)", reason)
    if "Version mismatch" in reason and len(versions) == 2:
        (ray, python), (our_ray, our_python) = versions
        return (
            f"the Ray cluster at {address} has Ray {ray} on Python {python}, "
            f"and this is Ray {our_ray} on Python {our_python}; install the cluster's versions here."
        )
    reason = one_line(reason)[:200].rstrip(".")
    if address in (None, "local"):
        return f"Ray does not start on this machine ({reason}); {_ROOM}."
    return (
        f"the Ray cluster at {address} refuses the connection ({reason}); if it needs a token, set RAY_AUTH_MODE=token."
    )


def shipped_entry() -> Callable[[str, bool], None]:
    """A function that prepares a process of the cluster, sent as code and not as a name to import.

    Ray looks for modules in the working folder first, where a user's numpy.py would hide NumPy. So the folder is moved to the
    end of the path before anything is imported, tdu included, unless tdu itself lies in it.
    """

    def enter(folder: str, holds_tdu: bool) -> None:
        import os
        import sys

        if not holds_tdu:
            sys.path[:] = [path for path in sys.path if path != folder] + [folder]
        if os.path.isdir(folder):
            os.chdir(folder)

    return enter


def shipped_process(kind: str) -> type:
    """A process of a run (`cluster.actors`), sent as code. The cluster's lists show it by its kind."""
    enter = shipped_entry()

    class Process:
        def __init__(self, folder: str, holds_tdu: bool, kind: str):
            enter(folder, holds_tdu)
            if kind != "learner":
                import os

                os.environ["JAX_PLATFORMS"] = "cpu"  # a GPU is the learner's
            from tdu.cluster.actors import KINDS

            self._process = KINDS[kind]()

        def call(self, method: str, *arguments: object) -> Any:
            if method == "is_ready":
                return None
            if method == "watch":  # a caller that waits for it notices when this process dies
                import threading

                threading.Event().wait()
            return getattr(self._process, method)(*arguments)

    Process.__name__ = Process.__qualname__ = kind.capitalize()
    return Process


def working_folder() -> tuple[str, bool]:
    """The working folder, and whether tdu itself lies in it."""
    return os.getcwd(), in_own_folder()
