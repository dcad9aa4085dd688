"""Functions of the user's that a run calls while it trains, as in Stable-Baselines3."""

import inspect
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tdu.errors import UserError, unknown

Hook = Callable[..., object]


class Callback(NamedTuple):
    """What a run calls. A function that returns False ends the run after the current piece of work.

    Any object with one or more of these names as methods is a callback too, and so is a function alone: it is `on_step`.

    Examples:
        >>> not_solved = tdu.Callback(on_episode=lambda row: row["episode_return"] < 0.9)
        >>> tdu.train("deep_sea:size=20", callbacks=[not_solved])
    """

    on_start: Hook | None = None
    """on_start(config), once before the first step; again when a run is continued."""
    on_step: Hook | None = None
    """on_step(report), after every piece of the run: up to a thousand steps (compiled environments), an episode or up to five
    seconds (Python environments). The report has `steps`, `episode`, `mean_return`, `last` (a log row) and more."""
    on_episode: Hook | None = None
    """on_episode(row), with the log row of every episode."""
    on_evaluation: Hook | None = None
    """on_evaluation(evaluation), after every evaluation during the run (`evaluate_every`)."""
    on_end: Hook | None = None
    """on_end(run), once with the finished run; not after an error or Ctrl-C."""


def checked(callbacks: object, *, evaluates: bool) -> list[object]:
    """Callbacks with methods."""
    are_several = isinstance(callbacks, list | tuple) and not isinstance(callbacks, Callback)
    made = [_with_methods(one) for one in (callbacks if are_several else [callbacks])]  # type: ignore[attr-defined]
    for one in made:
        hooks = [name for name in Callback._fields if getattr(one, name, None) is not None]
        if not hooks:
            raise UserError(
                f"a callback must be a function, or an object with a method named {' or '.join(Callback._fields)}, "
                f"not {one!r}."
            )
        for name in dir(one):
            if name.startswith("on_") and name not in Callback._fields and callable(getattr(one, name)):
                raise unknown("method of a callback", name, Callback._fields)
        for name in hooks:
            _refuse_arguments(name, getattr(one, name))
        if hooks == ["on_evaluation"] and not evaluates:
            raise UserError("on_evaluation needs evaluations during the run; add evaluate_every.")
    return made


def call(callbacks: Sequence[object], name: str, *arguments: object) -> bool:
    """Calls the method of every callback that has it. Returns whether one of them ends the run."""
    hooks = [hook for callback in callbacks if (hook := getattr(callback, name, None)) is not None]
    answers = [hook(*arguments) for hook in hooks]
    return any(isinstance(answer, bool | np.bool_) and not answer for answer in answers)


def _refuse_arguments(name: str, hook: Hook) -> None:
    """Refuses a function that cannot be called with one argument."""
    argument = {"on_start": "config", "on_step": "report", "on_episode": "row", "on_evaluation": "evaluation"}
    try:
        inspect.signature(hook).bind(None)
    except TypeError:
        words = f"{name}({argument.get(name, 'run')})"
        raise UserError(f"a callback takes one argument, {words}; {hook!r} does not.") from None
    except ValueError:
        pass  # some functions in C do not say what they take


def _with_methods(callback: object) -> object:
    if callable(callback) and not any(hasattr(callback, name) for name in Callback._fields):
        return Callback(on_step=callback)
    return callback
