"""Observations in standard form, for an ensemble that observes vectors of numbers, each in a unit of its own.

What the settings of an ensemble mean, the scale of its priors and its step size, was found on one-hot observations: of length
1, and no two alike. Vectors are brought near that by running means over the batches learned from. Every number gets mean 0
and deviation 1, a constant 1 is put behind them, and the whole is divided by the root of how many of them vary: its length is
about 1, and what never varies does not count. So a random prior does not prefer one action nearly everywhere, and the unit of
a number does not matter. Bytes, choices and images have a common unit already and are left as they are.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from tdu.types import Array, EnvSpec

PRIOR_SIZE = 1 / 6
"""What priors of observations in standard form are scaled to: about the size of others'."""


class Seen(NamedTuple):
    """Of each number of an observation, over what was learned from."""

    mean: Array
    variance: Array


def measured(spec: EnvSpec) -> np.ndarray:
    """Which numbers of a flat observation have units of their own, [D]: those of vectors, but for bytes and truth values."""
    if spec.num_states is not None or spec.dtype in ("uint8", "bool"):
        return np.zeros(0, bool)
    if spec.parts is None:
        rank = len(spec.observation_shape)
        return np.full(spec.observation_shape or 1, True) if rank <= 1 else np.zeros(0, bool)
    kinds = [(part.size, not part.choices and len(part.shape) <= 1 and part.largest == 1) for part in spec.parts.taken]
    return np.concatenate([np.full(size, is_measured) for size, is_measured in kinds])


def nothing(numbers: int) -> Seen:
    """Before the first batch: nothing is shifted or scaled."""
    return Seen(jnp.zeros(numbers), jnp.ones(numbers))


def met(seen: Seen, observations: Array, step: Array) -> Seen:
    """With one more batch of observations [B, D], after `step` of them."""
    rate = jnp.maximum(1 / (step + 1.0), _SLOWEST)
    away = jnp.mean(observations, axis=0) - seen.mean
    within = (1 - rate) * seen.variance + rate * jnp.var(observations, axis=0)
    return Seen(seen.mean + rate * away, within + rate * (1 - rate) * jnp.square(away))


def form(seen: Seen, observations: Array, measured: np.ndarray) -> Array:
    """Observations [..., D] in standard form, [..., D + 1]; only numbers that are `measured` are centred and scaled."""
    least = jnp.square(_ROUNDING * seen.mean) + _LEAST_VARIANCE
    z = (observations - seen.mean) / jnp.sqrt(seen.variance + least)
    numbers = _near(z) if measured.all() else jnp.where(measured, _near(z), observations)
    one = jnp.ones((*numbers.shape[:-1], 1))
    varying = jnp.sum(seen.variance > least)
    return jnp.concatenate([numbers, one], axis=-1) / jnp.sqrt(varying + 1.0)


def _near(z: Array) -> Array:
    """As it is up to ten deviations from the mean; from there on it grows with the logarithm."""
    size = jnp.abs(z)
    return jnp.where(size > _FAR, jnp.sign(z) * _FAR * (1 + jnp.log(jnp.maximum(size, _FAR) / _FAR)), z)


_FAR = 10.0
_SLOWEST = 1e-4
"""Every batch counts alike at first; later the last ten thousand do."""
_ROUNDING = 1e-5
"""A number that varies by less of its mean is taken not to vary."""
_LEAST_VARIANCE = 1e-12
