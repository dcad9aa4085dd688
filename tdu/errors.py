"""Messages for the user: errors that the user can fix, one sentence each (exit code 2 on the command line), and notes."""

import contextlib
import difflib
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from pathlib import Path


def tell(sentence: str) -> None:
    """Prints a note on standard error."""
    shown = printable(_LONG_WORD.sub(r"\1…\2", sentence))
    with contextlib.suppress(OSError):  # nobody is there to read it
        print(f"tdu: {shown}", file=sys.stderr)


_LONG_WORD = re.compile(r"(\S{120})\S{70,}(\S{60})")
"""A word of at least 250 letters, such as a path, is shortened in messages to its first 120 and last 60."""


def printable(text: str) -> str:
    """A text without control characters, which could change what a terminal shows: they are written as in Python."""
    return "".join(sign if sign.isprintable() or sign == "\n" else repr(sign)[1:-1] for sign in text)


def several(count: int, noun: str) -> str:
    """A number of things: 1 episode, 2,000 episodes."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


_is_command = ContextVar("_is_command", default=False)


@contextlib.contextmanager
def on_command_line() -> Iterator[None]:
    """Meanwhile messages name settings as flags."""
    token = _is_command.set(True)
    try:
        yield
    finally:
        _is_command.reset(token)


def setting(name: str, value: str | None = None) -> str:
    """A setting as the user gives it: `--until budget` on the command line, `until="budget"` in Python."""
    if _is_command.get():
        return f"--{name.replace('_', '-')}{'' if value is None else f' {value}'}"
    return name if value is None else f'{name}="{value}"'


class UserError(ValueError):
    """A mistake of the user's."""


class EnvironmentFault(UserError):
    """An environment that breaks its specification: a wrong shape, or a number that is not finite."""


class RunError(UserError):
    """A run's folder that cannot be used."""


class TrainingError(UserError):
    """Training that cannot continue."""


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns an OSError, for example of a full disk, into one sentence."""
    try:
        yield
    except OSError as e:
        file = next((parent for parent in path.parents if os.path.isfile(parent)), None)
        if file is not None:
            raise RunError(f"{file} is a file, so {path} cannot be written; choose another place.") from e
        raise RunError(f"cannot write {path} ({e.strerror or e}); everything saved earlier is unchanged.") from e


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turns an OSError, for example of a missing permission, into one sentence; a missing file stays a FileNotFoundError."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as e:
        raise RunError(f"{path} cannot be read ({e.strerror or e}).") from e


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """The error for an unknown name, with the nearest known one."""
    names = {known_name.strip("-"): known_name for known_name in known}
    near = difflib.get_close_matches(str(name).strip("-"), names, n=1, cutoff=0.6)
    choices = ", ".join(sorted(names.values())) or "none"
    hint = f"did you mean '{names[near[0]]}'?" if near else f"choose from: {choices}."
    return UserError(f"unknown {kind} '{name}'; {hint}")
