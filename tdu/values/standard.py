"""Standardised observations, for an ensemble that observes vectors of numbers in different units.

Priors and learning rates were chosen on one-hot observations, which have length 1 and differ from one another. This brings
vectors close to that: every number gets mean 0 and standard deviation 1 over the batches learned from, a constant 1 is
appended, and the result is divided by the root of the number of entries that vary. A random prior then does not prefer one
action nearly everywhere. Bytes, choices and images already share a unit and are unchanged.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from tdu.types import Array, EnvSpec

PRIOR_SIZE = 1 / 6
"""Scale of priors on standardised observations; it makes them about as large as on others."""


class Statistics(NamedTuple):
    """Of each number of an observation, over the batches learned from."""

    mean: Array
    variance: Array


def measured(spec: EnvSpec) -> np.ndarray:
    """Which numbers of a flat observation have their own unit, [D]: those of vectors, except bytes and booleans."""
    if spec.num_states is not None or spec.dtype in ("uint8", "bool"):
        return np.zeros(0, bool)
    if spec.parts is None:
        rank = len(spec.observation_shape)
        return np.full(spec.observation_shape or 1, True) if rank <= 1 else np.zeros(0, bool)
    kinds = [(part.size, not part.choices and len(part.shape) <= 1 and part.largest == 1) for part in spec.parts.taken]
    return np.concatenate([np.full(size, is_measured) for size, is_measured in kinds])


def initial(width: int) -> Statistics:
    """Statistics before the first batch, which shift and scale nothing."""
    return Statistics(jnp.zeros(width), jnp.ones(width))


def updated(seen: Statistics, observations: Array, step: Array) -> Statistics:
    """Statistics with one more batch of observations [B, D], after `step` batches."""
    rate = jnp.maximum(1 / (step + 1.0), _MIN_RATE)
    shift = jnp.mean(observations, axis=0) - seen.mean
    within = (1 - rate) * seen.variance + rate * jnp.var(observations, axis=0)
    return Statistics(seen.mean + rate * shift, within + rate * (1 - rate) * jnp.square(shift))


def standardised(seen: Statistics, observations: Array, measured: np.ndarray) -> Array:
    """Standardised observations [..., D + 1] from [..., D]; only numbers that are `measured` are centred and scaled."""
    smallest = jnp.square(_ROUNDING * seen.mean) + _MIN_VARIANCE
    z = (observations - seen.mean) / jnp.sqrt(seen.variance + smallest)
    numbers = _compressed(z) if measured.all() else jnp.where(measured, _compressed(z), observations)
    one = jnp.ones((*numbers.shape[:-1], 1))
    varying = jnp.sum(seen.variance > smallest)
    return jnp.concatenate([numbers, one], axis=-1) / jnp.sqrt(varying + 1.0)


def _compressed(z: Array) -> Array:
    """z up to ten standard deviations from the mean; beyond that it grows logarithmically."""
    size = jnp.abs(z)
    return jnp.where(size > _FAR, jnp.sign(z) * _FAR * (1 + jnp.log(jnp.maximum(size, _FAR) / _FAR)), z)


_FAR = 10.0
_MIN_RATE = 1e-4
"""All batches count equally at first, and later about the last ten thousand."""
_ROUNDING = 1e-5
"""A number whose standard deviation is a smaller share of its mean counts as constant."""
_MIN_VARIANCE = 1e-12
