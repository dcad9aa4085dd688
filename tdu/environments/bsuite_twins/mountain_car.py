"""bsuite's `MountainCar` (Moore, 1990): a weak car must swing to leave a valley. Every step costs 1.

Positions are computed in single precision; bsuite uses double precision.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tdu.environments import time_steps
from tdu.types import Array, Environment, EnvSpec, Key, TimeStep

_LOWEST, _HIGHEST, _GOAL = -1.2, 0.6, 0.5
_FASTEST, _FORCE, _GRAVITY = 0.07, 0.001, 0.0025
_MOST_STEPS = 1000


class MountainCarState(NamedTuple):
    position: Array
    velocity: Array
    time: Array


def mountain_car() -> Environment:
    """Actions push left, not at all, or right. As in bsuite, the time limit terminates: its discount is 0."""
    times = jnp.asarray(np.arange(_MOST_STEPS + 1) / _MOST_STEPS, jnp.float32)

    def observe(state: MountainCarState) -> Array:
        return jnp.stack([state.position, state.velocity, times[state.time]])[None]

    def reset(key: Key) -> tuple[MountainCarState, TimeStep]:
        position = jax.random.uniform(key, minval=-0.6, maxval=-0.4)
        state = MountainCarState(position, jnp.zeros(()), jnp.zeros((), jnp.int32))
        return state, time_steps.first(observe(state))

    def step(state: MountainCarState, action: Array, key: Key) -> tuple[MountainCarState, TimeStep]:
        del key
        push = (action - 1) * _FORCE - jnp.cos(3 * state.position) * _GRAVITY
        velocity = jnp.clip(state.velocity + push, -_FASTEST, _FASTEST)
        position = jnp.clip(state.position + velocity, _LOWEST, _HIGHEST)
        velocity = jnp.where(position == jnp.float32(_LOWEST), jnp.maximum(velocity, 0.0), velocity)
        state = MountainCarState(position, velocity, state.time + 1)
        last = (position >= _GOAL) | (state.time >= _MOST_STEPS)
        return state, time_steps.following(observe(state), jnp.full((), -1.0), last)

    def info(state: MountainCarState) -> dict[str, Array]:
        return {"raw_return": -state.time}

    spec = EnvSpec("mountain_car", (1, 3), num_actions=3, info_names=("raw_return",))
    return Environment(spec, reset, step, info)
