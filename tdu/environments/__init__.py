"""Environments by id. `ADAPTERS` lists the sources; `ids` defines how ids are written."""

import re

from tdu import user_code
from tdu.environments import atari, bsuite, built_in, gymnasium, jax_native, objects, spaces
from tdu.environments.adapter import Adapter, MadeEnvironment, compiled
from tdu.environments.bsuite_twins import experiments
from tdu.environments.built_in import BUILT_IN
from tdu.environments.ids import OBJECT, TWIN, EnvId, parse
from tdu.environments.python import Seed, number
from tdu.environments.vector import JaxVector, PythonVector
from tdu.errors import UserError, unknown
from tdu.types import Environment, EnvSpec

__all__ = ["ADAPTERS", "OBJECT", "TWIN", "EnvId", "MadeEnvironment", "make", "parse"]


def _load_built_in(env_id: EnvId) -> Environment:
    return built_in.make(env_id.source, env_id.built_in_settings())


def _built_in_episodes(env_id: EnvId) -> int:
    return _load_built_in(env_id).spec.default_episodes


ADAPTERS: dict[str, Adapter] = {
    **{n: Adapter(n, it.summary, n, compiled(_load_built_in), _built_in_episodes) for n, it in BUILT_IN.items()},
    TWIN: experiments.ADAPTER,
    "bsuite": bsuite.ADAPTER,
    "gym": gymnasium.ADAPTER,
    **jax_native.ADAPTERS,
    "atari": atari.ADAPTER,
    "python": objects.ADAPTER,
}
"""By the prefix of the ids."""


def make(env: object, seed: Seed = 0, *, num_envs: int = 1, vectorises: bool = False) -> MadeEnvironment:
    """The environment of an id, or an adapter around a dm_env or Gymnasium object. Compiled environments are unchanged.

    Environments in Python are reseeded from `seed`, the run's, at every episode. With `num_envs` above 1, that many are
    stepped together from Python. Compiled ones are not if the runner `vectorises` them itself.
    """
    if isinstance(env, str):
        env_id = parse(env)
        made = _adapter(env_id).load(env_id, seed, num_envs)
        seed = bsuite.seed_of_copy(env_id.bsuite_id, seed)
    else:
        made = objects.load(env, seed, num_envs)
    return (
        JaxVector(made, seed, num_envs) if isinstance(made, Environment) and num_envs > 1 and not vectorises else made
    )


def default_episodes(env_id: str) -> int | None:
    """Episodes of a run by default; None if they are known only once the environment is made. Checks the id."""
    parsed = parse(env_id)
    return _adapter(parsed).episodes(parsed)


def identify(env: object) -> EnvId:
    """The id of anything that `make` accepts. An object has the source bsuite or `object`."""
    if isinstance(env, Environment):
        env = env.spec.name
    if isinstance(env, str):
        return parse(env)
    return EnvId("bsuite" if type(env).__module__.partition(".")[0] == "bsuite" else OBJECT)


def own_seed(env_id: str, seed: int) -> int:
    """The seed of a run's agent: the run's, but different for each of several equal settings of bsuite."""
    own = bsuite.seed_of_copy(parse(env_id).bsuite_id, seed)
    return own if isinstance(own, int) else number(own)


def expand(target: str) -> list[str]:
    """The ids of a sweep's target: a group (`bsuite`, `bsuite:TAG`, `atari:57`), a bsuite experiment, or one id."""
    prefix, colon, name = target.partition(":")
    if not target.strip():
        raise UserError("a target is empty; give an environment, a bsuite experiment, or bsuite for all of it.")
    if "/" in target:
        return [target]
    if prefix not in ADAPTERS:
        user_code.refuse_file(target, "make")
    if (adapter := ADAPTERS.get(prefix)) and adapter.group:
        return adapter.group(name)
    if target in experiments.SETTINGS:
        return experiments.ids(target)  # this does not require the extra
    return [target] if colon or target in BUILT_IN else bsuite.ids(target)


def is_made(env: object) -> bool:
    """Whether it is an object in Python, whose number of environments is fixed."""
    return not isinstance(env, str | Environment)


def doubts(env: MadeEnvironment) -> list[str]:
    """Sentences on what the first observations of an environment in Python got wrong; the run goes on."""
    return [words for one in env.environments for words in one.doubts.values()] if isinstance(env, PythonVector) else []


def notes(spec: EnvSpec) -> list[str]:
    """Sentences on what agents observe and choose, where it is not the environment's own."""
    found = [] if spec.parts is None else [spaces.described(spec.parts, spec.name)]
    if len(spec.actions) > 1:
        choices = " × ".join(str(count) for _, count in spec.actions)
        found.append(
            f"{spec.name} has {choices} actions at once. Agents choose among the {spec.num_actions} combinations."
        )
    return found


def close(env: MadeEnvironment) -> None:
    """Releases the environment's resources; a compiled one has none."""
    if not isinstance(env, Environment):
        env.close()


def _adapter(env_id: EnvId) -> Adapter:
    source = env_id.source
    if source == TWIN and env_id.experiment not in experiments.SETTINGS:
        source = env_id.name
    if source == "python" or source not in ADAPTERS:
        user_code.refuse_file(str(env_id), "make")
    if source not in BUILT_IN and re.fullmatch(r"[\w./-]+-v\d+", str(env_id)):
        raise UserError(f"unknown environment '{env_id}'; did you mean 'gym:{env_id}'?")
    if source in ADAPTERS and (env_id.name or source in BUILT_IN):
        return ADAPTERS[source]
    if source in ADAPTERS or source in experiments.SETTINGS:
        example = ADAPTERS[source].example if source in ADAPTERS else f"{source}/0"
        raise UserError(f"'{source}' alone is not an environment; write {example}, for example.")
    raise unknown("environment", source, [*(name for name in ADAPTERS if name != TWIN), *experiments.SETTINGS])
