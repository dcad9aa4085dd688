"""Time steps of compiled environments: the first of an episode, and the others."""

import jax.numpy as jnp

from tdu.types import Array, TimeStep


def first(observation: Array) -> TimeStep:
    """The first time step of an episode."""
    return TimeStep(observation, jnp.zeros(()), jnp.ones(()), jnp.zeros((), bool))


def following(observation: Array, reward: Array, terminated: Array, truncated: Array | None = None) -> TimeStep:
    """A later time step. Only termination sets the discount to 0: a truncated episode bootstraps."""
    discount = jnp.where(terminated, 0.0, 1.0)
    last = terminated if truncated is None else terminated | truncated
    return TimeStep(observation, jnp.asarray(reward, jnp.float32), discount, last)
