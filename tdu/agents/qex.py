"""QEX: a second network whose only reward is the absolute TD error of the first (Simmons-Edler et al., 2019)."""

from dataclasses import dataclass

from tdu import behaviour, bonus
from tdu.agents import assemble
from tdu.agents.config import DqnConfig
from tdu.options import option
from tdu.types import Agent, EnvSpec


@dataclass(frozen=True)
class QexConfig(DqnConfig):
    """bsuite's DQN with the paper's best β."""

    beta: float = option(10.0, "Scale β of the explorer's reward |δ|.", minimum=0)
    explorer_prob: float = option(0.5, "Probability that the explorer acts in an episode.", minimum=0, maximum=1)


def make(spec: EnvSpec, config: QexConfig) -> Agent:
    """The agent for an environment."""
    choice = behaviour.mixed(1, 2, config.explorer_prob, config.epsilon)
    surprise = bonus.absolute_td(config.beta)
    return assemble.single(spec, config, exploiters=1, explorers=1, bonus=surprise, behaviour=choice)
