"""Pins a process that computes on one core to that core, as long as no other process uses it.

XLA computes partly in a thread of its own. If the system moves that thread to another core, its cache is empty, and short
episodes take up to 50 % longer. So the process is pinned. It is released when it has to wait for the core, because another
process is there too, and it is not pinned while it uses several cores, as an environment with threads does.
"""

import os
import threading
import time
from collections.abc import Callable

_WORKS, _SEVERAL = 0.4, 1.1
"""Below the first share of a core, the process mostly waits; above the second, it uses several cores."""
_CROWDED = 0.2  # another process uses the core if threads wait for it for more than this share of the time
_LONGEST = 60.0  # Maximum time until the next attempt. The time doubles after every attempt that did not last.


def stay_on_one_core(every: float = 1.0) -> Callable[[], None]:
    """Pins this process in the background, checking every `every` seconds; does nothing if the system cannot.

    Returns a function that ends it and releases the process.
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
    every *= 1 + os.getpid() % 10 / 10  # so that runs started together do not choose at the same time
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
    """Wall time, this process's CPU time, and the time that its threads have waited for a core."""
    return time.monotonic(), time.process_time(), sum(map(_waited, os.listdir("/proc/self/task")))


def _waited(thread: str) -> float:
    try:
        with open(f"/proc/self/task/{thread}/schedstat") as f:
            return int(f.read().split()[1]) / 1e9
    except OSError:
        return 0.0  # the thread has ended


def _core_of_main() -> int:
    """The core that the main thread ran on last (proc(5), field 39)."""
    with open(f"/proc/self/task/{os.getpid()}/stat") as f:
        return int(f.read().rpartition(")")[2].split()[36])


def _move(cores: set[int]) -> None:
    for thread in os.listdir("/proc/self/task"):
        try:
            os.sched_setaffinity(int(thread), cores)
        except OSError:
            continue  # the thread has ended
