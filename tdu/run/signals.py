"""Ctrl-C and the system's request to end, remembered until a run has saved."""

import contextlib
import signal
import threading
from collections.abc import Callable
from typing import Any


class Signals(contextlib.AbstractContextManager["Signals"]):
    """Remembers, while it is entered, which of the two came. A second Ctrl-C ends at once."""

    def __init__(self, say: Callable[[str], None]):
        self.received: int | None = None
        self._say = say
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> "Signals":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                handler = signal.getsignal(number)
                if handler not in (signal.SIG_IGN, None):  # who ignores it wants it ignored
                    self._handlers[number] = handler
                    signal.signal(number, self._receive)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _receive(self, number: int, frame: Any) -> None:
        del frame
        if number == signal.SIGINT:
            signal.signal(number, self._handlers[number])
        if self.received is None:
            self.received = number
            with contextlib.suppress(RuntimeError):  # where it came in the middle of other words
                self._say("it ends as soon as it can be saved; Ctrl-C ends it at once.")
