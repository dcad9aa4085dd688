"""gymnax's environments, compiled. Needs the extra `gymnax`."""

from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp

from tdu.environments.observations import carried_dtype
from tdu.environments.settings import GYM_EPISODES
from tdu.errors import UserError, unknown
from tdu.types import Array, Environment, EnvSpec, Key, TimeStep


@lru_cache(maxsize=32)
def load(name: str) -> Environment:
    """The environment of a gymnax name, for example Breakout-MinAtar; a time limit bootstraps."""
    try:
        import gymnax
    except ModuleNotFoundError as e:
        raise UserError(
            f"this environment needs the extra 'gymnax' ({e.name} is missing): pip install 'tdu[gymnax]'."
        ) from None
    if name not in gymnax.registered_envs:
        raise unknown("gymnax environment", name, gymnax.registered_envs)
    try:
        env, params = gymnax.make(name)
    except (ImportError, NotImplementedError, ValueError) as e:
        raise UserError(f"gymnax cannot make '{name}': {' '.join(str(e).split()).rstrip('.')}.") from None
    actions, observations = env.action_space(params), env.observation_space(params)
    if type(actions).__name__ != "Discrete":
        raise UserError(f"gymnax:{name} does not have discrete actions, and only those are supported.")
    discrete = type(observations).__name__ == "Discrete"
    if not discrete and type(observations).__name__ != "Box":
        raise UserError(f"gymnax:{name} has no single array as its observation, which no agent here can take.")
    spec = EnvSpec(
        name=f"gymnax:{name}",
        observation_shape=() if discrete else tuple(observations.shape),
        num_actions=int(actions.n),
        num_states=int(observations.n) if discrete else None,
        dtype=carried_dtype(getattr(observations, "dtype", None)),
        default_episodes=GYM_EPISODES,
    )
    dtype = spec.carried_dtype

    def reset(key: Key) -> tuple[Any, TimeStep]:
        observation, state = env.reset_env(_plain(key), params)
        number = jnp.zeros(())
        return state, TimeStep(jnp.asarray(observation, dtype), number, number + 1, jnp.zeros((), bool))

    def step(state: Any, action: Array, key: Key) -> tuple[Any, TimeStep]:
        observation, state, reward, terminated, _ = env.step_env(_plain(key), state, action, params)
        last = jnp.asarray(terminated, bool) | jnp.asarray(env.is_truncated(state, params), bool)
        discount = 1.0 - jnp.asarray(terminated, jnp.float32)
        return state, TimeStep(jnp.asarray(observation, dtype), jnp.asarray(reward, jnp.float32), discount, last)

    return Environment(spec, reset, step, lambda state: {})


def _plain(key: Key) -> Key:
    """A key of JAX's own kind from one of ours: the same numbers."""
    return jax.random.wrap_key_data(jax.random.key_data(key))
