"""Environments that are passed as Python objects: dm_env's, Gymnasium's, or compiled ones."""

from typing import cast

from gymnasium.vector import VectorEnv

from tdu.environments import bsuite, gymnasium
from tdu.environments.adapter import MadeEnvironment
from tdu.environments.python import DmEnvironment, PythonEnvironment, Seed
from tdu.environments.vector import PythonVector
from tdu.errors import UserError
from tdu.types import Environment


def load(env: object, seed: Seed, num_envs: int) -> MadeEnvironment:
    """An object as one of our environments. A compiled one is returned as it is."""
    if isinstance(env, VectorEnv):
        if num_envs not in (1, env.num_envs):
            raise UserError(
                f"this vector environment has {env.num_envs} environments, not {num_envs}; leave num_envs out."
            )
        return gymnasium.adapt_vector(env, type(env).__name__, seed)
    made = adapt(env, seed)
    if isinstance(made, Environment):
        return made
    if num_envs > 1:
        raise UserError("an object is one environment; for several, give an id or a vector environment of Gymnasium's.")
    return PythonVector([made])


def adapt(env: object, seed: Seed, name: str = "") -> Environment | PythonEnvironment:
    """One environment. `name` is its name in errors and in its spec; the default is its class."""
    if isinstance(env, Environment):
        return env
    prefix = f"{name}: " if name else ""
    own_name = name or type(getattr(env, "unwrapped", env)).__name__  # not the name of a wrapper
    name = name or type(env).__name__
    if isinstance(env, type):
        raise UserError(f"{prefix}{env.__name__} is a class and not an environment; write {env.__name__}().")
    if all(hasattr(env, attribute) for attribute in ("reset", "step", "observation_spec", "action_spec")):
        return PythonEnvironment(cast(DmEnvironment, env), name=name, seed=seed, num_states=bsuite.num_states(env))
    if all(hasattr(env, attribute) for attribute in ("reset", "step", "observation_space", "action_space")):
        return gymnasium.adapt(env, own_name, seed)
    raise UserError(
        f"{prefix}an object of type {type(env).__name__} is neither an environment's id nor a dm_env or Gymnasium "
        "environment."
    )
