"""Standard output for a command's own output alone: everything else that is printed goes to standard error."""

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator
from typing import TextIO


@contextlib.contextmanager
def own_output() -> Iterator[TextIO]:
    """The real standard output. Meanwhile everything else that is printed, also by C code, goes to stderr."""
    ours = sys.stdout
    with contextlib.ExitStack() as stack:
        if _has_descriptor(sys.stdout, 1) and _has_descriptor(sys.stderr, 2):
            ours = stack.enter_context(_moved())
        stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        yield ours
        ours.flush()


@contextlib.contextmanager
def _moved() -> Iterator[TextIO]:
    """Redirects descriptor 1 to standard error, and yields a stream to the original."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with open(kept, "w", encoding=sys.stdout.encoding, errors=sys.stdout.errors, closefd=False) as ours:
            yield ours
    finally:
        sys.stdout.flush()
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).fflush(None)  # C buffers its output
        os.dup2(kept, 1)
        os.close(kept)


def _has_descriptor(stream: TextIO, descriptor: int) -> bool:
    try:
        return stream.fileno() == descriptor
    except (OSError, ValueError, AttributeError):
        return False
