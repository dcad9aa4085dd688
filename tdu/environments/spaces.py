"""Gymnasium's spaces: nested observations as one array, several actions as one choice, and whether observations fit.

Of an observation of several parts (Dict, Tuple), numbers are copied, with bytes scaled to [0, 1]. A choice of n becomes a
one-hot vector of n. Parts without numbers, such as texts, are left out, and the user is informed. A single remaining part
keeps its shape.
"""

import functools
import math
import operator
import reprlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import spaces

from tdu.errors import EnvironmentFault, UserError
from tdu.types import Choices, Part, Parts

MINIGRID_BYTES = 10.0
"""The largest byte in MiniGrid's images, which encode objects."""

MAX_COMBINATIONS = 512
"""Maximum number of combinations of a MultiDiscrete action."""

_KINDS = {"f": "f", "i": "iub", "u": "iub", "b": "b"}
"""Kinds of numbers that pass for a space's own."""


def layout(space: object, *, largest_byte: float = 255.0) -> Parts | None:
    """The layout of a space of several parts; None if no part has numbers."""
    taken: list[Part] = []
    left_out: list[str] = []
    for path, one in _leaves(space, ()):
        name = ".".join(map(str, path))
        if isinstance(one, spaces.Discrete):
            taken.append(Part(path, choices=((int(one.start), int(one.n)),)))
        elif isinstance(one, spaces.MultiDiscrete):
            starts, counts = np.ravel(one.start).tolist(), np.ravel(one.nvec).tolist()
            taken.append(Part(path, choices=tuple(zip(starts, counts, strict=True))))
        elif isinstance(one, spaces.Box | spaces.MultiBinary):
            largest = largest_byte if one.dtype == np.uint8 else 1.0
            taken.append(Part(path, shape=tuple(one.shape or ()), largest=largest))
        else:
            left_out.append(f"{name} ({type(one).__name__})")
    return Parts(tuple(taken), tuple(left_out)) if taken else None


def _leaves(space: object, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], object]]:
    if isinstance(space, spaces.Dict):
        for name, inner in sorted(space.spaces.items()):
            yield from _leaves(inner, (*path, name))
    elif isinstance(space, spaces.Tuple):
        for i, inner in enumerate(space.spaces):
            yield from _leaves(inner, (*path, i))
    else:
        yield path, space


def flatten(parts: Parts, observation: object, source: str) -> np.ndarray:
    """An observation of several parts as one array. `source` begins errors: "NAME returned", for example."""
    arrays = [_array(part, observation, source) for part in parts.taken]
    return arrays[0] if len(arrays) == 1 else np.concatenate([x.ravel() for x in arrays])


def _array(part: Part, observation: Any, source: str) -> np.ndarray:
    path = ".".join(map(str, part.path))
    try:
        for key in part.path:
            observation = observation[key]
    except (KeyError, IndexError, TypeError):
        given = f"; it has {', '.join(map(str, observation))}" if isinstance(observation, dict) and observation else ""
        raise EnvironmentFault(f"{source} an observation whose part {path} is missing{given}.") from None
    try:
        x: np.ndarray = np.asarray(observation, np.float32 if not part.choices else np.int64)
    except (TypeError, ValueError):
        raise EnvironmentFault(f"{source} an observation whose part {path} is not numbers.") from None
    if not part.choices:
        if x.shape != part.shape:
            raise EnvironmentFault(f"{source} a part {path} of shape {x.shape}; its space has {part.shape}.")
        return np.asarray(x / np.float32(part.largest))
    if x.size != len(part.choices):
        raise EnvironmentFault(f"{source} {x.size} numbers as part {path}; its space has {len(part.choices)}.")
    ones = []
    for chosen, (start, count) in zip(x.ravel().tolist(), part.choices, strict=True):
        if not 0 <= chosen - start < count:
            raise EnvironmentFault(f"{source} {chosen} as part {path}; its space has {start} to {start + count - 1}.")
        ones.append(np.eye(count, dtype=np.float32)[chosen - start])
    return np.concatenate(ones)


def rows(parts: Parts, observation: Any) -> list[Any] | None:
    """The observations in a batch as a vector environment returns it; None if it is a single observation."""
    first = next((part for part in parts.taken if not part.choices), parts.taken[0])
    shape = first.shape if not first.choices else () if len(first.choices) == 1 else (len(first.choices),)
    try:
        batches = {part.path: functools.reduce(operator.getitem, part.path, observation) for part in parts.taken}
        shapes = {path: np.shape(batch) for path, batch in batches.items()}
    except (KeyError, IndexError, TypeError, ValueError):
        return None
    count, *rest = shapes[first.path] or (0,)
    is_single = tuple(rest) != shape or shapes[first.path] == () or (bool(first.choices) and count == 1)
    if is_single or any(found[:1] != (count,) for found in shapes.values()):
        return None
    return [_nested({path: batch[i] for path, batch in batches.items()}) for i in range(count)]


def _nested(parts: dict[tuple[str | int, ...], Any]) -> Any:
    """An observation from its parts by path."""
    if () in parts:
        return parts[()]
    return {
        key: _nested({path[1:]: part for path, part in parts.items() if path[0] == key})
        for key in dict.fromkeys(path[0] for path in parts)
    }


def described(parts: Parts, name: str) -> str:
    """A sentence for the user on what agents observe."""
    taken = " and ".join(
        f"{'.'.join(map(str, part.path))} ({part.size} number{'s' if part.size != 1 else ''})" for part in parts.taken
    )
    left_out = f"; left out, because they hold no numbers: {', '.join(parts.left_out)}" if parts.left_out else ""
    return f"{name} observes several parts. Agents observe {taken}{left_out}."


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
