"""Ids that import code: one in a file runs the code of whoever wrote the file. So it needs the user's consent."""

from pathlib import Path

from tdu.errors import RunError
from tdu.run.folder import verify


def module_of(text: str) -> str:
    """The module that the id of an environment or an agent imports, as in python:MODULE:NAME; empty if it names none."""
    source, _, name = text.partition(":")
    module, colon, _ = name.partition(":")
    return module if source in ("python", "gym") and colon else ""


_typed: set[str] = set()  # ids that the user of this process has typed or trusted


def typed(text: object) -> None:
    """Notes an id that the user has typed. An environment object is none."""
    if isinstance(text, str):
        _typed.add(text)


def require(text: str, path: Path | None, *, trust: bool) -> None:
    """Refuses an id from a run's folder or config that imports code, unless the user trusts it.

    A folder is verified first. A config in memory (`path` is None) may come from a folder too, so its ids must have been
    typed or trusted before.
    """
    if not (module := module_of(text)):
        return
    if path is not None and path.is_dir():
        verify(path)
    if trust:
        typed(text)
    elif path is not None or text not in _typed:
        raise RunError(
            f"{path or 'the config'} names {text}, which imports and runs the module {module!r}. If you trust its author, "
            "add --trust (in Python trust=True)."
        )
