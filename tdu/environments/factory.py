"""`python:package.module:function`: the environment that a function of the user's returns."""

from gymnasium.vector import VectorEnv

from tdu import user_code
from tdu.environments import objects
from tdu.environments.adapter import Adapter, MadeEnvironment
from tdu.environments.ids import EnvId
from tdu.environments.python import PythonEnvironment, Seed
from tdu.environments.vector import PythonVector
from tdu.errors import UserError
from tdu.types import Environment


def _load(env_id: EnvId, seed: Seed, num_envs: int) -> MadeEnvironment:
    """A compiled environment, or the results of `num_envs` calls."""
    made: list[PythonEnvironment] = []
    for _ in range(num_envs):
        env = objects.adapt(_called(env_id), seed, str(env_id))
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
        raise UserError(f"{env_id} cannot be made: {user_code.described(e)}; it is called without arguments.") from e
    if env is None:
        raise UserError(f"{env_id} returned nothing; is a return statement missing?")
    if isinstance(env, str):
        raise UserError(f"{env_id} returned a text, not an environment.")
    if isinstance(env, VectorEnv):
        raise UserError(f"{env_id} returned a vector environment; return a single one and set num_envs.")
    return env


ADAPTER = Adapter(
    "python:M:F",
    "what function F of your module M returns: a dm_env, Gymnasium or tdu environment",
    "python:my_module:make",
    _load,
    lambda env_id: None,
)
