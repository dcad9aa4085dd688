"""Observations in standard form, for an ensemble whose observations are not one-hot.

What the settings of an ensemble mean, the scale of its priors and its step size, was found on one-hot observations: of length
1, and no two alike. Others are brought near that by running means over the batches learned from. Every number gets mean 0 and
deviation 1, a constant 1 is put behind them, and the whole is divided by the root of how many of them vary: its length is
about 1, and what never varies does not count. So a random prior does not prefer one action nearly everywhere, and the unit of
an observation does not matter. Numbers of one kind, those of a picture's channel for example, have one deviation among them:
what hardly ever varies would be made large by its own.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tdu.types import Array, EnvSpec


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


def form(seen: Seen, observations: Array, kinds: np.ndarray, places: int) -> Array:
    """Observations [..., D] in standard form, [..., D + 1].

    Args:
        seen: what is known of them.
        observations: as they are.
        kinds: which numbers are of one kind, [D].
        places: the pixels that a network sees at a time.
    """
    least = jnp.square(_ROUNDING * seen.mean) + _LEAST_VARIANCE
    varies = seen.variance > least
    variance = jnp.where(varies, seen.variance, 0.0)
    if len(set(kinds.tolist())) < len(kinds):
        of_kind = [jax.ops.segment_sum(x, kinds, int(kinds.max()) + 1)[kinds] for x in (variance, varies.astype(float))]
        variance = of_kind[0] / jnp.maximum(of_kind[1], 1.0)
    z = (observations - seen.mean) / jnp.sqrt(variance + least)
    one = jnp.ones((*z.shape[:-1], 1))
    return jnp.concatenate([_near(z), one], axis=-1) / jnp.sqrt(places * (jnp.sum(varies) + 1.0))


def kinds(spec: EnvSpec) -> np.ndarray:
    """Which numbers of a flat observation are of one kind, [D]: those of a table, or of a channel of an image."""
    shapes = [spec.observation_shape]
    if spec.parts is not None:
        shapes = [(part.size,) if part.choices else part.shape for part in spec.parts.taken]
    found, known = [], 0
    for shape in shapes:
        size = math.prod(shape)
        own = {0: 1, 1: size, 2: 1}.get(len(shape), shape[-1] if shape else 1)
        found.append(known + np.arange(size) % own)
        known += own
    return np.concatenate(found)


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
