"""Environments of other JAX libraries, compiled: gymnax, navix, Craftax and xminigrid. Each needs the extra of its name.

Time limits bootstrap. Grids of navix and xminigrid are observed as MiniGrid's are (`parts`): one vector, bytes divided by 10.
"""

import math
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tdu.environments import time_steps
from tdu.environments.adapter import Adapter, compiled, needs_extra
from tdu.environments.ids import EnvId
from tdu.environments.observations import carried_dtype
from tdu.environments.settings import GYM_EPISODES, NavixSettings
from tdu.environments.spaces import MINIGRID_BYTES
from tdu.errors import UserError, unknown
from tdu.options import build
from tdu.types import Array, Environment, EnvSpec, Key, State, TimeStep


class _After(NamedTuple):
    """The result of a step in a library's own terms."""

    state: State
    observation: Array
    reward: Array
    terminated: Array
    truncated: Array


def _environment(
    spec: EnvSpec, reset: Callable[[Key], tuple[State, Array]], step: Callable[[Key, State, Array], _After]
) -> Environment:
    """An environment from a library's functions, which take JAX's older keys: plain arrays, which a state may hold."""

    def begin(key: Key) -> tuple[State, TimeStep]:
        state, observation = reset(jax.random.key_data(key))
        return _strong(state), time_steps.first(jnp.asarray(observation, spec.dtype))

    def take(state: State, action: Array, key: Key) -> tuple[State, TimeStep]:
        after = step(jax.random.key_data(key), state, action)
        ends = jnp.asarray(after.terminated, bool), jnp.asarray(after.truncated, bool)
        observation = jnp.asarray(after.observation, spec.dtype)
        return _strong(after.state), time_steps.following(observation, after.reward, *ends)

    return Environment(spec._replace(default_episodes=GYM_EPISODES), begin, take, lambda state: {})


def _strong(state: State) -> State:
    """The state with fixed types. A loop on the device refuses numbers whose type depends on their use."""
    return jax.tree.map(lambda x: jnp.asarray(x, jnp.result_type(x)), state)


def _check(env_id: EnvId, names: Iterable[str]) -> None:
    if env_id.name not in names:
        raise unknown(f"{env_id.source} environment", env_id.name, names)


@lru_cache(maxsize=32)
def _gymnax(env_id: EnvId) -> Environment:
    with needs_extra("gymnax"):
        import gymnax
    _check(env_id, gymnax.registered_envs)
    try:
        env, params = gymnax.make(env_id.name)
    except (ImportError, NotImplementedError, ValueError) as e:
        raise UserError(f"gymnax cannot make '{env_id.name}': {' '.join(str(e).split()).rstrip('.')}.") from None
    actions, observations = env.action_space(params), env.observation_space(params)
    if type(actions).__name__ != "Discrete":
        raise UserError(f"{env_id} does not have discrete actions; only those are supported.")
    discrete = type(observations).__name__ == "Discrete"
    if not discrete and type(observations).__name__ != "Box":
        raise UserError(f"{env_id} does not observe a single array; only arrays are supported.")
    spec = EnvSpec(
        name=str(env_id),
        observation_shape=() if discrete else tuple(observations.shape),
        num_actions=int(actions.n),
        num_states=int(observations.n) if discrete else None,
        dtype="int32" if discrete else carried_dtype(getattr(observations, "dtype", None)),
    )

    def reset(key: Key) -> tuple[State, Array]:
        observation, state = env.reset_env(key, params)
        return state, observation

    def step(key: Key, state: State, action: Array) -> _After:
        observation, state, reward, terminated, _ = env.step_env(key, state, action, params)
        return _After(state, observation, reward, terminated, env.is_truncated(state, params))

    return _environment(spec, reset, step)


@lru_cache(maxsize=32)
def _craftax(env_id: EnvId) -> Environment:
    with needs_extra("craftax"):
        from craftax.craftax_env import make_craftax_env_from_name
    _check(env_id, ("Craftax-Classic-Symbolic-v1", "Craftax-Symbolic-v1"))
    env = make_craftax_env_from_name(env_id.name, auto_reset=False)
    params = env.default_params
    unlimited = params.replace(max_timesteps=2**31 - 1)
    spec = EnvSpec(
        name=str(env_id), observation_shape=env.observation_space(params).shape, num_actions=env.action_space(params).n
    )

    def reset(key: Key) -> tuple[State, Array]:
        observation, state = env.reset_env(key, params)
        return state, observation

    def step(key: Key, state: State, action: Array) -> _After:
        observation, state, reward, done, _ = env.step_env(key, state, action, params)
        terminated = env.is_terminal(state, unlimited)
        return _After(state, observation, reward, terminated, done & ~terminated)

    return _environment(spec, reset, step)


@lru_cache(maxsize=32)
def _navix(env_id: EnvId) -> Environment:
    settings: NavixSettings = build(NavixSettings, env_id.options(), kind="a navix environment")
    with needs_extra("navix"):
        import navix
    _check(env_id, navix.registry())
    observe = getattr(navix.observations, settings.observation)
    env = navix.make(env_id.name, max_steps=settings.max_steps, observation_fn=observe)
    spec = _grid_spec(env_id, env.observation_space.shape, int(env.action_space.maximum) + 1)

    def without_pictures(moment: State) -> State:
        return moment.replace(state=moment.state.replace(cache=None))  # megabytes, which only pixels need

    def reset(key: Key) -> tuple[State, Array]:
        first = env.reset(key)
        return without_pictures(first), _vector(first.observation)

    def step(_: Key, state: State, action: Array) -> _After:
        after = env._step(state, action)  # `step` would also compute a reset
        return _After(after, _vector(after.observation), after.reward, after.is_termination(), after.is_truncation())

    return _environment(spec, reset, step)


@lru_cache(maxsize=32)
def _xminigrid(env_id: EnvId) -> Environment:
    with needs_extra("xminigrid"):
        import xminigrid
    _check(env_id, xminigrid.registered_environments())
    if env_id.name.startswith("XLand"):
        raise UserError(f"{env_id} has no goal without a ruleset; choose one of xminigrid's MiniGrid environments.")
    env, params = xminigrid.make(env_id.name)
    spec = _grid_spec(env_id, env.observation_shape(params), env.num_actions(params))

    def reset(key: Key) -> tuple[State, Array]:
        first = env.reset(params, key)
        return first, _vector(first.observation)

    def step(_: Key, state: State, action: Array) -> _After:
        after = env.step(params, state, action)
        terminated = after.discount == 0
        return _After(after, _vector(after.observation), after.reward, terminated, after.last() & ~terminated)

    return _environment(spec, reset, step)


def _grid_spec(env_id: EnvId, shape: tuple[int, ...], num_actions: int) -> EnvSpec:
    return EnvSpec(name=str(env_id), observation_shape=(math.prod(shape),), num_actions=num_actions)


def _vector(grid: Array) -> Array:
    return grid.ravel() / jnp.float32(MINIGRID_BYTES)


ADAPTERS = {
    "gymnax": Adapter(
        "gymnax:NAME",
        "a gymnax environment, compiled, e.g. gymnax:Breakout-MinAtar",
        "gymnax:Catch-bsuite",
        compiled(_gymnax),
    ),
    "navix": Adapter(
        "navix:NAME",
        "a navix environment (MiniGrid in JAX), compiled, e.g. navix:Navix-DoorKey-8x8-v0:max_steps=640",
        "navix:Navix-Empty-5x5-v0",
        compiled(_navix),
    ),
    "craftax": Adapter(
        "craftax:NAME",
        "Craftax-Classic-Symbolic-v1 or Craftax-Symbolic-v1, compiled",
        "craftax:Craftax-Classic-Symbolic-v1",
        compiled(_craftax),
    ),
    "xminigrid": Adapter(
        "xminigrid:NAME",
        "a MiniGrid environment of xminigrid, compiled, e.g. xminigrid:MiniGrid-DoorKey-5x5",
        "xminigrid:MiniGrid-Empty-5x5",
        compiled(_xminigrid),
    ),
}
