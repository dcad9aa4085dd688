"""TDU and the ensembles it is compared with: BDQN, QU and Q+UCB."""

from dataclasses import dataclass
from typing import Literal

from tdu import bonus
from tdu.agents import assemble
from tdu.agents.config import EnsembleConfig
from tdu.errors import UserError
from tdu.options import changed, option
from tdu.types import Agent, EnvSpec


@dataclass(frozen=True)
class TduConfig(EnsembleConfig):
    """TDU with the paper's best values, λ = 3 and β = 1."""

    exploiters: int = option(10, "Value functions trained on the reward (K).", minimum=2)
    explorers: int = option(10, "Value functions trained on reward plus bonus (N).", minimum=1)
    beta: float = option(1.0, "Weight β of the bonus.", minimum=0)
    beta_ladder: float = option(
        1.0, "Explorers' β range from beta/beta_ladder to beta·beta_ladder, in equal ratios; 1 for one β.", minimum=1
    )
    divisor: Literal["unbiased", "biased"] = option("unbiased", "σ divides by K − 1 (eq. 7) or by K.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if changed(self, "beta_ladder") and (self.explorers == 1 or self.beta == 0):
            raise UserError("beta_ladder needs two explorers and a beta above 0; otherwise it would change nothing.")


def tdu(spec: EnvSpec, config: TduConfig) -> Agent:
    """K exploiters learn the task; N explorers are paid r + β·σ, with σ the spread of the exploiters' TD errors."""
    uncertainty = bonus.td_uncertainty(ladder(config), unbiased=config.divisor == "unbiased")
    return assemble.ensemble(spec, config, bonus=uncertainty)


def ladder(config: TduConfig) -> float | list[float]:
    """β, or the β of each explorer, in equal ratios."""
    if config.beta_ladder == 1.0:
        return config.beta
    rungs = [2 * i / (config.explorers - 1) - 1 for i in range(config.explorers)]
    return [config.beta * config.beta_ladder**rung for rung in rungs]


def bdqn(spec: EnvSpec, config: EnsembleConfig) -> Agent:
    """Bootstrapped DQN with random prior functions (Osband et al., 2016, 2018): TDU without explorers."""
    return assemble.ensemble(spec, config, bonus=bonus.nothing())


@dataclass(frozen=True)
class QuConfig(EnsembleConfig):
    """As TDU: λ = 3, β = 1."""

    exploiters: int = option(10, "Value functions trained on the reward (K).", minimum=2)
    explorers: int = option(10, "Value functions trained on reward plus bonus (N).", minimum=1)
    beta: float = option(1.0, "Weight β of the bonus σ(Q).", minimum=0)


def qu(spec: EnvSpec, config: QuConfig) -> Agent:
    """TDU with the spread of the exploiters' values in place of that of their TD errors (the paper's ablation)."""
    return assemble.ensemble(spec, config, bonus=bonus.q_uncertainty(config.beta))


@dataclass(frozen=True)
class QUcbConfig(EnsembleConfig):
    """Twenty heads, λ = 3, β = 1."""

    exploiters: int = option(20, "Value functions trained on the reward (K).", minimum=2)
    beta: float = option(1.0, "Weight β of σ(Q) in the choice of actions.", minimum=0)


def q_ucb(spec: EnvSpec, config: QUcbConfig) -> Agent:
    """BDQN that acts on argmax Q_k + β·σ(Q), σ the spread of all heads' values (the paper's ablation)."""
    return assemble.ensemble(spec, config, bonus=bonus.nothing(), optimism=config.beta)
