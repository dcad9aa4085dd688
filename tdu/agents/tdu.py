"""TDU: K exploiters learn the task; N explorers are paid r + β·σ, σ the spread of the exploiters' TD errors."""

from dataclasses import dataclass
from typing import Literal

from tdu import bonus
from tdu.agents import assemble
from tdu.agents.config import EnsembleConfig
from tdu.options import option
from tdu.types import Agent, EnvSpec


@dataclass(frozen=True)
class Config(EnsembleConfig):
    """TDU with the paper's best values, λ = 3 and β = 1."""

    exploiters: int = option(10, "Value functions trained on the reward (K).", minimum=2)
    explorers: int = option(10, "Value functions trained on reward plus bonus (N).", minimum=1)
    beta: float = option(1.0, "Weight β of the bonus.", minimum=0)
    divisor: Literal["unbiased", "biased"] = option("unbiased", "σ divides by K − 1 (eq. 7) or by K.")


def make(spec: EnvSpec, config: Config) -> Agent:
    """The agent for an environment."""
    paid = bonus.td_uncertainty(config.beta, unbiased=config.divisor == "unbiased")
    return assemble.ensemble(spec, config, explorers=config.explorers, bonus=paid)
