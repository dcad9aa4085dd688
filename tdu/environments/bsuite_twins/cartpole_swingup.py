"""bsuite's `CartpoleSwingup`: the pole hangs at first, moves cost 0.1, and an upright, slow and central pole pays 1."""

from typing import NamedTuple

import jax.numpy as jnp

from tdu.environments import time_steps
from tdu.environments.bsuite_twins.cartpole import EDGE, MOST_STEPS, Pole, moved, observed, start
from tdu.types import Array, Environment, EnvSpec, Key, TimeStep

_SLOW, _MOVE_COST = 1.0, 0.1


class SwingupState(NamedTuple):
    pole: Pole
    upright: Array
    """Number of steps that paid 1."""
    moves: Array
    """Number of steps that cost 0.1."""


def cartpole_swingup(*, height_threshold: float, x_reward_threshold: float) -> Environment:
    """An episode ends when the cart leaves the table, not when the pole falls."""

    def near(pole: Pole) -> Array:
        return jnp.stack([jnp.abs(pole.x) < x_reward_threshold, jnp.abs(pole.theta_dot) < _SLOW])

    def observe(pole: Pole) -> Array:
        return jnp.concatenate([observed(pole), jnp.where(near(pole), 1.0, -1.0)])[None]

    def reset(key: Key) -> tuple[SwingupState, TimeStep]:
        pole, zero = start(key, jnp.pi), jnp.zeros((), jnp.int32)
        return SwingupState(pole, zero, zero), time_steps.first(observe(pole))

    def step(state: SwingupState, action: Array, key: Key) -> tuple[SwingupState, TimeStep]:
        del key
        pole = moved(state.pole, action)
        upright = (jnp.cos(pole.theta) > height_threshold) & near(pole).all()
        moves = action != 1
        last = (pole.time == MOST_STEPS) | (jnp.abs(pole.x) > EDGE)
        reward = jnp.where(upright, 1.0, 0.0) - jnp.where(moves, _MOVE_COST, 0.0)
        state = SwingupState(pole, state.upright + upright, state.moves + moves)
        return state, time_steps.following(observe(pole), reward, last)

    def info(state: SwingupState) -> dict[str, Array]:
        earned = state.upright - _MOVE_COST * state.moves
        return {"raw_return": earned, "total_upright": state.upright, "best_episode": earned}

    names = ("raw_return", "total_upright", "best_episode")
    return Environment(EnvSpec("cartpole_swingup", (1, 8), num_actions=3, info_names=names), reset, step, info)
