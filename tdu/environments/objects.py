"""The user's environments: Python objects of dm_env's, Gymnasium's or our own kind, and functions that make them.

`python:package.module:function` is the environment that the function returns.
"""

from typing import cast

from gymnasium.vector import VectorEnv

from tdu import user_code
from tdu.environments import bsuite, gymnasium
from tdu.environments.adapter import Adapter, MadeEnvironment
from tdu.environments.ids import EnvId
from tdu.environments.python import PythonEnvironment, Seed, of_dm_env
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


_NEEDED = {
    "Gymnasium": ("reset", "step", "observation_space", "action_space"),
    "dm_env": ("reset", "step", "observation_spec", "action_spec"),
}
"""What an environment must have."""


def adapt(env: object, seed: Seed, name: str = "") -> Environment | PythonEnvironment:
    """One environment. `name` is its name in errors and in its spec; the default is its class."""
    if isinstance(env, Environment):
        return env
    prefix = f"{name}: " if name else ""
    type_name = type(getattr(env, "unwrapped", env)).__name__  # not the name of a wrapper
    own_name = name or type_name
    name = name or type(env).__name__
    if isinstance(env, type):
        raise UserError(f"{prefix}{env.__name__} is a class and not an environment; write {env.__name__}().")
    missing = {kind: [x for x in needed if not hasattr(env, x)] for kind, needed in _NEEDED.items()}
    if not missing["dm_env"]:
        return of_dm_env(env, name=name, seed=seed, num_states=bsuite.num_states(env))
    if not missing["Gymnasium"]:
        return gymnasium.adapt(cast(gymnasium.Env, env), own_name, seed)
    if callable(env) and not hasattr(env, "step"):
        function = getattr(env, "__name__", name)
        raise UserError(
            f"{prefix}{function} is a function and not an environment; give {function}() instead of {function}."
        )
    kind = min(missing, key=lambda kind: len(missing[kind]))
    if len(missing[kind]) <= 2:
        lacks = " and no ".join(missing[kind])
        raise UserError(f"{prefix}{type_name} has no {lacks}, which every {kind} environment needs.")
    raise UserError(
        f"{prefix}an object of type {type(env).__name__} is neither an environment's id nor a dm_env or Gymnasium "
        "environment."
    )


def _load_named(env_id: EnvId, seed: Seed, num_envs: int) -> MadeEnvironment:
    """A compiled environment, or the results of `num_envs` calls."""
    made: list[PythonEnvironment] = []
    for _ in range(num_envs):
        env = adapt(_called(env_id), seed, str(env_id))
        if isinstance(env, Environment):
            return env._replace(spec=env.spec._replace(name=str(env_id)))
        made.append(env)
    return PythonVector(made)


def _called(env_id: EnvId) -> object:
    """The function's result; it is called without arguments."""
    function = user_code.named(str(env_id))
    if not callable(function):
        raise UserError(f"{env_id} is {function!r}, not a function that makes an environment.")
    try:
        env: object = function()
    except (Exception, SystemExit) as e:
        is_of_this_call = e.__traceback__ is not None and e.__traceback__.tb_next is None
        why = "; it is called without arguments" if isinstance(e, TypeError) and is_of_this_call else ""
        raise UserError(f"{env_id} cannot be made: {user_code.described(e)}{why}.") from e
    if env is None:
        raise UserError(f"{env_id} returned nothing; is a return statement missing?")
    if isinstance(env, str):
        raise UserError(f"{env_id} returned a text, not an environment.")
    if isinstance(env, VectorEnv):
        raise UserError(f"{env_id} returned a vector environment; return a single one and set num_envs.")
    return env


ADAPTER = Adapter(
    "python:M:F", "what function F of your module M returns: a dm_env, Gymnasium or tdu environment",
    "python:my_module:make", _load_named, lambda env_id: None,
)  # fmt: skip
