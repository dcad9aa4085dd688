"""Checks and encodes observations: raw, in the environment's own type."""

import numpy as np
from numpy.typing import DTypeLike

from tdu.environments.spaces import flatten
from tdu.errors import EnvironmentFault, UserError
from tdu.types import EnvSpec


def carried_dtype(dtype: DTypeLike | None) -> str:
    """The type in which observations are passed on: the environment's own if the device supports it, else the nearest."""
    found = np.dtype(dtype if dtype is not None else np.float32)
    if found.name in ("bool", "uint8", "int8", "int16", "int32", "float32"):
        return found.name
    return "int32" if found.kind in "iu" else "float32"


def encode(spec: EnvSpec, observation: object, *, given_to: str = "") -> np.ndarray:
    """One observation with the spec's shape and type, or the index of the state if it is one-hot.

    Raises:
        EnvironmentFault: if it does not match the environment's own specification; or a UserError, if the user gave it to
            the function of that name.
    """
    try:
        return _encoded(spec, observation, f"{given_to} was given" if given_to else f"{spec.name} returned")
    except EnvironmentFault as e:
        raise (UserError(str(e)) if given_to else e) from None


def _encoded(spec: EnvSpec, observation: object, source: str) -> np.ndarray:
    if spec.parts is not None and isinstance(observation, dict | tuple):
        observation = flatten(spec.parts, observation, source)
    try:
        x = np.asarray(observation)
    except (TypeError, ValueError):
        x = np.asarray("")
    if x.dtype.kind not in "biuf":
        raise EnvironmentFault(f"{source} an observation that is not an array of numbers.")
    if spec.num_states is not None and x.shape == () and x.dtype.kind in "biu":
        return _state(spec, int(x))
    if spec.num_states is not None and spec.observation_shape == ():
        raise EnvironmentFault(f"{source} {observation!r}; observations of {spec.name} must be whole numbers.")
    if x.shape != spec.observation_shape:
        raise EnvironmentFault(
            f"{source} an observation of shape {x.shape}; {spec.name} has observations of shape {spec.observation_shape}."
        )
    with np.errstate(over="ignore", invalid="ignore"):
        carried = np.asarray(x, spec.dtype if spec.num_states is None else np.float32)
    if carried.dtype.kind == "f":
        if not np.isfinite(carried).all():
            at = np.argwhere(~np.isfinite(carried))[0].tolist()
            value = carried[tuple(at)]
            raise EnvironmentFault(f"{source} an observation that is not finite: {value} at index {at}.")
    elif carried.dtype != x.dtype and not np.array_equal(carried, x):
        raise EnvironmentFault(f"{source} an observation that does not fit into {spec.dtype}.")
    if spec.num_states is None:
        return carried.copy() if np.may_share_memory(carried, x) else carried  # the environment may overwrite it
    ones = np.flatnonzero(x)
    if ones.size == 0:
        return np.asarray(spec.num_states, np.int32)
    if ones.size > 1 or x.flat[ones[0]] != 1:
        raise EnvironmentFault(f"{source} an observation that is not one-hot.")
    return np.asarray(ones[0], np.int32)


def _state(spec: EnvSpec, observed: int) -> np.ndarray:
    """The index of a state from the environment's number for it. For arrays, one more index is the all-zero observation."""
    assert spec.num_states is not None
    index, last = observed - spec.first_state, spec.num_states - (spec.observation_shape == ())
    if not 0 <= index <= last:
        low = spec.first_state
        raise EnvironmentFault(f"{spec.name} has states {low} to {low + spec.num_states - 1}, not {observed}.")
    return np.asarray(index, np.int32)
