"""CTS: DQN paid r + β·(n(s, a) + 0.01)^−½ for state-action pairs it has seldom met (after Bellemare et al., 2016)."""

from dataclasses import dataclass

from tdu import behaviour, bonus
from tdu.agents import assemble
from tdu.agents.config import QConfig
from tdu.options import option
from tdu.types import Agent, EnvSpec


@dataclass(frozen=True)
class Config(QConfig):
    """bsuite's DQN with the paper's best β."""

    min_replay: int = option(100, "Learning starts once so many transitions are stored.", minimum=1)
    epsilon: float = option(0.05, "Probability of a random action.", minimum=0, maximum=1)
    beta: float = option(0.1, "Weight β of the bonus.", minimum=0)
    resolution: float = option(
        0.1,
        "Width of the cells that observations are cut into before counting; one-hot ones are counted exactly.",
        above=0,
    )


def make(spec: EnvSpec, config: Config) -> Agent:
    """The agent for an environment."""
    paid = bonus.counts(config.beta, spec, resolution=config.resolution)
    choice = behaviour.uniform(1, config.epsilon)
    return assemble.q_agent(spec, config, exploiters=0, explorers=1, bonus=paid, behaviour=choice)
