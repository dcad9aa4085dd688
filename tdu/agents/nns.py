"""NNS: DQN with noisy networks in place of random actions (Fortunato et al., 2017)."""

from dataclasses import dataclass

from tdu import behaviour, bonus
from tdu.agents import assemble
from tdu.agents.config import SingleConfig
from tdu.errors import UserError
from tdu.networks import noisy
from tdu.options import changed, option
from tdu.types import Agent, EnvSpec


@dataclass(frozen=True)
class NnsConfig(SingleConfig):
    """bsuite's DQN, greedy, with the paper's best noise scale."""

    noise_scale: float = option(10.0, "Standard deviation β of the noise ε.", minimum=0)
    noise_init: float = option(0.017, "Initial value of each weight's noise scale σ.", minimum=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise_scale == 0 and changed(self, "noise_init"):
            raise UserError("noise_init needs noise; with noise_scale 0 it would change nothing.")


def make(spec: EnvSpec, config: NnsConfig) -> Agent:
    """The agent for an environment."""
    return assemble.single(
        spec,
        config,
        exploiters=1,
        explorers=0,
        bonus=bonus.nothing(),
        behaviour=behaviour.uniform(1, config.epsilon),
        weights=noisy.weights(config.noise_scale, config.noise_init),
    )
