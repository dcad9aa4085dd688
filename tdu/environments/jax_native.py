"""Environments of other JAX libraries, compiled: gymnax, navix, Craftax and xminigrid. Each needs the extra of its name.

Time limits bootstrap. Grids of navix and xminigrid are observed as MiniGrid's are: one vector, bytes divided by 10.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Protocol

import jax
import jax.numpy as jnp

from tdu.environments import time_steps
from tdu.environments.adapter import GYM_EPISODES, Adapter, compiled, needs_extra
from tdu.environments.ids import EnvId
from tdu.environments.observations import carried_dtype
from tdu.environments.spaces import MINIGRID_BYTES
from tdu.errors import UserError, unknown
from tdu.options import build, option
from tdu.types import Array, Environment, EnvSpec, Key, State, TimeStep

_Started = tuple[State, Array]
_After = tuple[State, Array, Array, Array, Array]
"""State, observation, reward, terminated, truncated: a step in a library's own terms."""


def _environment(
    spec: EnvSpec, reset: Callable[[Key], _Started], step: Callable[[Key, State, Array], _After]
) -> Environment:
    """An environment from a library's functions, which take JAX's older keys: plain arrays, which a state may hold."""

    def begin(key: Key) -> tuple[State, TimeStep]:
        state, observation = reset(jax.random.key_data(key))
        return _strong(state), time_steps.first(jnp.asarray(observation, spec.dtype))

    def take(state: State, action: Array, key: Key) -> tuple[State, TimeStep]:
        state, observation, reward, *ends = step(jax.random.key_data(key), state, action)
        terminated, truncated = (jnp.asarray(end, bool) for end in ends)
        after = time_steps.following(jnp.asarray(observation, spec.dtype), reward, terminated, truncated)
        return _strong(state), after

    return Environment(spec._replace(default_episodes=GYM_EPISODES), begin, take, lambda state: {})


def _strong(state: State) -> State:
    """The state with fixed types. A loop on the device refuses numbers whose type depends on their use."""
    return jax.tree.map(lambda x: jnp.asarray(x, jnp.result_type(x)), state)


def _check(env_id: EnvId, names: Iterable[str]) -> None:
    if env_id.name not in names:
        raise unknown(f"{env_id.source} environment", env_id.name, names)


class _Gymnax(Protocol):
    def reset_env(self, key: Key, params: State, /) -> tuple[Array, State]: ...

    def step_env(
        self, key: Key, state: State, action: Array, params: State, /
    ) -> tuple[Array, State, Array, Array, object]: ...


def _of_gymnax(
    spec: EnvSpec, env: _Gymnax, params: State, ends: Callable[[State, Array], tuple[Array, Array]]
) -> Environment:
    """An environment with gymnax's methods; ends(state, done) -> terminated, truncated."""

    def reset(key: Key) -> _Started:
        observation, state = env.reset_env(key, params)
        return state, observation

    def step(key: Key, state: State, action: Array) -> _After:
        observation, state, reward, done, _ = env.step_env(key, state, action, params)
        return state, observation, reward, *ends(state, done)

    return _environment(spec, reset, step)


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
    return _of_gymnax(spec, env, params, lambda state, done: (done, env.is_truncated(state, params)))


def _craftax(env_id: EnvId) -> Environment:
    with needs_extra("craftax"):
        from craftax.craftax_env import make_craftax_env_from_name
    _check(env_id, ("Craftax-Classic-Symbolic-v1", "Craftax-Symbolic-v1"))
    env = make_craftax_env_from_name(env_id.name, auto_reset=False)
    params = env.default_params
    unlimited = params.replace(max_timesteps=2**31 - 1)

    def ends(state: State, done: Array) -> tuple[Array, Array]:
        terminated = env.is_terminal(state, unlimited)
        return terminated, done & ~terminated

    spec = EnvSpec(str(env_id), env.observation_space(params).shape, env.action_space(params).n)
    return _of_gymnax(spec, env, params, ends)


def _grid(
    env_id: EnvId,
    shape: tuple[int, ...],
    num_actions: int,
    *,
    reset: Callable[[Key], State],
    step: Callable[[State, Array], State],
    ends: Callable[[State], tuple[Array, Array]],
) -> Environment:
    """A grid whose state is a time step, which has its own key; ends(state) -> terminated, truncated."""

    def vector(state: State) -> Array:
        return state.observation.ravel() / jnp.float32(MINIGRID_BYTES)

    def begin(key: Key) -> _Started:
        state = reset(key)
        return state, vector(state)

    def take(_: Key, state: State, action: Array) -> _After:
        state = step(state, action)
        return state, vector(state), state.reward, *ends(state)

    return _environment(EnvSpec(str(env_id), (math.prod(shape),), num_actions), begin, take)


@dataclass(frozen=True)
class NavixSettings:
    """Settings of `navix:NAME`; the defaults are navix's."""

    max_steps: int = option(
        100, "Steps after which an episode is cut off; MiniGrid's DoorKey has 10 per cell.", minimum=1
    )
    observation: Literal["symbolic", "symbolic_first_person"] = option(
        "symbolic", "The whole grid, or the 7×7 cells before the agent."
    )


def _navix(env_id: EnvId) -> Environment:
    settings: NavixSettings = build(NavixSettings, env_id.options(), kind="a navix environment")
    with needs_extra("navix"):
        import navix
    _check(env_id, navix.registry())
    observe = getattr(navix.observations, settings.observation)
    env = navix.make(env_id.name, max_steps=settings.max_steps, observation_fn=observe)

    def reset(key: Key) -> State:
        first = env.reset(key)
        return first.replace(state=first.state.replace(cache=None))  # megabytes of pictures, which only pixels need

    return _grid(
        env_id,
        env.observation_space.shape,
        int(env.action_space.maximum) + 1,
        reset=reset,
        step=env._step,  # `step` would also compute a reset
        ends=lambda state: (state.is_termination(), state.is_truncation()),
    )


def _xminigrid(env_id: EnvId) -> Environment:
    with needs_extra("xminigrid"):
        import xminigrid
    _check(env_id, xminigrid.registered_environments())
    if env_id.name.startswith("XLand"):
        raise UserError(f"{env_id} has no goal without a ruleset; choose one of xminigrid's MiniGrid environments.")
    env, params = xminigrid.make(env_id.name)
    return _grid(
        env_id,
        env.observation_shape(params),
        env.num_actions(params),
        reset=lambda key: env.reset(params, key),
        step=lambda state, action: env.step(params, state, action),
        ends=lambda state: (state.discount == 0, state.last() & (state.discount != 0)),
    )


ADAPTERS = {
    source: Adapter(f"{source}:NAME", summary, f"{source}:{example}", compiled(lru_cache(maxsize=32)(load)))
    for source, load, example, summary in (
        ("gymnax", _gymnax, "Catch-bsuite", "a gymnax environment, compiled, e.g. gymnax:Breakout-MinAtar"),
        (
            "navix", _navix, "Navix-Empty-5x5-v0",
            "a navix environment (MiniGrid in JAX), compiled, e.g. navix:Navix-DoorKey-8x8-v0:max_steps=640",
        ),
        (
            "craftax", _craftax, "Craftax-Classic-Symbolic-v1",
            "Craftax-Classic-Symbolic-v1 or Craftax-Symbolic-v1, compiled",
        ),
        (
            "xminigrid", _xminigrid, "MiniGrid-Empty-5x5",
            "a MiniGrid environment of xminigrid, compiled, e.g. xminigrid:MiniGrid-DoorKey-5x5",
        ),
    )
}  # fmt: skip
