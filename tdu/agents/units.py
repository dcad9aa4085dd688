"""The unit in which values are learned (`reward_unit`), so that priors, bonus and learning rate fit rewards of any size."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp

from tdu.agents.config import RewardUnit
from tdu.options import MAX_ENVS
from tdu.types import Array, State, Transition


class Unit(NamedTuple):
    """Statistics of the rewards seen, and the unit that follows from them."""

    init: Callable[[], State]
    observe: Callable[[State, Transition], State]
    """observe(state, one step) -> state."""
    size: Callable[[State], Array | float]
    """size(state) -> the unit, in the environment's rewards."""
    largest: Callable[[State], Array]
    """largest(state) -> the largest |r| seen."""

    def change(self, before: State, after: State) -> Array:
        """Factor that converts learned values to the new unit; 1 before the first reward that is not 0."""
        return jnp.where(self.largest(before) > 0, self.size(before) / self.size(after), 1.0)


class RewardStatistics(NamedTuple):
    largest: Array
    """Largest |r|."""
    traces: Array
    """Discounted sum of past rewards in each environment; 0 after the task ends."""
    returns: Array
    """Largest absolute value of such a sum."""
    gain: Array
    """Largest reward above 0."""


def make(kind: RewardUnit, discount: float) -> Unit:
    if kind == "one":
        return Unit(init=tuple, observe=lambda nothing, _: nothing, size=lambda _: 1.0, largest=lambda _: jnp.ones(()))
    if kind == "largest":
        return Unit(
            init=lambda: jnp.zeros(()),
            observe=lambda largest, step: jnp.maximum(largest, jnp.abs(step.r_t)),
            size=_reward_size,
            largest=lambda largest: largest,
        )

    def observe(seen: RewardStatistics, step: Transition) -> RewardStatistics:
        row = step.extras["row"]
        trace = discount * seen.traces[row] + step.r_t
        return RewardStatistics(
            largest=jnp.maximum(seen.largest, jnp.abs(step.r_t)),
            traces=seen.traces.at[row].set(step.d_t * trace),
            returns=jnp.maximum(seen.returns, jnp.abs(trace)),
            gain=jnp.maximum(seen.gain, step.r_t),
        )

    def size(seen: RewardStatistics) -> Array:
        # The unit is below 1 only if returns are small and some reward is positive: after costs alone, the goal's reward may
        # still be larger.
        is_small = (seen.gain > 0) & (seen.returns < 1 / _LARGE)
        one = jnp.where(is_small, _reward_size(seen.largest), jnp.maximum(_reward_size(seen.largest), 1.0))
        return one * jnp.where(seen.returns >= 100 * one, 100.0, jnp.where(seen.returns >= 10 * one, 10.0, 1.0))

    return Unit(
        init=lambda: RewardStatistics(jnp.zeros(()), jnp.zeros(MAX_ENVS), jnp.zeros(()), jnp.zeros(())),
        observe=observe,
        size=size,
        largest=lambda seen: seen.largest,
    )


def _reward_size(largest: Array) -> Array:
    """The largest |r|; 1 where it is between 0.1 and 10, so that common rewards are unchanged."""
    return jnp.where((largest > _LARGE) | ((largest > 0) & (largest < 1 / _LARGE)), largest, 1.0)


_LARGE = 10.0
