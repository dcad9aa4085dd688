"""TDU and the ensembles it is compared with: BDQN, QU and Q+UCB."""

from tdu import bonus
from tdu.agents import assemble
from tdu.agents.config import EnsembleConfig
from tdu.agents.own_options import QUcbConfig, QuConfig, TduConfig
from tdu.types import Agent, EnvSpec


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


def qu(spec: EnvSpec, config: QuConfig) -> Agent:
    """TDU with the spread of the exploiters' values in place of that of their TD errors (the paper's ablation)."""
    return assemble.ensemble(spec, config, bonus=bonus.q_uncertainty(config.beta))


def q_ucb(spec: EnvSpec, config: QUcbConfig) -> Agent:
    """BDQN that acts on argmax Q_k + β·σ(Q), σ the spread of all heads' values (the paper's ablation)."""
    return assemble.ensemble(spec, config, bonus=bonus.nothing(), optimism=config.beta)
