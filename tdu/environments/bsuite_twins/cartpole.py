"""bsuite's `Cartpole` (Barto, Sutton and Anderson, 1983) and `CartpoleSwingup`, which share physics and clock.

Positions are computed in single precision; bsuite uses double precision. The clock is bsuite's: it adds 0.01 in double
precision, so an episode ends after 1001 steps, not after 1000.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tdu.environments import time_steps
from tdu.types import Array, Environment, EnvSpec, Key, TimeStep

EDGE = 3.0
"""|x| at the edge of the table, and the unit of observed positions."""
_INTERVAL, _TIME_LIMIT = 0.01, 10.0
_CART_MASS, _POLE_MASS, _POLE_LENGTH, _FORCE, _GRAVITY = 1.0, 0.1, 0.5, 10.0, 9.8
_BALANCED_HEIGHT, _START_NOISE = 0.8, 0.05
_SLOW, _MOVE_COST = 1.0, 0.1


class Pole(NamedTuple):
    x: Array
    x_dot: Array
    theta: Array
    """0 is upright. In [−π, π], because single precision is best near 0; bsuite uses [0, 2π)."""
    theta_dot: Array
    time: Array
    """Steps since the start."""


class CartpoleState(NamedTuple):
    pole: Pole
    balanced: Array
    """Number of rewarded steps."""


def clock() -> np.ndarray:
    """bsuite's time after each step in double precision, up to the first above the limit, [steps + 1]."""
    times = np.concatenate([[0.0], np.cumsum(np.full(2 * round(_TIME_LIMIT / _INTERVAL), _INTERVAL))])
    return times[: np.argmax(times > _TIME_LIMIT) + 1]


_CLOCK = clock()
MOST_STEPS = len(_CLOCK) - 1


def start(key: Key, theta: float) -> Pole:
    """A pole at `theta`, with small uniform noise on every coordinate."""
    draws = jax.random.uniform(key, (4,), minval=-_START_NOISE, maxval=_START_NOISE)
    return Pole(draws[0], draws[1], _wrapped(theta + draws[2]), draws[3], jnp.zeros((), jnp.int32))


def moved(pole: Pole, action: Array) -> Pole:
    """One Euler step with force (action − 1) · 10."""
    total_mass, pole_moment = _CART_MASS + _POLE_MASS, _POLE_MASS * _POLE_LENGTH
    cos, sin = jnp.cos(pole.theta), jnp.sin(pole.theta)
    push = ((action - 1) * _FORCE + pole_moment * pole.theta_dot**2 * sin) / total_mass
    theta_acc = (_GRAVITY * sin - cos * push) / (_POLE_LENGTH * (4 / 3 - _POLE_MASS * cos**2 / total_mass))
    x_acc = push - pole_moment * theta_acc * cos / total_mass
    return Pole(
        x=pole.x + _INTERVAL * pole.x_dot,
        x_dot=pole.x_dot + _INTERVAL * x_acc,
        theta=_wrapped(pole.theta + _INTERVAL * pole.theta_dot),
        theta_dot=pole.theta_dot + _INTERVAL * theta_acc,
        time=pole.time + 1,
    )


def observed(pole: Pole) -> Array:
    """bsuite's observation of a cart and its pole, [6]."""
    times = jnp.asarray(_CLOCK / _TIME_LIMIT, jnp.float32)
    angle = jnp.sin(pole.theta), jnp.cos(pole.theta)
    return jnp.stack([pole.x / EDGE, pole.x_dot / EDGE, *angle, pole.theta_dot, times[pole.time]])


def cartpole() -> Environment:
    """`Cartpole`: balance a pole. Every step pays 1, until the pole falls or the cart leaves the table."""

    def reset(key: Key) -> tuple[CartpoleState, TimeStep]:
        pole = start(key, 0.0)
        return CartpoleState(pole, jnp.zeros((), jnp.int32)), time_steps.first(observed(pole)[None])

    def step(state: CartpoleState, action: Array, _: Key) -> tuple[CartpoleState, TimeStep]:
        pole = moved(state.pole, action)
        balanced = (jnp.cos(pole.theta) > _BALANCED_HEIGHT) & (jnp.abs(pole.x) < EDGE)
        last = (pole.time == MOST_STEPS) | ~balanced
        after = time_steps.following(observed(pole)[None], balanced, last)
        return CartpoleState(pole, state.balanced + balanced), after

    def info(state: CartpoleState) -> dict[str, Array]:
        return {"raw_return": state.balanced, "best_episode": state.balanced}

    spec = EnvSpec("cartpole", (1, 6), num_actions=3, info_names=("raw_return", "best_episode"))
    return Environment(spec, reset, step, info)


def _wrapped(theta: Array) -> Array:
    return theta - 2 * jnp.pi * jnp.round(theta / (2 * jnp.pi))


class SwingupState(NamedTuple):
    pole: Pole
    upright: Array
    """Number of steps that paid 1."""
    moves: Array
    """Number of steps that cost 0.1."""


def cartpole_swingup(*, height_threshold: float, x_reward_threshold: float) -> Environment:
    """`CartpoleSwingup`: the pole hangs at first, moves cost 0.1, and an upright, slow and central pole pays 1.

    An episode ends when the cart leaves the table, not when the pole falls.
    """

    def near(pole: Pole) -> Array:
        return jnp.stack([jnp.abs(pole.x) < x_reward_threshold, jnp.abs(pole.theta_dot) < _SLOW])

    def observe(pole: Pole) -> Array:
        return jnp.concatenate([observed(pole), jnp.where(near(pole), 1.0, -1.0)])[None]

    def reset(key: Key) -> tuple[SwingupState, TimeStep]:
        pole, zero = start(key, jnp.pi), jnp.zeros((), jnp.int32)
        return SwingupState(pole, zero, zero), time_steps.first(observe(pole))

    def step(state: SwingupState, action: Array, _: Key) -> tuple[SwingupState, TimeStep]:
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
