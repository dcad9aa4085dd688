"""gymnax's environments, compiled. Needs the extra `gymnax`."""

from functools import lru_cache

import jax.numpy as jnp

from tdu.environments import time_steps
from tdu.environments.adapter import Adapter, compiled, needs_extra, plain_key
from tdu.environments.observations import carried_dtype
from tdu.environments.settings import GYM_EPISODES
from tdu.errors import UserError, unknown
from tdu.types import Array, Environment, EnvSpec, Key, State, TimeStep


@lru_cache(maxsize=32)
def load(name: str) -> Environment:
    """The environment of a gymnax name, for example Breakout-MinAtar. Time limits bootstrap."""
    with needs_extra("gymnax"):
        import gymnax
    if name not in gymnax.registered_envs:
        raise unknown("gymnax environment", name, gymnax.registered_envs)
    try:
        env, params = gymnax.make(name)
    except (ImportError, NotImplementedError, ValueError) as e:
        raise UserError(f"gymnax cannot make '{name}': {' '.join(str(e).split()).rstrip('.')}.") from None
    actions, observations = env.action_space(params), env.observation_space(params)
    if type(actions).__name__ != "Discrete":
        raise UserError(f"gymnax:{name} does not have discrete actions; only those are supported.")
    discrete = type(observations).__name__ == "Discrete"
    if not discrete and type(observations).__name__ != "Box":
        raise UserError(f"gymnax:{name} does not observe a single array; only arrays are supported.")
    spec = EnvSpec(
        name=f"gymnax:{name}",
        observation_shape=() if discrete else tuple(observations.shape),
        num_actions=int(actions.n),
        num_states=int(observations.n) if discrete else None,
        dtype=carried_dtype(getattr(observations, "dtype", None)),
        default_episodes=GYM_EPISODES,
    )
    dtype = spec.carried_dtype

    def reset(key: Key) -> tuple[State, TimeStep]:
        observation, state = env.reset_env(plain_key(key), params)
        return state, time_steps.first(jnp.asarray(observation, dtype))

    def step(state: State, action: Array, key: Key) -> tuple[State, TimeStep]:
        observation, state, reward, terminated, _ = env.step_env(plain_key(key), state, action, params)
        ends = jnp.asarray(terminated, bool), jnp.asarray(env.is_truncated(state, params), bool)
        return state, time_steps.following(jnp.asarray(observation, dtype), reward, *ends)

    return Environment(spec, reset, step, lambda state: {})


ADAPTER = Adapter(
    "gymnax:NAME",
    "a gymnax environment, compiled, e.g. gymnax:Breakout-MinAtar",
    "gymnax:Catch-bsuite",
    compiled(lambda env_id: load(env_id.name)),
)
