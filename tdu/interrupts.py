"""Ctrl-C while the command line imports: one sentence and exit code 130.

A KeyboardInterrupt within an import is a long traceback, or extension modules drop it and the command goes on.
"""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType


def exit_while_importing() -> bool:
    """From now on, Ctrl-C within an import ends the process. Elsewhere it is a KeyboardInterrupt, as always.

    Returns whether this has changed anything: only the main thread can do it, and another handler stays.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return False
    signal.signal(signal.SIGINT, _interrupted)
    return True


@contextlib.contextmanager
def exiting_while_importing() -> Iterator[None]:
    """The same for a while."""
    changed = exit_while_importing()
    try:
        yield
    finally:
        if changed:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def is_command_line() -> bool:
    """Whether this process is `tdu` or `python -m tdu`, as seen while the package is imported."""
    return bool(sys.argv) and os.path.basename(sys.argv[0]) in ("tdu", "-m")


def _interrupted(number: int, frame: FrameType | None) -> None:
    caller = frame
    while caller is not None:
        if caller.f_code.co_filename.startswith("<frozen importlib"):
            with contextlib.suppress(OSError):  # nobody is there to read it
                os.write(2, b"tdu: interrupted.\n")
            os._exit(130)
        caller = caller.f_back
    signal.default_int_handler(number, frame)
