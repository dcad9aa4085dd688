"""Code of the user's that an id names: `python:package.module:name`, for environments and agents."""

import importlib
import importlib.util
import os
import sys
import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from tdu.errors import UserError, unknown

PREFIX = "python:"


def imported(text: str) -> tuple[object, str]:
    """The module that `python:package.module:name` names, and the name in it."""
    module_name, _, name = text.removeprefix(PREFIX).partition(":")
    refuse_file(text, name or "name")
    if not module_name or not name:
        raise UserError(f"'{text}' does not name what to import; write python:package.module:name.")
    see_current_folder()
    _refuse_hidden(text, module_name)
    try:
        return importlib.import_module(module_name), name
    except (Exception, SystemExit) as e:
        if isinstance(e, ModuleNotFoundError) and e.name and f"{module_name}.".startswith(f"{e.name}."):
            raise UserError(f"{text}: there is no module {e.name} in this folder or on Python's path.") from None
        raise UserError(f"{text} cannot be made: {described(e)}.") from e


def named(text: str, kind: str = "function", is_one: Callable[[object], bool] = callable) -> object:
    """What `python:package.module:name` names. An error lists what the module has of this kind."""
    module, name = imported(text)
    if not hasattr(module, name):
        names = [known for known, value in vars(module).items() if is_one(value) and not known.startswith("_")]
        raise unknown(f"{kind} of {text.split(':')[1]}", name, names)
    found: object = getattr(module, name)
    return found


def refuse_file(text: str, name: str) -> None:
    """Refuses a Python file where an id is wanted, and says how to name what is in it; `name` is an example of that."""
    path, _, given = text.removeprefix(PREFIX).partition(":")
    is_id = text.startswith(PREFIX)
    if path.endswith(".py") or (is_id and "/" in path) or (not is_id and given and Path(f"{path}.py").is_file()):
        module = Path(path).name.removesuffix(".py")
        raise UserError(f"'{text}' is not an id; write {PREFIX}{module}:{given or name}, in the folder of {module}.py.")


def _refuse_hidden(text: str, module_name: str) -> None:
    """Refuses a file of the current folder that a module of Python's own or of a package hides."""
    file = Path(f"{module_name.replace('.', '/')}.py")
    top = module_name.partition(".")[0]
    try:
        found = importlib.util.find_spec(top) if file.is_file() else None
    except ValueError:  # __main__ has none
        found = None
    origin = found.origin if found is not None and found.origin is not None else str(file)
    is_installed = "site-packages" in origin
    is_here = os.path.isabs(origin) and Path(origin).resolve().is_relative_to(Path.cwd())
    if (is_here and not is_installed) or (is_installed and top != module_name):
        return
    if origin in ("built-in", "frozen") or not _is_user_code(origin):
        whose = "an installed" if is_installed else "Python's own"
        raise UserError(f"{text} finds {whose} module {top}, not {file} of this folder; rename the file.")


def see_current_folder() -> None:
    """Adds the current folder to the import path, after installed packages: a local ray.py must not hide Ray."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


def described(error: BaseException) -> str:
    """An exception of the user's code in a few words, with the line of that code."""
    message = " ".join(str(error).split()).rstrip(".") or "without a message"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_user_code(frame.filename)]
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {message}{place}"


def is_raised_in(package: ModuleType, error: BaseException) -> bool:
    """Whether a line of that package raised an exception."""
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and Path(frames[-1].filename).is_relative_to(Path(str(package.__file__)).parent)


def _is_user_code(filename: str) -> bool:
    """Whether a file is the user's: not of this package, an installed package or Python itself."""
    if filename.startswith("<"):
        return False
    path = Path(filename).resolve()
    others = (_PACKAGE, *map(Path, (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))))
    return "site-packages" not in path.parts and not any(path.is_relative_to(folder) for folder in others)


_PACKAGE = Path(__file__).resolve().parent
