"""Ctrl-C and SIGTERM, held back until a run has saved a checkpoint."""

import contextlib
import signal
import threading
from collections.abc import Callable
from typing import Any


class Interrupted(KeyboardInterrupt):
    """A run that ended on Ctrl-C or SIGTERM, after saving what it can."""

    def __init__(self, sentence: str, signal_number: int):
        super().__init__(sentence)
        self.exit_code = 128 + signal_number


class Signals(contextlib.AbstractContextManager["Signals"]):
    """Stores which of the two signals came. A second Ctrl-C ends the process at once."""

    def __init__(self, say: Callable[[str], None]):
        self.received: int | None = None
        self._say = say
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> "Signals":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                handler = signal.getsignal(number)
                if handler not in (signal.SIG_IGN, None):  # an ignored signal stays ignored
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
            with contextlib.suppress(RuntimeError):  # the signal came while another message was printed
                self._say("the run ends as soon as it is saved; Ctrl-C ends it at once.")
