"""BDQN: Bootstrapped DQN with random prior functions (Osband et al., 2016, 2018). TDU without explorers."""

from tdu import bonus
from tdu.agents import assemble
from tdu.agents.config import EnsembleConfig
from tdu.types import Agent, EnvSpec


def make(spec: EnvSpec, config: EnsembleConfig) -> Agent:
    """The agent for an environment."""
    return assemble.ensemble(spec, config, bonus=bonus.nothing())
