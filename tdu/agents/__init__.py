"""The agents, in one table. Adding one takes a file with `Config` and `make`, and a line here."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

from tdu.agents import bdqn, cts, dqn, nns, q_ucb, qex, qu, rnd, su, tdu, tdu_ac
from tdu.agents.config import PRESETS, EnsembleConfig
from tdu.agents.grids import GRIDS
from tdu.errors import UserError, unknown
from tdu.options import build
from tdu.types import Agent, EnvSpec

__all__ = ["AGENTS", "GRIDS", "PRESETS", "Entry", "configure", "default_preset", "find", "presets"]


class Entry(NamedTuple):
    """One agent: what it is, its options, and how it is made."""

    summary: str
    config: type
    make: Callable[[EnvSpec, Any], Agent]


AGENTS: dict[str, Entry] = {
    "tdu": Entry("Explorers paid for the exploiters' disagreement about TD errors.", tdu.Config, tdu.make),
    "bdqn": Entry("Bootstrapped DQN with random prior functions.", bdqn.Config, bdqn.make),
    "qu": Entry("TDU with the spread of values in place of TD errors.", qu.Config, qu.make),
    "q_ucb": Entry("BDQN that acts on value plus spread of values.", q_ucb.Config, q_ucb.make),
    "dqn": Entry("DQN with ε-greedy actions.", dqn.Config, dqn.make),
    "qex": Entry("A second DQN paid the absolute TD error of the first.", qex.Config, qex.make),
    "cts": Entry("DQN paid for state-action pairs seldom met.", cts.Config, cts.make),
    "su": Entry("Posterior samples of reward weights over successor features.", su.Config, su.make),
    "nns": Entry("DQN with noisy networks.", nns.Config, nns.make),
    "rnd": Entry("DQN paid for the error of random network distillation.", rnd.Config, rnd.make),
    "tdu_ac": Entry("Actor-critic paid for its critics' disagreement about TD errors.", tdu_ac.Config, tdu_ac.make),
}


def find(name: str) -> Entry:
    """The agent of that name."""
    if name not in AGENTS:
        raise unknown("agent", name, AGENTS)
    return AGENTS[name]


def presets(name: str) -> list[str]:
    """The sets of defaults that an agent has."""
    is_ensemble = issubclass(find(name).config, EnsembleConfig)
    return [preset for preset, options in PRESETS.items() if is_ensemble or not options]


def default_preset(name: str, *, of_the_paper: bool) -> str:
    """The set of defaults of a run that names none: the paper's on its own environments, the general one elsewhere."""
    return "general" if not of_the_paper and "general" in presets(name) else "paper"


def configure(name: str, options: dict[str, Any], preset: str = "paper") -> Any:
    """The agent's config: its defaults, changed by a preset, changed by `options`."""
    entry = find(name)
    if preset not in PRESETS:
        raise unknown("preset", preset, PRESETS)
    if preset not in presets(name):
        raise UserError(f"preset {preset} is for ensembles, and agent {name} is none; leave it out.")
    return build(entry.config, _defaults(entry, preset) | options, kind=f"agent {name}")


def _defaults(entry: Entry, preset: str) -> dict[str, Any]:
    """What a preset changes in an agent."""
    options: dict[str, Any] = dict(PRESETS[preset])
    if "explorers" in options and "explorers" not in {field.name for field in dataclasses.fields(entry.config)}:
        options["exploiters"] += options.pop("explorers")
    return options
