"""Time steps of bsuite's environments: the discount is 0 at every end of an episode and 1 before."""

import jax.numpy as jnp

from tdu.types import Array, TimeStep


def first(observation: Array) -> TimeStep:
    """The beginning of an episode."""
    return TimeStep(observation, jnp.zeros(()), jnp.ones(()), jnp.zeros((), bool))


def following(observation: Array, reward: Array, last: Array) -> TimeStep:
    """A later step. An end is always a true end: bsuite's time limits do not bootstrap."""
    return TimeStep(observation, jnp.asarray(reward, jnp.float32), jnp.where(last, 0.0, 1.0), last)
