"""Standard output that is a command's alone: what an environment prints, and what is only said, goes to standard error."""

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator
from typing import TextIO


@contextlib.contextmanager
def own_output() -> Iterator[TextIO]:
    """The real standard output, to print to; meanwhile everybody else's words, those of C code too, go to stderr."""
    ours = sys.stdout
    with contextlib.ExitStack() as stack:
        if _is_the_process_s(sys.stdout, 1) and _is_the_process_s(sys.stderr, 2):
            ours = stack.enter_context(_moved())
        stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        yield ours
        ours.flush()


@contextlib.contextmanager
def _moved() -> Iterator[TextIO]:
    """Descriptor 1 becomes a second name of standard error; what it was can be written to here."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with open(kept, "w", encoding=sys.stdout.encoding, errors=sys.stdout.errors, closefd=False) as ours:
            yield ours
    finally:
        sys.stdout.flush()
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).fflush(None)  # C keeps back what it prints
        os.dup2(kept, 1)
        os.close(kept)


def _is_the_process_s(stream: TextIO, descriptor: int) -> bool:
    try:
        return stream.fileno() == descriptor
    except (OSError, ValueError, AttributeError):
        return False
