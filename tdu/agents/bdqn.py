"""BDQN: the Bootstrapped DQN with random prior functions (Osband et al., 2016, 2018). TDU with β = 0 and N = 0."""

from dataclasses import dataclass

from tdu import bonus
from tdu.agents import assemble
from tdu.agents.config import EnsembleConfig
from tdu.types import Agent, EnvSpec


@dataclass(frozen=True)
class Config(EnsembleConfig):
    """Twenty heads and prior scale 3, the paper's best."""


def make(spec: EnvSpec, config: Config) -> Agent:
    """The agent for an environment."""
    return assemble.ensemble(spec, config, explorers=0, bonus=bonus.nothing())
