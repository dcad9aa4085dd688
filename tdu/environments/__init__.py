"""Environments by id.

deep_sea:size=20,mapping_seed=7,stochastic=true    a built-in, compiled environment with its settings
deep_sea/5, cartpole/0                             a bsuite id: our compiled twin
bsuite:deep_sea/5, bsuite:cartpole/0               the official environment
gym:CartPole-v1                                    a Gymnasium id
gymnax:Breakout-MinAtar                            a gymnax name, compiled
atari/montezuma_revenge, atari/freeway:size=42     one of 57 Atari games with its settings
python:pkg.mod:factory                             what the user's own function returns
"""

import dataclasses
import importlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from gymnasium.vector import VectorEnv

from tdu.environments import atari, binary_tree, bsuite, deep_sea, gymnasium, gymnax, key_door
from tdu.environments.bsuite_twins import experiments
from tdu.environments.jax_vector import JaxVector
from tdu.environments.python import PythonEnvironment, Seed, described, see_current_folder
from tdu.environments.settings import GYM_EPISODES, BinaryTreeSettings, DeepSeaSettings, KeyDoorSettings, parse_settings
from tdu.environments.vector import PythonVector, VectorEnvironment
from tdu.errors import UserError, unknown
from tdu.options import build
from tdu.types import Environment


class BuiltIn(NamedTuple):
    summary: str
    settings: type
    make: Callable[[Any], Environment]
    of_the_paper: bool = False
    """Whether it is one of the paper's benchmarks."""


BUILT_IN: dict[str, BuiltIn] = {
    "deep_sea": BuiltIn(
        "Deep Sea: one policy in 2^size finds the chest.",
        DeepSeaSettings,
        lambda s: deep_sea.deep_sea(**dataclasses.asdict(s)),
        of_the_paper=True,
    ),
    "binary_tree": BuiltIn(
        "Binary Tree: one wrong action anywhere ends the episode.",
        BinaryTreeSettings,
        lambda s: binary_tree.binary_tree(**dataclasses.asdict(s)),
        of_the_paper=True,
    ),
    "key_door": BuiltIn(
        "Key and door: fetch the key, open the door; a grid with cycles and one reward at the end.",
        KeyDoorSettings,
        lambda s: key_door.key_door(**dataclasses.asdict(s)),
    ),
}

MadeEnvironment = Environment | VectorEnvironment
"""Compiled, or stepped in Python."""


def make(env: Any, seed: Seed = 0, *, num_envs: int = 1, vectorises: bool = False) -> MadeEnvironment:
    """The environment of an id, around a dm_env or Gymnasium object, or one of ours as it is.

    `seed` is the run's; it reseeds environments that live in Python at every episode. With `num_envs`, as many of them are
    stepped together; compiled ones too, from Python, unless a runner `vectorises` them itself.
    """
    if isinstance(env, VectorEnv):
        if num_envs not in (1, env.num_envs):
            raise UserError(
                f"this vector environment has {env.num_envs} environments, not {num_envs}; leave num_envs out."
            )
        return gymnasium.adapt_vector(env, type(env).__name__, seed)
    if _is_atari(env):
        return atari.load(env, seed, num_envs)
    made = _single(env, seed)
    if isinstance(made, Environment):
        return made if num_envs == 1 or vectorises else JaxVector(made, _seed_of(env, seed), num_envs)
    if num_envs > 1 and not isinstance(env, str):
        raise UserError("an object is one environment; for several, give an id or a vector environment of Gymnasium's.")
    return PythonVector([made, *(_in_python(_single(env, seed)) for _ in range(num_envs - 1))])


def canonical(env_id: str) -> str:
    """One name for one task, as far as an id's settings can be written in several ways: `size=05,` is `size=5`."""
    scheme, colon, rest = env_id.partition(":")
    if not colon or scheme not in BUILT_IN or "/" in env_id:
        return env_id
    given = parse_settings(scheme, rest)
    built = build(BUILT_IN[scheme].settings, given, kind=f"environment {scheme}")
    values = {name: getattr(built, name) for name in given}
    texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in values.items()}
    return ":".join(filter(None, (scheme, ",".join(f"{name}={text}" for name, text in texts.items()))))


def own_seed(env_id: str, seed: int) -> int:
    """What a run's agent grows from: its seed, and on settings of bsuite that are copies of each other one of their own."""
    return bsuite.own_seed(env_id.removeprefix("bsuite:"), seed)


def is_of_the_paper(env: Any) -> bool:
    """Whether the paper's settings were made for an environment: Deep Sea, the tree, and all of bsuite."""
    if isinstance(env, Environment):
        env = env.spec.name
    if not isinstance(env, str):
        return type(env).__module__.partition(".")[0] == "bsuite"
    if _is_atari(env):
        return False  # its settings for the games are those of other agents
    scheme, colon, _ = env.partition(":")
    if scheme in BUILT_IN and "/" not in env:
        return BUILT_IN[scheme].of_the_paper
    return scheme == "bsuite" or (not colon and "/" in env)


def kind(env: Any) -> str:
    """What an environment is like, as far as its id or name tells: deep_sea, minatar, atari, or other."""
    if isinstance(env, Environment):
        env = env.spec.name
    if not isinstance(env, str):
        return "other"
    scheme, _, name = env.removeprefix("bsuite:").partition(":")
    experiment = scheme.partition("/")[0]
    if experiment in bsuite.DEEP_SEAS:
        return "deep_sea"
    if scheme == "gymnax" and name.endswith("MinAtar"):
        return "minatar"
    return "atari" if experiment == "atari" or name.startswith("ALE/") else "other"


def is_made(env: Any) -> bool:
    """Whether it is an object in Python, one environment or a vector of them, of which there are as many as there are."""
    return not isinstance(env, str | Environment)


def vector(env: Any, seed: Seed = 0, *, num_envs: int = 1) -> VectorEnvironment:
    """The same as `make`, always stepped from Python, for runs that are not one compiled loop."""
    made = make(env, seed, num_envs=num_envs)
    return JaxVector(made, _seed_of(env, seed), 1) if isinstance(made, Environment) else made


def close(env: MadeEnvironment) -> None:
    """Lets an environment give up what it holds; a compiled one holds nothing."""
    if not isinstance(env, Environment):
        env.close()


def size(env: MadeEnvironment) -> int:
    """How many environments are stepped together."""
    return 1 if isinstance(env, Environment) else env.size


def _seed_of(env: Any, seed: Seed) -> Seed:
    """Of compiled environments that are stepped from Python."""
    return bsuite.seed_of_copy(env, seed) if isinstance(env, str) else seed


def _single(env: Any, seed: Seed, name: str | None = None) -> Environment | PythonEnvironment:
    """One environment; `name` is what an object is called in errors, its class if there is none."""
    if isinstance(env, str):
        return _by_id(env, seed)
    if isinstance(env, Environment):
        return env
    prefix = f"{name}: " if name else ""
    name = name or type(env).__name__
    if isinstance(env, type):
        raise UserError(f"{prefix}{env.__name__} is a class and not an environment; write {env.__name__}().")
    if all(hasattr(env, attribute) for attribute in ("reset", "step", "observation_spec", "action_spec")):
        return PythonEnvironment(env, name=name, seed=seed, num_states=bsuite.num_states(env))
    if all(hasattr(env, attribute) for attribute in ("reset", "step", "observation_space", "action_space")):
        return gymnasium.adapt(env, name, seed)
    raise UserError(
        f"{prefix}an object of type {type(env).__name__} is neither an environment's id nor a dm_env or Gymnasium "
        "environment."
    )


def _is_atari(env: Any) -> bool:
    return isinstance(env, str) and env.startswith(atari.PREFIX)


def _in_python(env: Environment | PythonEnvironment) -> PythonEnvironment:
    assert isinstance(env, PythonEnvironment)
    return env


def _by_id(env_id: str, seed: Seed) -> Environment | PythonEnvironment:
    scheme, colon, rest = env_id.partition(":")
    if scheme in BUILT_IN and "/" not in env_id:
        settings = build(BUILT_IN[scheme].settings, parse_settings(scheme, rest), kind=f"environment {scheme}")
        return _make_built_in(scheme, settings)
    if colon and scheme in SCHEMES:
        return SCHEMES[scheme](rest, seed)
    if not colon and "/" in env_id:
        name, index = experiments.parsed(env_id)
        if name in bsuite.DEEP_SEAS:
            settings = DeepSeaSettings(stochastic=bsuite.DEEP_SEAS[name], **experiments.SETTINGS[name][index])
            return _make_built_in("deep_sea", settings)
        return experiments.twin(env_id)
    raise _unknown(scheme)


def _unknown(scheme: str) -> UserError:
    """The error for an id that begins with nothing we know."""
    if scheme in EXAMPLES:
        return UserError(f"'{scheme}' alone is no environment; write {EXAMPLES[scheme]}, for example.")
    if scheme in experiments.SETTINGS:
        return UserError(f"'{scheme}' alone is no environment; write {scheme}/0, for example.")
    return unknown(
        "environment", scheme, [*BUILT_IN, *experiments.SETTINGS, *SCHEMES, "atari/GAME", "a bsuite id as in catch/0"]
    )


EXAMPLES = {
    "gym": "gym:CartPole-v1",
    "gymnax": "gymnax:Catch-bsuite",
    "python": "python:my_module:make",
    "bsuite": "bsuite:catch/0",
    "atari": "atari/freeway",
}
"""Of each scheme that needs more than its name."""


@lru_cache(maxsize=32)
def _make_built_in(name: str, settings: Any) -> Environment:
    """One object for one environment, so that what is compiled for it is found again."""
    return BUILT_IN[name].make(settings)


def _from_factory(place: str, seed: Seed) -> Environment | PythonEnvironment:
    """What a function of the user's returns, called without arguments."""
    module_name, colon, factory_name = place.partition(":")
    if not colon or not module_name or not factory_name:
        raise UserError(f"'python:{place}' does not say which function makes it; write python:package.module:function.")
    name = f"python:{place}"
    see_current_folder()
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as e:
        if isinstance(e, ModuleNotFoundError) and e.name and f"{module_name}.".startswith(f"{e.name}."):
            raise UserError(f"{name}: there is no module {e.name} in this folder or on Python's path.") from None
        raise UserError(f"{name} cannot be made: {described(e)}.") from e
    if not hasattr(module, factory_name):
        names = [each for each, value in vars(module).items() if callable(value) and not each.startswith("_")]
        raise unknown(f"function of {module_name}", factory_name, names)
    factory = getattr(module, factory_name)
    if not callable(factory):
        raise UserError(f"{name} is {factory!r}, and not a function that makes an environment.")
    try:
        env = factory()
    except (Exception, SystemExit) as e:
        raise UserError(f"{name} cannot be made: {described(e)}; it is called without arguments.") from e
    if env is None:
        raise UserError(f"{name} returned nothing; is a return missing?")
    if isinstance(env, str):
        raise UserError(f"{name} returned a text and not an environment.")
    if isinstance(env, VectorEnv):
        raise UserError(f"{name} returned a vector environment; return a single one and give num_envs.")
    made = _single(env, seed, name)
    if isinstance(made, PythonEnvironment):
        return made
    return made._replace(spec=made.spec._replace(name=name))


SCHEMES: dict[str, Callable[[str, Seed], Environment | PythonEnvironment]] = {
    "bsuite": bsuite.load,
    "gym": gymnasium.load,
    "gymnax": lambda name, seed: gymnax.load(name),
    "python": _from_factory,
}
"""What stands before the first colon of an id, apart from the built-in names."""


def default_episodes(env_id: str) -> int | None:
    """How many episodes a run on an id has if nobody says otherwise, as far as that is known without making it.

    An id that cannot be is refused here already.
    """
    if _is_atari(env_id):
        atari.parsed(env_id)
        return GYM_EPISODES
    scheme, colon, _ = env_id.partition(":")
    if (scheme in BUILT_IN or not colon) and scheme not in SCHEMES:
        is_bsuite_id = not colon and "/" in env_id
        return experiments.episodes(env_id) if is_bsuite_id else _by_id(env_id, 0).spec.default_episodes
    if not colon or (scheme not in SCHEMES and scheme not in BUILT_IN):
        raise _unknown(scheme)
    if scheme == "bsuite":
        return bsuite.default_episodes(env_id.partition(":")[2])
    return dict.fromkeys(("gym", "gymnax"), GYM_EPISODES).get(scheme)
