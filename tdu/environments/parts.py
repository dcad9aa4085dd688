"""Observations of several parts, Gymnasium's Dict and Tuple spaces, flattened into one array.

Numbers are copied, with bytes scaled to [0, 1]. A choice of n becomes a one-hot vector of n. Parts without numbers, such as
texts, are left out, and the user is informed. A single remaining part keeps its shape.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import spaces

from tdu.errors import EnvironmentFault
from tdu.types import Part, Parts

MINIGRID_BYTES = 10.0
"""The largest byte in MiniGrid's images, which encode objects."""


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
        raise EnvironmentFault(f"{source} an observation whose part {path} is missing.") from None
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
            raise EnvironmentFault(f"{source} {chosen} as part {path}, which is not in its space.")
        ones.append(np.eye(count, dtype=np.float32)[chosen - start])
    return np.concatenate(ones)


def described(parts: Parts, name: str) -> str:
    """A sentence for the user on what agents observe."""
    taken = " and ".join(f"{'.'.join(map(str, part.path))} ({part.size} numbers)" for part in parts.taken)
    left_out = f"; left out, because they hold no numbers: {', '.join(parts.left_out)}" if parts.left_out else ""
    return f"{name} observes several parts. Agents observe {taken}{left_out}."
