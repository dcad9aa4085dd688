"""bsuite's `UmbrellaChain`: the first action takes an umbrella or not, and the last step pays 1 if that was right, else −1.

Rewards in between are random, ±1. An observation is (needed, taken, time left, random bits).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tdu.environments import time_steps
from tdu.types import Array, Environment, EnvSpec, Key, TimeStep


class UmbrellaChainState(NamedTuple):
    needed: Array
    taken: Array
    """Random until the first action."""
    time: Array
    regret: Array
    """2 after a wrong choice."""


def umbrella_chain(*, chain_length: int, n_distractor: int) -> Environment:
    """Episodes of `chain_length` steps with `n_distractor` random bits in each observation."""
    times_left = jnp.asarray(1 - np.arange(chain_length + 1) / chain_length, jnp.float32)

    def observe(state: UmbrellaChainState, distractors: Array) -> Array:
        own = jnp.stack([state.needed.astype(jnp.float32), state.taken.astype(jnp.float32), times_left[state.time]])
        return jnp.concatenate([own, distractors.astype(jnp.float32)])[None]

    def reset(key: Key) -> tuple[UmbrellaChainState, TimeStep]:
        bits = _bits(key, 2 + n_distractor)
        zero = jnp.zeros((), jnp.int32)
        state = UmbrellaChainState(bits[0], bits[1], zero, zero)
        return state, time_steps.first(observe(state, bits[2:]))

    def step(state: UmbrellaChainState, action: Array, key: Key) -> tuple[UmbrellaChainState, TimeStep]:
        bits = _bits(key, 1 + n_distractor)
        taken = jnp.where(state.time == 0, action, state.taken).astype(jnp.int32)
        time = state.time + 1
        last, right = time == chain_length, taken == state.needed
        reward = jnp.where(last, jnp.where(right, 1.0, -1.0), 2.0 * bits[0] - 1.0)
        state = UmbrellaChainState(state.needed, taken, time, jnp.where(last & ~right, 2, 0))
        return state, time_steps.following(observe(state, bits[1:]), reward, last)

    spec = EnvSpec("umbrella_chain", (1, 3 + n_distractor), num_actions=2, info_names=("total_regret",))
    return Environment(spec, reset, step, lambda state: {"total_regret": state.regret})


def _bits(key: Key, count: int) -> Array:
    return jax.random.bernoulli(key, 0.5, (count,)).astype(jnp.int32)
