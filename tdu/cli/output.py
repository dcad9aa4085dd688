"""Standard output for a command's own output alone: everything else that is printed goes to standard error.

A display that is lost (a closed pipe or terminal, a full disk) ends no run: what would be shown is dropped.
"""

import contextlib
import ctypes
import io
import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

from tdu.errors import several, tell

if TYPE_CHECKING:
    from tdu.run.processes import Outcome


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


def announce_compiling(jobs: int, progress: str) -> None:
    """Prints why nothing happens at first in the processes of several runs."""
    if jobs and progress != "none":
        tell(f"{several(jobs, 'run')} to do; each compiles for some seconds before its first step …")


def tell_failed(outcomes: Sequence["Outcome"]) -> int:
    """Prints the notes of runs that ended well and the reasons of the others, on stderr; how many others there are."""
    for outcome in outcomes:
        if outcome.code == 0 and outcome.stderr:
            print(f"{outcome.job.name}: {outcome.stderr}", file=sys.stderr)
    failed = [outcome for outcome in outcomes if outcome.code]
    for outcome in failed:
        tell(f"{outcome.job.name} failed: {outcome.reason}")
    return len(failed)


class _Lasting(io.TextIOWrapper):
    """Standard error that drops everything once it cannot be written."""

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            return super().write(text)
        discard(2)
        return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError:
            discard(2)


@contextlib.contextmanager
def lasting_streams() -> Iterator[None]:
    """Streams that accept every text, and drop it rather than fail."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(
                os.open(os.devnull, os.O_RDWR), True
            )  # it gets this number, which a log would get otherwise
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    before = sys.stderr
    if not isinstance(before, io.TextIOWrapper) or not _has_descriptor(before, 2):
        yield
        return
    lasting = _Lasting(before.buffer, encoding=before.encoding, errors="backslashreplace", line_buffering=True)
    sys.stderr = lasting
    try:
        yield
    finally:
        lasting.flush()
        lasting.detach()
        sys.stderr = before


def discard(descriptor: int) -> None:
    """Sends what is written to a descriptor nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


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
