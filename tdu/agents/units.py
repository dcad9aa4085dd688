"""What values are learned in units of, so that priors, bonus and step size fit rewards and returns of any size."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import jax.numpy as jnp

from tdu.types import Array, State, Transition

Kind = Literal["one", "largest", "returns"]


class Unit(NamedTuple):
    """In three verbs."""

    init: Callable[[], State]
    observe: Callable[[State, Transition], State]
    """observe(state, one step) -> state."""
    size: Callable[[State], Array]
    """size(state) -> how much of the environment's reward it is."""


class Met(NamedTuple):
    """Of the rewards so far."""

    largest: Array
    """The largest, without its sign."""
    lately: Array
    """Their sum up to now, those before discounted by γ a step; nothing is left of it where the task ends."""
    returns: Array
    """The largest such sum, without its sign."""


def make(kind: Kind, discount: float) -> Unit | None:
    """The unit of that kind; none for 1."""
    if kind == "one":
        return None
    if kind == "largest":
        return Unit(
            init=lambda: jnp.zeros(()),
            observe=lambda largest, step: jnp.maximum(largest, jnp.abs(step.r_t)),
            size=_of_rewards,
        )

    def observe(met: Met, step: Transition) -> Met:
        lately = discount * met.lately + step.r_t
        return Met(
            largest=jnp.maximum(met.largest, jnp.abs(step.r_t)),
            lately=step.d_t * lately,
            returns=jnp.maximum(met.returns, jnp.abs(lately)),
        )

    def size(met: Met) -> Array:
        ten, hundred = (met.returns >= times * met.largest for times in (10, 100))
        some = jnp.where(hundred, 100.0, jnp.where(ten, 10.0, 1.0))
        return jnp.where(met.largest > 0, some * _of_rewards(met.largest), 1.0)

    return Unit(lambda: Met(*(jnp.zeros(()) for _ in Met._fields)), observe, size)


def _of_rewards(largest: Array) -> Array:
    """The largest reward; 1 for all of about that size, so that they stay what they are."""
    return jnp.where((largest > _LARGE) | ((largest > 0) & (largest < 1 / _LARGE)), largest, 1.0)


_LARGE = 10.0
