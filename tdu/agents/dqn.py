"""DQN: one head that acts ε-greedily as it learns (Mnih et al., 2015), with bsuite's settings."""

from tdu import behaviour, bonus
from tdu.agents import assemble
from tdu.agents.config import DqnConfig
from tdu.types import Agent, EnvSpec


def make(spec: EnvSpec, config: DqnConfig) -> Agent:
    """The agent for an environment."""
    choice = behaviour.uniform(1, config.epsilon)
    return assemble.single(spec, config, exploiters=1, explorers=0, bonus=bonus.nothing(), behaviour=choice)
