"""Keeps a process that computes on one core on the same one, for as long as it has that core to itself.

XLA hands part of a computation to a thread of its own and waits. On another core that thread finds nothing in the caches, and
the next call finds it on the core before: a short episode then takes up to half as long again. So the process stays where
it is. When it has to wait for the core, somebody else is there too, and the system may move it; when it computes on several
cores at once, as an environment with threads does, nobody holds it back.
"""

import os
import threading
import time
from collections.abc import Callable

_WORKS, _SEVERAL = 0.4, 1.1
"""A process that gets less of a core than this mostly waits for something; one that gets more than that uses several."""
_CROWDED = 0.2
"""Where its threads wait for the core for more than this share of the time, it is not alone."""
_LONGEST = 60.0
"""Seconds until it is tried again, at most: twice as many after every time that did not last."""


def stay_on_one_core(every: float = 1.0) -> Callable[[], None]:
    """Looks after this process, in the background, at every so many seconds; does nothing where it cannot be done.

    Returns what ends that and lets the process go where it could before.
    """
    if not hasattr(os, "sched_setaffinity"):
        return lambda: None
    allowed = os.sched_getaffinity(0)
    if len(allowed) < 2 or not os.path.exists("/proc/self/schedstat"):
        return lambda: None
    os.register_at_fork(after_in_child=lambda: os.sched_setaffinity(0, allowed))
    ends = threading.Event()
    keeper = threading.Thread(target=_keep, args=(allowed, every, ends), daemon=True, name="one core")
    keeper.start()

    def let_go() -> None:
        ends.set()
        keeper.join()
        _move(allowed)

    return let_go


def _keep(allowed: set[int], every: float, ends: threading.Event) -> None:
    every *= 1 + os.getpid() % 10 / 10  # so that runs started together do not choose together
    before, is_kept, wait = _times(), False, every
    while not ends.wait(every if is_kept else wait):
        now = _times()
        seconds, worked, waited = (b - a for a, b in zip(before, now, strict=True))
        before = now
        if is_kept and waited > _CROWDED * seconds:
            _move(allowed)
            is_kept, wait = False, min(2 * wait, _LONGEST)
        elif not is_kept and _WORKS * seconds <= worked <= _SEVERAL * seconds:
            _move({_core_of_main()} & allowed or allowed)
            is_kept = True


def _times() -> tuple[float, float, float]:
    """The clock's, this process's of computing, and that for which its threads have waited for a core."""
    return time.monotonic(), time.process_time(), sum(map(_waited, os.listdir("/proc/self/task")))


def _waited(thread: str) -> float:
    try:
        with open(f"/proc/self/task/{thread}/schedstat") as f:
            return int(f.read().split()[1]) / 1e9
    except OSError:
        return 0.0  # it has come to its end meanwhile


def _core_of_main() -> int:
    """Where the main thread ran last (proc(5), field 39)."""
    with open(f"/proc/self/task/{os.getpid()}/stat") as f:
        return int(f.read().rpartition(")")[2].split()[36])


def _move(cores: set[int]) -> None:
    for thread in os.listdir("/proc/self/task"):
        try:
            os.sched_setaffinity(int(thread), cores)
        except OSError:
            continue  # it has come to its end meanwhile
