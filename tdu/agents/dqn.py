"""DQN: one head that acts ε-greedily as it learns (Mnih et al., 2015; bsuite's settings)."""

from dataclasses import dataclass

from tdu import behaviour, bonus
from tdu.agents import assemble
from tdu.agents.config import QConfig
from tdu.options import option
from tdu.types import Agent, EnvSpec


@dataclass(frozen=True)
class Config(QConfig):
    """bsuite's DQN."""

    min_replay: int = option(100, "Learning starts once so many transitions are stored.", minimum=1)
    epsilon: float = option(0.05, "Probability of a random action.", minimum=0, maximum=1)


def make(spec: EnvSpec, config: Config) -> Agent:
    """The agent for an environment."""
    choice = behaviour.uniform(1, config.epsilon)
    return assemble.q_agent(spec, config, exploiters=1, explorers=0, bonus=bonus.nothing(), behaviour=choice)
