"""Ctrl-C on the command line: one sentence and exit code 130, wherever it comes.

Three places need care. Within an import, a KeyboardInterrupt is a long traceback, or extension modules drop it. Within JAX's
callback of the garbage collector, Python drops it. After an interrupt while JAX compiles, the end of the interpreter crashes.
"""

import atexit
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

_AGAIN = 0.05  # seconds after which an interrupt comes again that Python would have dropped


def heed() -> bool:
    """From now on, Ctrl-C within an import ends the process. Elsewhere it is a KeyboardInterrupt that is not dropped.

    Returns whether this has changed anything: only the main thread can do it, and another handler stays.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return False
    signal.signal(signal.SIGINT, _interrupted)
    return True


@contextlib.contextmanager
def heeded() -> Iterator[None]:
    """The same for a while."""
    changed = heed()
    try:
        yield
    finally:
        if changed:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def exit_with(code: int) -> NoReturn:
    """Ends the process. After an interrupt, threads end and exit functions run, but the interpreter is not taken apart."""
    if code == 130:
        with contextlib.suppress(KeyboardInterrupt):  # a second Ctrl-C does not wait
            threading._shutdown()  # type: ignore[attr-defined]
            atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # nobody is there to read it
                stream.flush()
        os._exit(code)
    sys.exit(code)


def raise_interrupt(number: int, frame: FrameType | None) -> None:
    """Handles a signal by a KeyboardInterrupt. Where Python would drop it, the signal comes again a little later."""
    caller = frame
    while caller is not None:
        if caller.f_code.co_name == "_xla_gc_callback":
            again = threading.Timer(_AGAIN, signal.pthread_kill, (threading.main_thread().ident, number))
            again.daemon = True
            again.start()
            return
        caller = caller.f_back
    signal.default_int_handler(number, frame)


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
    raise_interrupt(number, frame)
