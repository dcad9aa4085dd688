"""The agents, in one table. Adding one takes a file with `Config` and `make`, and a line here."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

from tdu.agents import bdqn, cts, dqn, nns, q_ucb, qex, qu, rnd, su, tdu, tdu_ac
from tdu.agents.config import PRESETS, SINGLE_PRESETS, EnsembleConfig, LearnerConfig
from tdu.agents.grids import GRIDS, paper_grids
from tdu.agents.r2d2 import agent as r2d2_agent
from tdu.agents.r2d2 import config as r2d2_config
from tdu.errors import UserError, unknown
from tdu.options import build
from tdu.types import Agent, EnvSpec, RecurrentAgent

__all__ = [
    "AGENTS", "GRIDS", "PRESETS", "RECURRENT_PRESETS", "Entry", "configure", "default_num_envs", "default_preset", "find",
    "paper_grids", "presets",
]  # fmt: skip

RECURRENT_PRESETS = r2d2_config.PRESETS
"""Sets of defaults of the agents with a memory."""


class Entry(NamedTuple):
    """One agent: what it is, its options, and how it is made."""

    summary: str
    config: type
    make: Callable[[EnvSpec, Any], Agent | RecurrentAgent]

    @property
    def is_recurrent(self) -> bool:
        """Whether it has a memory, learns from sequences and acts in several environments side by side."""
        return issubclass(self.config, r2d2_config.Config)

    @property
    def can_be_recorded(self) -> bool:
        """Whether it tells its heads' values (`Agent.examiner`), for the maps of a page."""
        return not self.is_recurrent and self.config is not tdu_ac.Config


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
    "r2d2": Entry("DQN with a memory, learning from sequences.", r2d2_config.Config, r2d2_agent.make),
    "b_r2d2": Entry(
        "R2D2 with a bootstrapped ensemble of heads and priors.", r2d2_config.BootstrappedConfig, r2d2_agent.make
    ),
    "tdu_r2d2": Entry("R2D2 with TDU: explorers among its heads.", r2d2_config.TduConfig, r2d2_agent.make),
    "tdu_r2d2_prior": Entry("TDU-R2D2 with random prior functions.", r2d2_config.TduPriorConfig, r2d2_agent.make),
}


def find(name: str) -> Entry:
    """The agent of that name."""
    if name not in AGENTS:
        raise unknown("agent", name, AGENTS)
    return AGENTS[name]


def presets(name: str) -> list[str]:
    """The sets of defaults that an agent has."""
    return list(_presets(find(name)))


def default_preset(name: str, *, of_the_paper: bool, kind: str = "other") -> str:
    """The set of defaults of a run that names none.

    The paper's on its own environments and the general one elsewhere; for agents with a memory one that a laptop can run, by
    the kind of environment (`EnvId.kind`).
    """
    if find(name).is_recurrent:
        return r2d2_config.PRESET_OF.get(kind, "memory")
    return "general" if not of_the_paper and "general" in presets(name) else "paper"


def default_num_envs(name: str, preset: str) -> int:
    """Environments side by side in a run that does not say how many."""
    return r2d2_config.NUM_ENVS.get(preset, 1) if find(name).is_recurrent else 1


def configure(name: str, options: dict[str, Any], preset: str = "paper") -> Any:
    """The agent's config: its defaults, changed by a preset, changed by `options`."""
    entry = find(name)
    mine = _presets(entry)
    if preset not in mine:
        known = {**PRESETS, **r2d2_config.PRESETS}
        if preset not in known:
            raise unknown("preset", preset, mine)
        raise UserError(f"preset {preset} is for other agents; agent {name} has {', '.join(mine)}.")
    return build(entry.config, _defaults(entry, mine[preset]) | options, kind=f"agent {name}")


def _presets(entry: Entry) -> dict[str, dict[str, Any]]:
    if entry.is_recurrent:
        return r2d2_config.PRESETS
    if issubclass(entry.config, EnsembleConfig):
        return PRESETS
    return SINGLE_PRESETS if issubclass(entry.config, LearnerConfig) else {"paper": {}}


def _defaults(entry: Entry, preset: dict[str, Any]) -> dict[str, Any]:
    """What a preset changes in an agent."""
    options, has = dict(preset), {field.name for field in dataclasses.fields(entry.config)}
    if "explorers" in options and "explorers" not in has:
        options["exploiters"] += options.pop("explorers")
    return {name: value for name, value in options.items() if name in has}
