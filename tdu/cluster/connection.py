"""Connecting to a Ray cluster, and the code that is sent to it. Needs the extra `ray`."""

import os
import re
import socket
import warnings
from typing import Any

from tdu.errors import UserError
from tdu.run.processes import in_own_folder, one_line


def connect(address: str | None, workers: int | None) -> Any:
    """Ray, connected to the cluster at the address, or to a new one on this machine."""
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
        with warnings.catch_warnings():  # JAX warns of every fork; here a fork becomes another program at once
            warnings.filterwarnings("ignore", message=r"os\.fork\(\)", category=RuntimeWarning)
            ray.init(address=address or "local", **settings)
    except (ConnectionError, ValueError, RuntimeError, ray.exceptions.RayError) as e:
        ray.shutdown()
        raise UserError(_why_not_connected(address, str(e))) from None
    return ray


_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""How HTTP/2, Ray's protocol, begins: the preface and empty settings. The answer begins with settings, a frame of kind 4."""


def _refuse_silence(address: str) -> None:
    """Refuses an address at which no cluster answers; Ray itself would try for minutes."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if not colon or not port.isdigit():
        if address in ("auto", "local"):
            return
        raise UserError(f"'{address}' is not the address of a Ray cluster; write host:port.")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=5) as connection:
            if os.environ.get("RAY_USE_TLS", "0") != "1":  # with TLS, only Ray's own certificates get an answer
                connection.sendall(_HELLO)
                if connection.recv(9)[3:4] != b"\x04":
                    raise OSError("it is not Ray")
    except (OSError, OverflowError) as e:
        raise UserError(f"no Ray cluster answers at {address} ({getattr(e, 'strerror', None) or e}).") from None


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
        return f"Ray does not start on this machine ({reason})."
    return (
        f"the Ray cluster at {address} refuses the connection ({reason}); if it needs a token, set RAY_AUTH_MODE=token."
    )


def shipped_process(kind: str) -> type:
    """A process of a run (`cluster.actors`), sent as code and not as a name to import: see `sweep._shipped`.

    The cluster's lists show it by its kind.
    """

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
            from tdu.cluster.actors import KINDS

            self._process = KINDS[kind]()

        def call(self, method: str, *arguments: Any) -> Any:
            return getattr(self._process, method)(*arguments) if method != "is_ready" else None

    Process.__name__ = Process.__qualname__ = kind.capitalize()
    return Process


def working_folder() -> tuple[str, bool]:
    """The working folder, and whether tdu itself lies in it."""
    return os.getcwd(), in_own_folder()
