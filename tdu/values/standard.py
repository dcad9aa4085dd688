"""Observations and priors in standard form, for an ensemble whose observations are not one-hot.

What the settings of an ensemble mean, the scale of its priors and its step size, was found on one-hot observations: of length
1, and no two alike. Others are brought near that by running means over the batches learned from. Every number of an
observation gets mean 0 and deviation 1, and the whole is divided by √fan_in, so that its length is about 1. Priors are
multiplied by √fan_in again, so that they are of one size however many numbers an observation has, and their mean is taken
off: otherwise a head would prefer one action nearly everywhere.
"""

from typing import NamedTuple

import jax.numpy as jnp

from tdu.types import Array


class Seen(NamedTuple):
    """Running means over what was learned from."""

    mean: Array
    """Of each number of an observation, or of each channel of an image."""
    variance: Array
    """Of the same."""
    prior: Array
    """Of each head's prior of each action, [H, A]."""


def nothing(numbers: int, heads: int, actions: int) -> Seen:
    """Before the first batch: everything stays as it is."""
    return Seen(jnp.zeros(numbers), jnp.ones(numbers), jnp.zeros((heads, actions)))


def observation(seen: Seen, numbers: Array, fan_in: int) -> Array:
    """Numbers [..., D] of observations, or images [..., C], in standard form."""
    deviation = jnp.sqrt(seen.variance + jnp.square(_ROUNDING * seen.mean) + _LEAST_VARIANCE)
    return jnp.clip((numbers - seen.mean) / deviation, -_FAR, _FAR) / fan_in**0.5


def prior(seen: Seen, priors: Array, fan_in: int) -> Array:
    """Priors of every head, [H, B, A] or [H, A], in standard form."""
    mean = seen.prior if priors.ndim == seen.prior.ndim else seen.prior[:, None]
    return (priors - mean) * fan_in**0.5


def of_head(seen: Seen, head: Array) -> Seen:
    """What one head needs of it."""
    return seen._replace(prior=seen.prior[head])


def observations_met(seen: Seen, numbers: Array, step: Array) -> Seen:
    """With one more batch of observations, after `step` of them."""
    over, rate = tuple(range(numbers.ndim - 1)), _rate(step)
    away = jnp.mean(numbers, over) - seen.mean
    within = (1 - rate) * seen.variance + rate * jnp.var(numbers, over)
    return seen._replace(mean=seen.mean + rate * away, variance=within + rate * (1 - rate) * jnp.square(away))


def priors_met(seen: Seen, priors: Array, step: Array) -> Seen:
    """With one more batch of priors [H, B, A]."""
    return seen._replace(prior=seen.prior + _rate(step) * (jnp.mean(priors, axis=1) - seen.prior))


def _rate(step: Array) -> Array:
    """Every batch counts alike at first; later the last ten thousand do."""
    return jnp.maximum(1 / (step + 1.0), _SLOWEST)


_SLOWEST = 1e-4
_FAR = 10.0
"""Nothing is further from the mean, in deviations."""
_ROUNDING = 1e-4
"""A number that varies by less of its mean does not vary."""
_LEAST_VARIANCE = 1e-12
