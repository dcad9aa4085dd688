"""QU: TDU with the spread of the exploiters' values in place of that of their TD errors (the paper's ablation)."""

from dataclasses import dataclass

from tdu import bonus
from tdu.agents import assemble
from tdu.agents.config import EnsembleConfig
from tdu.options import option
from tdu.types import Agent, EnvSpec


@dataclass(frozen=True)
class QuConfig(EnsembleConfig):
    """As TDU: λ = 3, β = 1."""

    exploiters: int = option(10, "Value functions trained on the reward (K).", minimum=2)
    explorers: int = option(10, "Value functions trained on reward plus bonus (N).", minimum=1)
    beta: float = option(1.0, "Weight β of the bonus σ(Q).", minimum=0)


def make(spec: EnvSpec, config: QuConfig) -> Agent:
    """The agent for an environment."""
    return assemble.ensemble(spec, config, bonus=bonus.q_uncertainty(config.beta))
