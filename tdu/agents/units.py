"""What values are learned in units of, so that priors, bonus and step size fit rewards and returns of any size."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import jax.numpy as jnp

from tdu.options import MAX_ENVS
from tdu.types import Array, State, Transition

Kind = Literal["one", "largest", "returns"]


class Unit(NamedTuple):
    """What is kept of rewards, and what is made of it."""

    init: Callable[[], State]
    observe: Callable[[State, Transition], State]
    """observe(state, one step) -> state."""
    size: Callable[[State], Array]
    """size(state) -> how much of the environment's reward it is."""
    largest: Callable[[State], Array]
    """largest(state) -> the largest reward met, without its sign."""

    def change(self, before: State, after: State) -> Array:
        """What values are to be multiplied by so that they mean the same; those of no reward mean 0 in any unit."""
        return jnp.where(self.largest(before) > 0, self.size(before) / self.size(after), 1.0)


class Met(NamedTuple):
    """Of the rewards so far."""

    largest: Array
    """The largest, without its sign."""
    lately: Array
    """Their sum up to now in each environment, those before discounted by γ a step; where the task ends it begins anew."""
    returns: Array
    """The largest such sum, without its sign."""
    gain: Array
    """The largest reward above 0."""


def make(kind: Kind, discount: float) -> Unit | None:
    """The unit of that kind; none for 1."""
    if kind == "one":
        return None
    if kind == "largest":
        return Unit(
            init=lambda: jnp.zeros(()),
            observe=lambda largest, step: jnp.maximum(largest, jnp.abs(step.r_t)),
            size=_of_rewards,
            largest=lambda largest: largest,
        )

    def observe(met: Met, step: Transition) -> Met:
        row = step.extras["row"]
        lately = discount * met.lately[row] + step.r_t
        return Met(
            largest=jnp.maximum(met.largest, jnp.abs(step.r_t)),
            lately=met.lately.at[row].set(step.d_t * lately),
            returns=jnp.maximum(met.returns, jnp.abs(lately)),
            gain=jnp.maximum(met.gain, step.r_t),
        )

    def size(met: Met) -> Array:
        # Small costs do not make a task one of small rewards, nor do small rewards that add up: what is sought may be larger.
        is_small = (met.gain > 0) & (met.returns < 1 / _LARGE)
        one = jnp.where(is_small, _of_rewards(met.largest), jnp.maximum(_of_rewards(met.largest), 1.0))
        return one * jnp.where(met.returns >= 100 * one, 100.0, jnp.where(met.returns >= 10 * one, 10.0, 1.0))

    return Unit(
        init=lambda: Met(jnp.zeros(()), jnp.zeros(MAX_ENVS), jnp.zeros(()), jnp.zeros(())),
        observe=observe,
        size=size,
        largest=lambda met: met.largest,
    )


def _of_rewards(largest: Array) -> Array:
    """The largest reward; 1 for all of about that size, so that they stay what they are."""
    return jnp.where((largest > _LARGE) | ((largest > 0) & (largest < 1 / _LARGE)), largest, 1.0)


_LARGE = 10.0
