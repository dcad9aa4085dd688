"""Whether observations are what a Gymnasium space promises, and actions of several choices as one choice."""

import math
import reprlib

import numpy as np
from gymnasium import spaces

from tdu.errors import UserError
from tdu.types import Choices

MAX_COMBINATIONS = 512
"""Maximum number of combinations of a MultiDiscrete action."""

_KINDS = {"f": "f", "i": "iub", "u": "iub", "b": "b"}
"""Kinds of numbers that pass for a space's own."""


def action_choices(name: str, space: object) -> Choices:
    """Smallest value and number of values of each choice of a Discrete or MultiDiscrete action."""
    if isinstance(space, spaces.Discrete):
        return ((int(space.start), int(space.n)),)
    if not isinstance(space, spaces.MultiDiscrete) or space.nvec.ndim != 1:
        raise UserError(
            f"{name} does not have discrete actions but {space}; only Discrete and flat MultiDiscrete are supported."
        )
    counts = space.nvec.tolist()
    if math.prod(counts) > MAX_COMBINATIONS:
        raise UserError(
            f"{name} has {math.prod(counts):,} combinations of actions; at most {MAX_COMBINATIONS} are supported, so give "
            "the action space fewer or coarser choices."
        )
    return tuple(zip(space.start.tolist(), counts, strict=True))


def validate(space: spaces.Space[object], observation: object, where: str = "observation") -> None:
    """Raises a ValueError that says what differs from the space and what to do. A float64 in a float32 Box is fine."""
    if isinstance(space, spaces.Dict):
        if not isinstance(observation, dict) or set(observation) != set(space.spaces):
            found = (
                f"the keys {sorted(observation)}"
                if isinstance(observation, dict)
                else f"a {type(observation).__name__}"
            )
            raise ValueError(f"{where} has {found}; its space is a Dict with {sorted(space.spaces)}")
        for key, inner in space.spaces.items():
            validate(inner, observation[key], f"{where}[{key!r}]")
    elif isinstance(space, spaces.Tuple):
        if not isinstance(observation, tuple) or len(observation) != len(space.spaces):
            raise ValueError(f"{where} must be a tuple of {len(space.spaces)} parts, as its space says")
        for i, inner in enumerate(space.spaces):
            validate(inner, observation[i], f"{where}[{i}]")
    elif isinstance(space, spaces.Box):
        x = _numbers(space, observation, where)
        with np.errstate(over="ignore"):
            x = x.astype(space.dtype) if x.dtype.kind == "f" else x  # a bound may be rounded
        _all_within(x, space.low, space.high, where, "widen the Box, or clip the observation")
    elif isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        count = np.asarray(space.n if isinstance(space, spaces.Discrete) else space.nvec, np.int64)
        start = np.asarray(space.start, np.int64)
        _all_within(_numbers(space, observation, where), start, start + count - 1, where, "correct one of them")
    elif not space.contains(observation):
        raise ValueError(
            f"{where} is {reprlib.repr(observation)}, which is not in its space {space}; correct one of them"
        )


def _numbers(space: spaces.Space[object], observation: object, where: str) -> np.ndarray:
    try:
        x = np.asarray(observation)
    except ValueError:
        x = np.asarray("")
    assert space.dtype is not None
    if x.dtype.kind not in "biuf":
        raise ValueError(f"{where} is not an array of numbers; return np.array(…, dtype=np.{space.dtype})")
    if x.shape != space.shape:
        raise ValueError(f"{where} has shape {x.shape}, its space {space.shape}; make them equal")
    if x.dtype.kind not in _KINDS[space.dtype.kind]:
        raise ValueError(
            f"{where} has dtype {x.dtype}, its space {space.dtype}; return it with .astype(np.{space.dtype})"
        )
    return x


def _all_within(x: np.ndarray, low: np.ndarray, high: np.ndarray, where: str, advice: str) -> None:
    outside = np.argwhere((x < low) | (x > high))
    if len(outside):
        at = tuple(outside[0].tolist())
        low, high = (np.broadcast_to(bound, x.shape)[at] for bound in (low, high))
        place = f"{where}[{', '.join(map(str, at))}]" if at else where
        raise ValueError(f"{place} is {x[at]}, and its space allows {low} to {high}; {advice}")
