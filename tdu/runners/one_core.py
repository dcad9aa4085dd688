"""Keeps a process that computes on one core on the same one, for as long as it has that core to itself.

XLA hands part of a computation to a thread of its own and waits. On another core that thread finds nothing in the caches, and
the next call finds it on the core before: an episode of one step then takes half as long again. So the process stays where
it is while it gets all of a core. When it does not, somebody else is there too, and the system may move it; when it
computes on several cores at once, as an environment with threads does, nobody holds it back.
"""

import os
import threading
import time

_WORKS = 0.4
"""A process that is free to go and gets less of a core than this mostly waits; between two cores some time is lost too."""
_SEVERAL = 1.1
"""One that gets more than this computes on several cores."""
_ALONE = 0.8
"""One that is kept on a core and gets less of it than this is not alone there, or waits."""
_LONGEST = 60.0
"""Seconds until it is tried again, at most: twice as many after every time that did not last."""


def stay_on_one_core(every: float = 1.0) -> None:
    """Looks after this process, in the background, at every so many seconds; does nothing where it cannot be done."""
    if not hasattr(os, "sched_setaffinity"):
        return
    allowed = os.sched_getaffinity(0)
    if len(allowed) < 2:
        return
    os.register_at_fork(after_in_child=lambda: os.sched_setaffinity(0, allowed))
    threading.Thread(target=_keep, args=(allowed, every), daemon=True, name="one core").start()


def _keep(allowed: set[int], every: float) -> None:
    wall, busy, is_kept, wait = time.monotonic(), time.process_time(), False, every
    while True:
        time.sleep(every if is_kept else wait)
        wall_now, busy_now = time.monotonic(), time.process_time()
        share = (busy_now - busy) / (wall_now - wall)
        wall, busy = wall_now, busy_now
        if is_kept and share < _ALONE:
            _move(allowed)
            is_kept, wait = False, min(2 * wait, _LONGEST)
        elif not is_kept and _WORKS <= share <= _SEVERAL:
            _move({_core_of_main()} & allowed or allowed)
            is_kept = True


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
