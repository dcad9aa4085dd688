"""bsuite's `MemoryChain`: bits are shown once, and `memory_length` steps later the agent must recall one of them.

An observation is (time left, index of the queried bit, the bits). As in bsuite, the first step repeats the first observation,
so an episode has `memory_length` + 1 steps.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tdu.environments import time_steps
from tdu.types import Array, Environment, EnvSpec, Key, TimeStep


class MemoryChainState(NamedTuple):
    bits: Array
    """0 or 1, [num_bits]."""
    query: Array
    """Index of the queried bit."""
    time: Array
    perfect: Array
    """1 after a correct answer."""
    regret: Array
    """2 after a wrong answer."""


def memory_chain(*, memory_length: int, num_bits: int) -> Environment:
    """Only the last action counts: it pays 1 or −1."""
    times_left = jnp.asarray(1 - np.arange(memory_length + 1) / memory_length, jnp.float32)

    def observe(state: MemoryChainState) -> Array:
        query = jnp.where(state.time == memory_length - 1, state.query, 0).astype(jnp.float32)
        bits = jnp.where(state.time == 0, 2.0 * state.bits - 1.0, 0.0)
        return jnp.concatenate([jnp.stack([times_left[state.time], query]), bits])[None]

    def reset(key: Key) -> tuple[MemoryChainState, TimeStep]:
        key_bits, key_query = jax.random.split(key)
        bits = jax.random.bernoulli(key_bits, 0.5, (num_bits,)).astype(jnp.int32)
        zero = jnp.zeros((), jnp.int32)
        state = MemoryChainState(bits, jax.random.randint(key_query, (), 0, num_bits), zero, zero, zero)
        return state, time_steps.first(observe(state))

    def step(state: MemoryChainState, action: Array, key: Key) -> tuple[MemoryChainState, TimeStep]:
        del key
        last = state.time == memory_length
        right = action == state.bits[state.query]
        reward = jnp.where(last, jnp.where(right, 1.0, -1.0), 0.0)
        after = time_steps.following(observe(state), reward, last)
        counts = {"perfect": jnp.where(last & right, 1, 0), "regret": jnp.where(last & ~right, 2, 0)}
        return state._replace(time=state.time + 1, **counts), after

    def info(state: MemoryChainState) -> dict[str, Array]:
        return {"total_perfect": state.perfect, "total_regret": state.regret}

    spec = EnvSpec("memory_chain", (1, num_bits + 2), num_actions=2, info_names=("total_perfect", "total_regret"))
    return Environment(spec, reset, step, info)
