"""Ids of environments, parsed in one place.

| id                               | source     | name        | settings                |
|----------------------------------|------------|-------------|-------------------------|
| deep_sea:size=20,stochastic=true | deep_sea   |             | size=20,stochastic=true |
| cartpole/0                       | twin       | cartpole/0  |                         |
| bsuite:cartpole/0                | bsuite     | cartpole/0  |                         |
| gym:CartPole-v1                  | gym        | CartPole-v1 |                         |
| atari/freeway:size=42            | atari      | freeway     | size=42                 |
| navix:Navix-X:max_steps=9        | navix      | Navix-X     | max_steps=9             |
"""

from typing import NamedTuple

from tdu.environments.built_in import BUILT_IN, BuiltInSettings
from tdu.errors import UserError
from tdu.options import build

TWIN = "twin"
"""Source of a bsuite id without prefix: our compiled version of the official environment."""

OBJECT = "object"
"""Source that a run's config has for an environment that was passed as a Python object."""

_OF_THE_PAPER = (TWIN, "bsuite", "deep_sea", "binary_tree")


class EnvId(NamedTuple):
    """A parsed id. `str(env_id)` is the id again."""

    source: str
    """Key of the adapter in `environments.ADAPTERS`."""
    name: str = ""
    """Which environment of the source; empty for built-in environments."""
    settings: str = ""
    """As written: name=value,name=value."""

    def __str__(self) -> str:
        if self.source == TWIN:
            return self.name
        separator = "/" if self.source == "atari" else ":"
        return ":".join(filter(None, (separator.join(filter(None, (self.source, self.name))), self.settings)))

    @property
    def bsuite_id(self) -> str:
        return self.name if self.source in (TWIN, "bsuite") else ""

    @property
    def experiment(self) -> str:
        """bsuite's experiment, the part of its id before the slash."""
        return self.bsuite_id.partition("/")[0]

    @property
    def kind(self) -> str:
        """deep_sea, minatar, atari or other; default presets depend on it."""
        if self.source == "deep_sea" or self.experiment in ("deep_sea", "deep_sea_stochastic"):
            return "deep_sea"
        if self.source == "gymnax" and self.name.endswith("MinAtar"):
            return "minatar"
        return "atari" if self.source == "atari" or self.name.startswith("ALE/") else "other"

    @property
    def is_of_the_paper(self) -> bool:
        """Whether the paper's settings were made for it: Deep Sea, Binary Tree and all of bsuite."""
        return self.source in _OF_THE_PAPER

    def options(self) -> dict[str, str]:
        """The settings by name, unchecked."""
        options: dict[str, str] = {}
        for part in filter(None, self.settings.split(",")):
            name, equals, value = (text.strip() for text in part.partition("="))
            if not equals:
                raise UserError(f"'{part}' is not a setting; write {self._replace(settings='name=value,name=value')}.")
            if name in options:
                raise UserError(f"'{self}' gives {name} twice.")
            options[name] = value
        return options

    def built_in_settings(self) -> BuiltInSettings:
        """The checked settings of a built-in environment."""
        made: BuiltInSettings = build(BUILT_IN[self.source].settings, self.options(), kind=f"environment {self.source}")
        return made

    def canonical(self) -> "EnvId":
        """The id with the settings of a built-in environment in one form: `size=05,` becomes `size=5`."""
        if self.source not in BUILT_IN:
            return self
        built = self.built_in_settings()
        values = {name: getattr(built, name) for name in self.options()}
        texts = (f"{name}={str(v).lower() if isinstance(v, bool) else v}" for name, v in values.items())
        return self._replace(settings=",".join(texts))


def parse(text: str) -> EnvId:
    """Splits an id. Any text is accepted: the source's adapter checks the name and the settings."""
    prefix, colon, rest = text.partition(":")
    group, slash, name = prefix.partition("/")
    if group == "atari" and slash:
        return EnvId(group, name, rest)
    if slash and not colon:
        return EnvId(TWIN, text)
    if prefix in BUILT_IN:
        return EnvId(prefix, settings=rest)
    return EnvId(prefix, *rest.split(":", 1)) if prefix == "navix" else EnvId(prefix, rest)
