"""Observations in standard form, for an ensemble whose observations are not one-hot.

What the settings of an ensemble mean, the scale of its priors and its step size, was found on one-hot observations: of length
1, and no two alike. Others are brought near that by running means over the batches learned from. Every number gets mean 0 and
deviation 1, a constant 1 is put behind them, and the whole is divided by the root of how many of them vary: its length is
about 1, and what never varies does not count. So a random prior does not prefer one action nearly everywhere, and the unit of
an observation does not matter.
"""

from typing import NamedTuple

import jax.numpy as jnp

from tdu.types import Array


class Seen(NamedTuple):
    """Of each number of an observation, or of each channel of an image, over what was learned from."""

    mean: Array
    variance: Array


def nothing(numbers: int) -> Seen:
    """Before the first batch: nothing is shifted or scaled."""
    return Seen(jnp.zeros(numbers), jnp.ones(numbers))


def met(seen: Seen, observations: Array, step: Array) -> Seen:
    """With one more batch of observations [..., D], after `step` of them."""
    rate = jnp.maximum(1 / (step + 1.0), _SLOWEST)
    over = tuple(range(observations.ndim - 1))
    away = jnp.mean(observations, over) - seen.mean
    within = (1 - rate) * seen.variance + rate * jnp.var(observations, over)
    return Seen(seen.mean + rate * away, within + rate * (1 - rate) * jnp.square(away))


def form(seen: Seen, observations: Array, places: int) -> Array:
    """Observations [..., D] in standard form, [..., D + 1]; `places` are the pixels that a network sees at a time."""
    least = jnp.square(_ROUNDING * seen.mean) + _LEAST_VARIANCE
    z = (observations - seen.mean) / jnp.sqrt(seen.variance + least)
    one = jnp.ones((*z.shape[:-1], 1))
    varying = jnp.sum(seen.variance > least)
    return jnp.concatenate([_near(z), one], axis=-1) / jnp.sqrt(places * (varying + 1.0))


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
