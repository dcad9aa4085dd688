"""bsuite's `Cartpole`, and the physics and clock that its swing-up shares (Barto, Sutton and Anderson, 1983).

Positions are computed in single precision; bsuite uses double precision. The clock is bsuite's own: it adds 0.01 in double
precision, which ends an episode after 1001 steps and not after 1000.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tdu.environments import time_steps
from tdu.types import Array, Environment, EnvSpec, Key, TimeStep

EDGE = 3.0
"""|x| at which the table ends; positions are observed in units of it."""
_INTERVAL, _MOST_TIME = 0.01, 10.0
_CART_MASS, _POLE_MASS, _POLE_LENGTH, _FORCE, _GRAVITY = 1.0, 0.1, 0.5, 10.0, 9.8
_BALANCED_HEIGHT = 0.8
_START_RANGE = 0.05


class Pole(NamedTuple):
    """A cart and its pole."""

    x: Array
    x_dot: Array
    theta: Array
    """0 is upright; in [−π, π], where single precision is best around 0. bsuite's is in [0, 2π): the same angle."""
    theta_dot: Array
    time: Array
    """Steps since the beginning."""


class CartpoleState(NamedTuple):
    pole: Pole
    balanced: Array
    """Steps that were rewarded."""


def clock() -> np.ndarray:
    """bsuite's time after each step in double precision, up to the first that is too late, [steps + 1]."""
    times = np.concatenate([[0.0], np.cumsum(np.full(2 * round(_MOST_TIME / _INTERVAL), _INTERVAL))])
    return times[: np.argmax(times > _MOST_TIME) + 1]


_CLOCK = clock()
MOST_STEPS = len(_CLOCK) - 1


def start(key: Key, theta: float) -> Pole:
    """A pole at `theta`; every coordinate is moved by a small uniform draw."""
    draws = jax.random.uniform(key, (4,), minval=-_START_RANGE, maxval=_START_RANGE)
    return Pole(draws[0], draws[1], _wrapped(theta + draws[2]), draws[3], jnp.zeros((), jnp.int32))


def moved(pole: Pole, action: Array) -> Pole:
    """One Euler step; the force is that of action − 1."""
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
    times = jnp.asarray(_CLOCK / _MOST_TIME, jnp.float32)
    angle = jnp.sin(pole.theta), jnp.cos(pole.theta)
    return jnp.stack([pole.x / EDGE, pole.x_dot / EDGE, *angle, pole.theta_dot, times[pole.time]])


def cartpole() -> Environment:
    """Balance a pole. Every step pays 1; the one in which the pole falls or the cart leaves the table pays 0."""

    def reset(key: Key) -> tuple[CartpoleState, TimeStep]:
        pole = start(key, 0.0)
        return CartpoleState(pole, jnp.zeros((), jnp.int32)), time_steps.first(observed(pole)[None])

    def step(state: CartpoleState, action: Array, key: Key) -> tuple[CartpoleState, TimeStep]:
        del key
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
