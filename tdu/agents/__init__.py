"""The table of agents. A new agent is a file with `make`, its options, and a line in `AGENTS`.

The table holds the options of every agent. JAX is imported when an agent is made, so that `--help` starts quickly.
"""

import dataclasses
import importlib
from collections.abc import Callable, Mapping
from functools import lru_cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from tdu import user_code
from tdu.agents import own_options
from tdu.agents.config import PAPER_ONLY, PRESETS, SINGLE_PRESETS, DqnConfig, EnsembleConfig, Presets, QConfig
from tdu.agents.grids import GRIDS, paper_grids
from tdu.agents.r2d2 import config as r2d2_config
from tdu.errors import UserError, unknown
from tdu.options import build

if TYPE_CHECKING:
    from tdu.agents.r2d2.agent import RecurrentAgent
    from tdu.types import Agent, EnvSpec

__all__ = [
    "AGENTS", "GRIDS", "PRESETS", "RECURRENT_PRESETS", "Entry", "configure", "default_num_envs", "default_preset", "find",
    "paper_grids", "presets",
]  # fmt: skip

RECURRENT_PRESETS = r2d2_config.PRESETS
"""Presets of the agents with a memory."""


Result = TypeVar("Result")
AgentConfig = QConfig | own_options.TduAcConfig | r2d2_config.Config


class Entry(NamedTuple):
    """One agent: its options, how it is made, and what it can do."""

    summary: str
    config: type
    """A frozen dataclass whose fields are `options.option`s."""
    make: "Callable[[EnvSpec, Any], Agent | RecurrentAgent]"
    """make(spec, config) -> the agent."""
    presets: Presets = PRESETS
    """Named sets of defaults; options that the config does not have are ignored."""
    is_recurrent: bool = False
    """Whether it has a memory: it learns from sequences and acts in several environments side by side."""
    can_be_recorded: bool = True
    """Whether it has an `Examiner`, which `--record` and the maps of a page need."""
    preset_of: Mapping[str, str] = {}
    """Default preset by kind of environment; empty for `paper` on the paper's environments and `general` elsewhere."""
    num_envs: Mapping[str, int] = {}
    """Default number of environments by preset, where it is not 1."""


def _imported(module: str, name: str = "make") -> "Callable[[EnvSpec, Any], Any]":
    """A function of a module here, which is imported at the first call."""

    def make(spec: "EnvSpec", config: object) -> Any:
        return getattr(importlib.import_module(f"tdu.agents.{module}"), name)(spec, config)

    return make


_R2D2 = Entry(
    "DQN with a memory, learning from sequences.", r2d2_config.Config, _imported("r2d2.agent"), r2d2_config.PRESETS,
    is_recurrent=True, can_be_recorded=False, preset_of=r2d2_config.PRESET_OF, num_envs=r2d2_config.NUM_ENVS,
)  # fmt: skip

AGENTS: dict[str, Entry] = {
    "tdu": Entry(
        "Explorers paid for the exploiters' disagreement about TD errors.",
        own_options.TduConfig,
        _imported("ensembles", "tdu"),
    ),
    "bdqn": Entry("Bootstrapped DQN with random prior functions.", EnsembleConfig, _imported("ensembles", "bdqn")),
    "qu": Entry(
        "TDU with the spread of values instead of TD errors.", own_options.QuConfig, _imported("ensembles", "qu")
    ),
    "q_ucb": Entry(
        "BDQN that acts on value plus spread of values.", own_options.QUcbConfig, _imported("ensembles", "q_ucb")
    ),
    "dqn": Entry("DQN with ε-greedy actions.", DqnConfig, _imported("singles", "dqn"), SINGLE_PRESETS),
    "qex": Entry(
        "A second DQN paid the absolute TD error of the first.",
        own_options.QexConfig,
        _imported("singles", "qex"),
        SINGLE_PRESETS,
    ),
    "cts": Entry(
        "DQN paid for rare state-action pairs.", own_options.CtsConfig, _imported("singles", "cts"), SINGLE_PRESETS
    ),
    "su": Entry(
        "Successor Uncertainties: posterior samples of reward weights.",
        own_options.SuConfig,
        _imported("su"),
        PAPER_ONLY,
    ),
    "nns": Entry(
        "DQN with noisy networks (NoisyNets).", own_options.NnsConfig, _imported("singles", "nns"), SINGLE_PRESETS
    ),
    "rnd": Entry(
        "DQN paid for the error of random network distillation.",
        own_options.RndConfig,
        _imported("singles", "rnd"),
        SINGLE_PRESETS,
    ),
    "tdu_ac": Entry(
        "Actor-critic paid for its critics' disagreement about TD errors.",
        own_options.TduAcConfig,
        _imported("tdu_ac"),
        PAPER_ONLY,
        can_be_recorded=False,
    ),
    "r2d2": _R2D2,
    "b_r2d2": _R2D2._replace(
        summary="R2D2 with a bootstrapped ensemble of heads and priors.",
        config=r2d2_config.BootstrappedConfig,
    ),
    "tdu_r2d2": _R2D2._replace(summary="R2D2 with TDU: explorers among its heads.", config=r2d2_config.TduR2D2Config),
    "tdu_r2d2_prior": _R2D2._replace(
        summary="TDU-R2D2 with random prior functions.", config=r2d2_config.TduPriorConfig
    ),
}


def find(name: str) -> Entry:
    """The agent with this name, or the user's own: python:package.module:name."""
    name = str(name)
    if name.startswith(user_code.PREFIX):
        return _of_user(name)
    if name not in AGENTS:
        user_code.refuse_file(name, "AGENT")
        raise unknown("agent", name, AGENTS)
    return AGENTS[name]


@lru_cache
def _of_user(name: str) -> Entry:
    entry = user_code.named(name, "agent", lambda value: isinstance(value, Entry))
    if not isinstance(entry, Entry):
        raise UserError(f"{name} is {type(entry).__name__}, not an agents.Entry (docs/agents/adding.md shows one).")
    from tdu.agents.r2d2.agent import RecurrentAgent
    from tdu.types import Agent

    kind = RecurrentAgent if entry.is_recurrent else Agent

    def make(spec: "EnvSpec", config: object) -> "Agent | RecurrentAgent":
        made = _guarded(name, entry.make)(spec, config)
        if not isinstance(made, kind):
            code = getattr(entry.make, "__code__", None)
            place = f" ({Path(code.co_filename).name}, line {code.co_firstlineno})" if code else ""
            raise UserError(f"{name}: make returned {type(made).__name__}, not {kind.__name__}{place}.")
        parts = made._asdict()
        return made._replace(**parts | {field: _guarded(name, part) for field, part in parts.items() if callable(part)})

    return entry._replace(make=make)


def _guarded(name: str, function: Callable[..., Result]) -> Callable[..., Result]:
    """A function of the user's agent whose exceptions, also while JAX traces it, become one sentence."""
    import jax

    @wraps(function)
    def call(*arguments: object, **named: object) -> Result:
        try:
            return function(*arguments, **named)
        except (UserError, jax.errors.JaxRuntimeError):
            raise
        except (Exception, SystemExit) as e:
            raise UserError(f"agent {name} raised {user_code.described(e)}.") from e

    return call


def presets(name: str) -> list[str]:
    return list(find(name).presets)


def default_preset(name: str, *, of_the_paper: bool, kind: str = "other") -> str:
    """The preset where the user chooses none: by `EnvId.kind`, or by whether the paper has the environment."""
    entry = find(name)
    if entry.preset_of:
        return entry.preset_of[kind]
    return "general" if not of_the_paper and "general" in entry.presets else "paper"


def default_num_envs(name: str, preset: str) -> int:
    """Environments side by side, where the user sets no number."""
    return find(name).num_envs.get(preset, 1)


def configure(name: str, options: Mapping[str, object], preset: str = "paper") -> AgentConfig:
    """The agent's config: its defaults, then the preset's, then `options`."""
    entry = find(name)
    if preset not in entry.presets:
        if not any(preset in other.presets for other in AGENTS.values()):
            raise unknown("preset", preset, entry.presets)
        raise UserError(f"preset {preset} is for other agents; agent {name} has {', '.join(entry.presets)}.")
    config: AgentConfig = build(entry.config, {**_applicable(entry, preset), **options}, kind=f"agent {name}")
    return config


def _applicable(entry: Entry, preset: str) -> dict[str, object]:
    """The preset's options that the agent has. Without explorers, their number is added to the exploiters'."""
    options = dict(entry.presets[preset])
    fields = {field.name for field in dataclasses.fields(entry.config)}
    if "explorers" in options and "explorers" not in fields:
        options["exploiters"] = sum(cast(int, options.pop(name)) for name in ("exploiters", "explorers"))
    return {name: value for name, value in options.items() if name in fields}
