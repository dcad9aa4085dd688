"""Ids that import code: one in a file runs the code of whoever wrote the file. So it needs the user's consent."""

from pathlib import Path

from tdu.errors import RunError
from tdu.run.folder import verify


def module_of(text: str) -> str:
    """The module that the id of an environment or an agent imports, as in python:MODULE:NAME; empty if it names none."""
    source, _, name = text.partition(":")
    module, colon, _ = name.partition(":")
    return module if source in ("python", "gym") and colon else ""


def require(text: str, path: Path | None, *, trust: bool) -> None:
    """Refuses an id from a run's folder or config file that imports code, unless the user trusts it.

    A folder is verified first. An id that the user types needs no consent, nor does one from memory (`path` is None).
    """
    if path is None or not (module := module_of(text)):
        return
    if path.is_dir():
        verify(path)
    if not trust:
        raise RunError(
            f"{path} names {text}: this would import and run the module {module!r}. If you trust whoever wrote it, add "
            "--trust (in Python trust=True)."
        )
