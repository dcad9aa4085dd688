"""`python:package.module:function`: the environment that a function of the user's returns."""

import importlib

from gymnasium.vector import VectorEnv

from tdu.environments import objects
from tdu.environments.adapter import Adapter, MadeEnvironment
from tdu.environments.ids import EnvId
from tdu.environments.python import PythonEnvironment, Seed, described, see_current_folder
from tdu.environments.vector import PythonVector
from tdu.errors import UserError, unknown
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
    module_name, _, function_name = env_id.name.partition(":")
    if not module_name or not function_name:
        raise UserError(f"'{env_id}' does not name the function to call; write python:package.module:function.")
    see_current_folder()
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as e:
        if isinstance(e, ModuleNotFoundError) and e.name and f"{module_name}.".startswith(f"{e.name}."):
            raise UserError(f"{env_id}: there is no module {e.name} in this folder or on Python's path.") from None
        raise UserError(f"{env_id} cannot be made: {described(e)}.") from e
    if not hasattr(module, function_name):
        names = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
        raise unknown(f"function of {module_name}", function_name, names)
    function = getattr(module, function_name)
    if not callable(function):
        raise UserError(f"{env_id} is {function!r}, not a function that makes an environment.")
    try:
        env: object = function()
    except (Exception, SystemExit) as e:
        raise UserError(f"{env_id} cannot be made: {described(e)}; it is called without arguments.") from e
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
