"""Options as the fields of a frozen dataclass, each with a default, a help text and a range.

An agent's config class is the only place that defines its options. The command line, the help text, the range checks and
config.json are all made from its fields.
"""

import contextlib
import dataclasses
import math
import numbers
import operator
import types
from collections.abc import Iterable
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from tdu.errors import UserError, unknown

DEFAULT_AGENT = "tdu"

EVALUATION_EPISODES = 100
"""Default maximum number of evaluation episodes of a run."""

CHECKPOINT_SECONDS = 60.0
"""Default time between checkpoints."""

Until = Literal["mastered", "solved", "budget"]
"""When a run ends before its budget is spent: once the task is mastered and solved by its own rule, once it is solved, or
never."""

TRACKERS = {"tensorboard": "tensorboardX", "wandb": "wandb"}
"""Where values are tracked, and the package that does it."""

EPISODES = 200
"""Default number of episodes of `tdu.evaluate`."""

MAX_EPISODES = 2**31 - 1
MAX_STEPS = 10**12
MAX_ENVS = 4096
MAX_ACTORS = 4096
MAX_SEED = 2**32 - 1
"""The largest values of a run's settings."""


def option(
    default: Any,
    help: str,
    *,
    minimum: float | None = None,
    above: float | None = None,
    maximum: float | None = None,
    below: float | None = None,
) -> Any:
    """A dataclass field with a help text and the range of its values."""
    metadata = {"help": help, "minimum": minimum, "above": above, "maximum": maximum, "below": below}
    return dataclasses.field(default=default, metadata=metadata)


def build(cls: type, given: dict[str, Any], *, kind: str) -> Any:
    """An instance of config class `cls` from options by name. Strings are parsed, and every value is checked."""
    fields = {f.name: f for f in dataclasses.fields(cls)}
    hints = get_type_hints(cls)
    values = {}
    for name, value in given.items():
        if name not in fields:
            raise unknown_option(kind, name, fields)
        values[name] = _convert(name, value, hints[name])
        _check_range(name, values[name], fields[name].metadata)
    return cls(**values)


ELSEWHERE = {
    "total_timesteps": "steps", "gamma": "discount", "learning_starts": "min_replay", "buffer_size": "replay_capacity",
    "train_freq": "learn_period", "target_update_interval": "target_period", "exploration_fraction": "epsilon",
    "exploration_initial_eps": "epsilon", "exploration_final_eps": "epsilon", "policy_kwargs": "hidden_sizes",
    "net_arch": "hidden_sizes", "n_envs": "num_envs", "callback": "callbacks", "eval_freq": "evaluate_every",
    "n_eval_episodes": "evaluation_episodes", "tensorboard_log": "track", "verbose": "progress",
}  # fmt: skip
"""Names of Stable-Baselines3's, and ours."""


def unknown_option(kind: str, name: str, known: Iterable[str]) -> UserError:
    """The error for an unknown option, with the nearest known one. `name` may be written as a flag."""
    names = {option.strip("-").replace("-", "_"): option for option in known}
    ours = ELSEWHERE.get(name.strip("-").replace("-", "_"), "")
    if ours in names:
        return UserError(f"unknown option of {kind} '{name}'; it is called '{names[ours]}' here.")
    return unknown(f"option of {kind}", name, names.values())


def as_json(config: Any) -> dict[str, Any]:
    """A config's options as config.json holds them."""
    values = dataclasses.asdict(config)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def changed(config: Any, name: str) -> bool:
    """Whether a field of a config differs from its default."""
    fields = {f.name: f for f in dataclasses.fields(config)}
    return bool(getattr(config, name) != fields[name].default)


def whole_number(name: str, value: Any, low: int, high: int) -> int:
    """`value`, of any integer type or a float such as 1e5, as an int in [low, high]."""
    try:
        is_real = isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral)
        number = int(value) if is_real and float(value).is_integer() else operator.index(value)
    except TypeError:
        number = low - 1
    if isinstance(value, bool) or not low <= number <= high:
        raise UserError(f"{name} must be a whole number from {low:,} to {high:,}, not {value!r}.")
    return number


def parsed_number(text: str) -> int | float | str:
    """The number that a text is; the text if it is none."""
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def describe(cls: type) -> list[tuple[str, str, Any, str]]:
    """(name, type as text, default, help text) of every field."""
    hints = get_type_hints(cls)
    return [(f.name, type_name(hints[f.name]), f.default, f.metadata["help"]) for f in dataclasses.fields(cls)]


def type_name(hint: Any) -> str:
    """A type's name in help texts and errors."""
    if get_origin(hint) is Literal:
        return "|".join(map(str, get_args(hint)))
    if get_origin(hint) is tuple:
        return "whole numbers, as in 64,64"
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(type_name(h) for h in get_args(hint) if h is not type(None))
    return {int: "whole number", float: "number", bool: "true|false", str: "text"}[hint]


def _convert(name: str, value: Any, hint: Any) -> Any:
    """`value` as the field's type; refuses a value that the conversion would change."""
    wrong = UserError(f"{name} must be {_article(type_name(hint))}, not {value!r}.")
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            raise unknown(f"value of {name}", str(value), get_args(hint))
        return value
    try:
        if get_origin(hint) is tuple:
            if isinstance(value, int | float):
                example = f"({value},)" if type(value) is int and 1 <= value <= _MAX_WIDTH else "(64, 64)"
                raise UserError(f"{name} must be a tuple of whole numbers, as in {name}={example}, not {value}.")
            parts = value.replace("x", ",").split(",") if isinstance(value, str) else list(value)
            sizes = tuple(int(p) for p in parts)
            whole = all(s == float(p) for s, p in zip(sizes, parts, strict=True))
            if not sizes or not whole or not all(1 <= s <= _MAX_WIDTH for s in sizes):
                raise UserError(f"{name} must be whole numbers from 1 to {_MAX_WIDTH}, as in 64,64, not {value!r}.")
            return sizes
        if hint is bool:
            if isinstance(value, bool):
                return value
            return {"true": True, "false": False}[str(value).lower()]
        if hint is int:
            number = parsed_number(value) if isinstance(value, str) else value
            if isinstance(number, bool | str) or int(number) != number:
                raise wrong
            return int(number)
        if hint is float:
            if isinstance(value, bool):
                raise wrong
            return float(value)
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as e:
        if isinstance(e, UserError):
            raise
        raise wrong from None
    if not isinstance(value, str):
        raise wrong
    return value


_MAX_WIDTH = 65_536  # Maximum width of a hidden layer; much wider ones overflow the compiler


def _check_range(name: str, value: Any, metadata: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    if not math.isfinite(value):
        raise UserError(f"{name} must be a finite number, not {value}.")
    low, above, high, below = (metadata[name] for name in ("minimum", "above", "maximum", "below"))
    if isinstance(value, int) and high is None:
        high = 2**31 - 1  # counters on the device are 32 bits wide
    too_low = (low is not None and value < low) or (above is not None and value <= above)
    if too_low or (high is not None and value > high) or (below is not None and value >= below):
        bounds = [f"at least {low:,}"] if low is not None else []
        bounds += [f"greater than {above:,}"] if above is not None else []
        bounds += [f"at most {high:,}"] if high is not None else []
        bounds += [f"less than {below:,}"] if below is not None else []
        raise UserError(f"{name} must be {' and '.join(bounds)}, not {value}.")


def _article(name: str) -> str:
    return f"a {name}" if name in ("number", "whole number") else name
