"""bsuite's `DiscountingChain`: the first action chooses when the reward is paid, after 1, 3, 10, 30 or 100 steps.

One of the five rewards is 1.1, the others are 1.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from tdu.environments import time_steps
from tdu.types import Array, Environment, EnvSpec, Key, TimeStep

_REWARD_STEPS = (1, 3, 10, 30, 100)
_LENGTH = 100


class DiscountingChainState(NamedTuple):
    context: Array
    """The first action; −1 before it."""
    time: Array


def discounting_chain(*, mapping_seed: int) -> Environment:
    """Episodes of 100 steps."""
    chains = len(_REWARD_STEPS)
    rewards = jnp.ones(chains).at[mapping_seed % chains].set(1.1)
    reward_steps = jnp.asarray(_REWARD_STEPS, jnp.int32)
    times = jnp.asarray(np.arange(_LENGTH + 1) / _LENGTH, jnp.float32)

    def observe(state: DiscountingChainState) -> Array:
        return jnp.stack([state.context.astype(jnp.float32), times[state.time]])[None]

    def reset(key: Key) -> tuple[DiscountingChainState, TimeStep]:
        del key
        state = DiscountingChainState(jnp.full((), -1, jnp.int32), jnp.zeros((), jnp.int32))
        return state, time_steps.first(observe(state))

    def step(state: DiscountingChainState, action: Array, key: Key) -> tuple[DiscountingChainState, TimeStep]:
        del key
        context = jnp.where(state.time == 0, action, state.context).astype(jnp.int32)
        state = DiscountingChainState(context, state.time + 1)
        reward = jnp.where(state.time == reward_steps[context], rewards[context], 0.0)
        return state, time_steps.following(observe(state), reward, state.time == _LENGTH)

    spec = EnvSpec("discounting_chain", (1, 2), num_actions=chains)
    return Environment(spec, reset, step, lambda state: {})
