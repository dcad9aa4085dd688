"""Key and door: a small task with cycles. Deep Sea and the Binary Tree have none.

An N × N grid. The agent starts in the upper left corner. The key is in the upper right corner, the door in the lower left. A
move goes one cell up, down, left or right and stops at walls. With probability `slip` a different move happens. Reaching the
door with the key pays 1 and ends the episode; there is no other reward. After `limit` steps the episode is truncated.

A random walk opens the door in 2.3 % of episodes on the 5 × 5 grid with 40 steps, in 0.4 % on 8 × 8 with 80, and in 0.03 %
on 12 × 12 with 120.
"""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from tdu.environments import time_steps
from tdu.types import Array, Environment, EnvSpec, Key, TimeStep

Observation = Literal["one_hot", "features", "image"]

MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))
"""Up, down, left, right."""


class KeyDoorState(NamedTuple):
    row: Array
    column: Array
    has_key: Array
    time: Array


def key_door(size: int, *, limit: int, observation: Observation, slip: float) -> Environment:
    """A grid of `size` × `size` with at most `limit` steps per episode."""
    states = 2 * size * size
    spec = EnvSpec(
        name=f"key_door:size={size},limit={limit},observation={observation},slip={slip}",
        observation_shape={"one_hot": (2, size, size), "features": (3,), "image": (size, size, 3)}[observation],
        num_actions=len(MOVES),
        num_states=states if observation == "one_hot" else None,
        default_episodes=3000,
        info_names=("total_goals",),
    )
    moves = jnp.asarray(MOVES, jnp.int32)
    far = size - 1

    def observe(state: KeyDoorState) -> Array:
        cell = state.row * size + state.column
        if observation == "one_hot":
            return (state.has_key * size * size + cell).astype(jnp.int32)
        if observation == "features":
            numbers = jnp.stack([state.row / far, state.column / far, state.has_key.astype(jnp.float32)])
            return (2 * numbers - 1).astype(jnp.float32)
        agent = jnp.arange(size * size) == cell
        key = (jnp.arange(size * size) == far) & ~state.has_key
        door = jnp.arange(size * size) == far * size
        return jnp.stack([agent, key, door], axis=-1).reshape(size, size, 3).astype(jnp.float32)

    def reset(_: Key) -> tuple[KeyDoorState, TimeStep]:
        zero = jnp.zeros((), jnp.int32)
        state = KeyDoorState(zero, zero, jnp.zeros((), bool), zero)
        return state, time_steps.first(observe(state))

    def step(state: KeyDoorState, action: Array, key: Key) -> tuple[KeyDoorState, TimeStep]:
        if slip:
            key_slip, key_other = jax.random.split(key)
            other = (action + jax.random.randint(key_other, (), 1, len(MOVES))) % len(MOVES)
            action = jnp.where(jax.random.uniform(key_slip) < slip, other, action)
        row, column = jnp.clip(jnp.stack([state.row, state.column]) + moves[action], 0, far)
        has_key = state.has_key | ((row == 0) & (column == far))
        state = KeyDoorState(row, column, has_key, state.time + 1)
        opened = _opened(state, far)
        return state, time_steps.following(observe(state), opened, opened, state.time >= limit)

    def info(state: KeyDoorState) -> dict[str, Array]:
        return {"total_goals": _opened(state, far).astype(jnp.int32)}

    return Environment(spec, reset, step, info)


def _opened(state: KeyDoorState, far: int) -> Array:
    return state.has_key & (state.row == far) & (state.column == 0)
