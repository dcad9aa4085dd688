"""Adam (Kingma and Ba, 2015) with a constant learning rate, written with one root and one division per weight.

optax.adam's step lr · m̂ / (√v̂ + ε) is the same number as lr·√c₂/c₁ · m / (√v + ε·√c₂), with c_i = 1 − b_i^t.
"""

from typing import Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from tdu.types import Array

P = TypeVar("P")


class AdamMoments(NamedTuple, Generic[P]):
    """Running means of the gradient and of its square, each a pytree like the parameters."""

    first: P
    second: P


class Adam(NamedTuple):
    """Adam's constants and its step (a `types.Optimiser`)."""

    learning_rate: float
    b1: float = 0.9
    b2: float = 0.999
    eps: float = 1e-8

    def init(self, params: P) -> AdamMoments[P]:
        """Moments before the first step."""
        return AdamMoments(jax.tree.map(jnp.zeros_like, params), jax.tree.map(jnp.zeros_like, params))

    def update(self, params: P, moments: AdamMoments[P], gradient: P, step: Array) -> tuple[P, AdamMoments[P]]:
        """Parameters and moments after step number `step`, counted from 1."""
        first = jax.tree.map(lambda m, g: self.b1 * m + (1 - self.b1) * g, moments.first, gradient)
        second = jax.tree.map(lambda v, g: self.b2 * v + (1 - self.b2) * jnp.square(g), moments.second, gradient)
        params = jax.tree.map(lambda w, m, v: w - move(self, m, v, step), params, first, second)
        return params, AdamMoments(first, second)


def move(adam: Adam, first: Array, second: Array, step: Array) -> Array:
    """What step number `step` subtracts from a weight with these moments."""
    root = jnp.sqrt(1 - power(adam.b2, step))
    return rate(adam, step) * first / (jnp.sqrt(second) + adam.eps * root)


def rate(adam: Adam, step: Array) -> Array:
    """lr·√c₂/c₁ of step number `step`."""
    return adam.learning_rate * jnp.sqrt(1 - power(adam.b2, step)) / (1 - power(adam.b1, step))


def power(base: float, exponent: Array) -> Array:
    """base^exponent for integer exponents."""
    return jnp.exp(exponent.astype(jnp.result_type(float)) * np.log(base))
