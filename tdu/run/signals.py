"""Ctrl-C, SIGTERM and SIGHUP (a closed terminal), held back until a run has saved a checkpoint."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

from tdu.interrupts import raise_interrupt

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Handler = Callable[[int, FrameType | None], object]


@contextlib.contextmanager
def handled(handler: Handler, *numbers: signal.Signals) -> Iterator[None]:
    """Meanwhile these signals go to `handler`; one that is ignored stays ignored. Only the main thread can do this."""
    before = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.getsignal(number) for number in numbers}
    before = {number: theirs for number, theirs in before.items() if theirs not in (signal.SIG_IGN, None)}
    for number in before:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, theirs in before.items():
            signal.signal(number, theirs)


class Interrupted(KeyboardInterrupt):
    """A run that ended on Ctrl-C, SIGTERM or SIGHUP, after saving what it can."""

    def __init__(self, sentence: str, signal_number: int):
        super().__init__(sentence)
        self.exit_code = 128 + signal_number


class Signals(contextlib.ExitStack):
    """Stores which signal came. A second Ctrl-C ends the process at once."""

    def __init__(self, say: Callable[[str], None]):
        super().__init__()
        self.received: int | None = None
        self._say = say

    def __enter__(self) -> "Signals":
        self.enter_context(handled(self._receive, *SIGNALS))
        return self

    def _receive(self, number: int, frame: FrameType | None) -> None:
        del frame
        if number == signal.SIGINT:
            signal.signal(number, raise_interrupt)
        if self.received is None:
            self.received = number
            with contextlib.suppress(RuntimeError):  # the signal came while another message was printed
                self._say("the run ends as soon as it is saved; Ctrl-C ends it at once.")
