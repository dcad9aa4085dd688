"""Q+UCB: BDQN that acts on argmax Q_k + β·σ(Q), σ the spread of all heads' values (the paper's ablation)."""

from dataclasses import dataclass

from tdu import bonus
from tdu.agents import assemble
from tdu.agents.config import EnsembleConfig
from tdu.options import option
from tdu.types import Agent, EnvSpec


@dataclass(frozen=True)
class QUcbConfig(EnsembleConfig):
    """Twenty heads, λ = 3, β = 1."""

    exploiters: int = option(20, "Value functions trained on the reward (K).", minimum=2)
    beta: float = option(1.0, "Weight β of σ(Q) in the choice of actions.", minimum=0)


def make(spec: EnvSpec, config: QUcbConfig) -> Agent:
    """The agent for an environment."""
    return assemble.ensemble(spec, config, bonus=bonus.nothing(), optimism=config.beta)
