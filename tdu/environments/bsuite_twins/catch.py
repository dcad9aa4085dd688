"""bsuite's `Catch`: move a paddle in the lowest row under a falling ball."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from tdu.environments import time_steps
from tdu.types import Array, Environment, EnvSpec, Key, TimeStep

_ROWS, _COLUMNS = 10, 5


class CatchState(NamedTuple):
    ball_row: Array
    ball_column: Array
    paddle: Array
    """Its column."""
    regret: Array
    """2 once the ball is missed."""


def catch() -> Environment:
    """Actions are left, stay and right; the last step pays 1 or −1."""

    def observe(state: CatchState) -> Array:
        board = jnp.zeros((_ROWS, _COLUMNS))
        return board.at[state.ball_row, state.ball_column].set(1.0).at[_ROWS - 1, state.paddle].set(1.0)

    def reset(key: Key) -> tuple[CatchState, TimeStep]:
        zero = jnp.zeros((), jnp.int32)
        state = CatchState(zero, jax.random.randint(key, (), 0, _COLUMNS), zero + _COLUMNS // 2, zero)
        return state, time_steps.first(observe(state))

    def step(state: CatchState, action: Array, key: Key) -> tuple[CatchState, TimeStep]:
        del key
        ball_row, paddle = state.ball_row + 1, jnp.clip(state.paddle + action - 1, 0, _COLUMNS - 1)
        last = ball_row == _ROWS - 1
        caught = paddle == state.ball_column
        state = CatchState(ball_row, state.ball_column, paddle, jnp.where(last & ~caught, 2, 0))
        reward = jnp.where(last, jnp.where(caught, 1.0, -1.0), 0.0)
        return state, time_steps.following(observe(state), reward, last)

    spec = EnvSpec("catch", (_ROWS, _COLUMNS), num_actions=3, info_names=("total_regret",))
    return Environment(spec, reset, step, lambda state: {"total_regret": state.regret})
