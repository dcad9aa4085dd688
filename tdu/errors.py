"""What the user is told: errors that are theirs to mend, one sentence each that says what to do (the command line exits
with 2 on it), and news that are no errors.
"""

import contextlib
import difflib
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path


def tell(sentence: str) -> None:
    """Tells the user something that is no result: on standard error, which scripts do not read."""
    print(f"tdu: {sentence}", file=sys.stderr)


class UserError(ValueError):
    """A mistake in what was asked for."""


class EnvironmentFault(UserError):
    """An environment that broke its own promise: a wrong shape, a number that is not finite."""


class RunError(UserError):
    """A run's folder that cannot be used as asked."""


class TrainingError(UserError):
    """Learning that went wrong in a way no further step can mend."""


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns a disk that is full, read-only or otherwise unwilling into one sentence."""
    try:
        yield
    except OSError as e:
        raise RunError(f"cannot write {path}: {e.strerror or e}; nothing before it was lost.") from e


def unknown(kind: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a name that does not exist, with the nearest one that does."""
    names = {known_name.strip("-"): known_name for known_name in known}
    near = difflib.get_close_matches(str(name).strip("-"), names, n=1, cutoff=0.6)
    hint = f"did you mean '{names[near[0]]}'?" if near else f"choose from: {', '.join(sorted(names.values()))}."
    return UserError(f"unknown {kind} '{name}'; {hint}")
