"""CTS: DQN paid r + β·(n(s, a) + 0.01)^−½, n the visit count of a state-action pair (after Bellemare et al., 2016)."""

from dataclasses import dataclass

from tdu import behaviour, bonus
from tdu.agents import assemble
from tdu.agents.config import DqnConfig
from tdu.errors import UserError
from tdu.options import changed, option
from tdu.types import Agent, EnvSpec


@dataclass(frozen=True)
class CtsConfig(DqnConfig):
    """bsuite's DQN with the paper's best β."""

    beta: float = option(0.1, "Weight β of the bonus.", minimum=0)
    resolution: float = option(
        0.1,
        "Width of the cells in which observations are counted; one-hot observations are counted exactly.",
        above=0,
    )


def make(spec: EnvSpec, config: CtsConfig) -> Agent:
    """The agent for an environment."""
    if spec.num_states is not None and changed(config, "resolution"):
        raise UserError(
            f"{spec.name} has one-hot observations, which are counted exactly: resolution would change nothing."
        )
    novelty = bonus.counts(config.beta, spec, resolution=config.resolution)
    choice = behaviour.uniform(1, config.epsilon)
    return assemble.single(spec, config, exploiters=0, explorers=1, bonus=novelty, behaviour=choice)
