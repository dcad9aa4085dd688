"""The built-in environments: compiled, with settings in their ids."""

import dataclasses
from collections.abc import Callable
from functools import lru_cache

from tdu.environments.adapter import Adapter, compiled
from tdu.environments.binary_tree import binary_tree
from tdu.environments.deep_sea import deep_sea
from tdu.environments.ids import EnvId
from tdu.environments.key_door import key_door
from tdu.environments.settings import BuiltInSettings
from tdu.types import Environment

_MAKERS: dict[str, Callable[..., Environment]] = {
    "deep_sea": deep_sea,
    "binary_tree": binary_tree,
    "key_door": key_door,
}


@lru_cache(maxsize=32)
def make(name: str, settings: BuiltInSettings) -> Environment:
    """One object per environment, so that its compiled code is reused."""
    return _MAKERS[name](**dataclasses.asdict(settings))


def load(env_id: EnvId) -> Environment:
    return make(env_id.source, env_id.built_in_settings())


def adapter(name: str, summary: str) -> Adapter:
    return Adapter(name, summary, name, compiled(load), lambda env_id: load(env_id).spec.default_episodes)
