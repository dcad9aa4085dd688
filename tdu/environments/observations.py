"""Observations as they travel: raw, in the environment's own type, checked once where they come in."""

from typing import Any

import numpy as np

from tdu.environments.parts import together
from tdu.errors import EnvironmentFault
from tdu.types import EnvSpec


def carried_dtype(dtype: Any) -> str:
    """The type in which an environment's observations travel: its own if the device has it, else the nearest that it has."""
    found = np.dtype(dtype if dtype is not None else np.float32)
    if found.name in ("bool", "uint8", "int8", "int16", "int32", "float32"):
        return found.name
    return "int32" if found.kind in "iu" else "float32"


def encode(spec: EnvSpec, observation: Any) -> np.ndarray:
    """One observation as it travels: of the spec's shape and type, or a state index where it is one-hot.

    Raises:
        EnvironmentFault: where it is not what the environment's own specification says.
    """
    if spec.parts is not None and isinstance(observation, dict | tuple):
        observation = together(spec.parts, observation, spec.name)
    try:
        x = np.asarray(observation)
        x = x.astype(np.float64) if x.dtype.kind == "O" else x
    except (TypeError, ValueError):
        x = np.asarray("")
    if x.dtype.kind not in "biuf":
        raise EnvironmentFault(f"{spec.name} gave an observation that is not an array of numbers.")
    if spec.num_states is not None and x.shape == () and x.dtype.kind in "biu":
        return _state(spec, int(x))
    if spec.num_states is not None and spec.observation_shape == ():
        raise EnvironmentFault(f"{spec.name} has states that are named by whole numbers, not {observation!r}.")
    if x.shape != spec.observation_shape:
        raise EnvironmentFault(
            f"{spec.name} gave an observation of shape {x.shape}; its own specification says {spec.observation_shape}."
        )
    with np.errstate(over="ignore", invalid="ignore"):
        carried = np.asarray(x, spec.dtype if spec.num_states is None else np.float32)
    if carried.dtype.kind == "f":
        if not np.isfinite(carried).all():
            raise EnvironmentFault(f"{spec.name} gave an observation with a number that is not finite.")
    elif carried.dtype != x.dtype and not np.array_equal(carried, x):
        raise EnvironmentFault(
            f"{spec.name} gave an observation that does not fit into {spec.dtype}, in which it travels."
        )
    if spec.num_states is None:
        return carried.copy() if np.may_share_memory(carried, x) else carried  # the environment may write there again
    ones = np.flatnonzero(x)
    if ones.size == 0:
        return np.asarray(spec.num_states, np.int32)
    if ones.size > 1 or x.flat[ones[0]] != 1:
        raise EnvironmentFault(f"{spec.name} gave an observation that is not one-hot.")
    return np.asarray(ones[0], np.int32)


def _state(spec: EnvSpec, named: int) -> np.ndarray:
    """A state's index from what the environment calls it. Where the observation is an array, one more is the all-zero one."""
    assert spec.num_states is not None
    index, last = named - spec.first_state, spec.num_states - (spec.observation_shape == ())
    if not 0 <= index <= last:
        low = spec.first_state
        raise EnvironmentFault(f"{spec.name} has states {low} to {low + spec.num_states - 1}, not {named}.")
    return np.asarray(index, np.int32)
