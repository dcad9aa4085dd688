"""Agents with one network, and QEX with two, with the settings of bsuite's DQN and the paper's best values."""

from dataclasses import dataclass

from tdu import behaviour, bonus, values
from tdu.agents import assemble
from tdu.agents.config import DqnConfig, SingleConfig
from tdu.errors import UserError
from tdu.networks import noisy
from tdu.options import changed, option
from tdu.types import Agent, EnvSpec, Values


def dqn(spec: EnvSpec, config: DqnConfig) -> Agent:
    """DQN: acts ε-greedily as it learns (Mnih et al., 2015)."""
    return assemble.single(spec, config, exploiters=1, bonus=bonus.nothing())


@dataclass(frozen=True)
class QexConfig(DqnConfig):
    beta: float = option(10.0, "Scale β of the explorer's reward |δ|.", minimum=0)
    explorer_prob: float = option(0.5, "Probability that the explorer acts in an episode.", minimum=0, maximum=1)


def qex(spec: EnvSpec, config: QexConfig) -> Agent:
    """A second network whose only reward is the absolute TD error of the first (Simmons-Edler et al., 2019)."""
    choice = behaviour.mixed(1, 2, config.explorer_prob, config.epsilon)
    surprise = bonus.absolute_td(config.beta)
    return assemble.single(spec, config, exploiters=1, explorers=1, bonus=surprise, behaviour=choice)


@dataclass(frozen=True)
class CtsConfig(DqnConfig):
    beta: float = option(0.1, "Weight β of the bonus.", minimum=0)
    resolution: float = option(
        0.1, "Width of the cells in which observations are counted; one-hot observations are counted exactly.", above=0
    )


def cts(spec: EnvSpec, config: CtsConfig) -> Agent:
    """DQN paid r + β·(n(s, a) + 0.01)^−½, n the visit count of a state-action pair (after Bellemare et al., 2016)."""
    if spec.num_states is not None and changed(config, "resolution"):
        raise UserError(
            f"{spec.name} has one-hot observations, which are counted exactly: resolution would change nothing."
        )
    return assemble.single(
        spec, config, explorers=1, bonus=bonus.counts(config.beta, spec, resolution=config.resolution)
    )


@dataclass(frozen=True)
class NnsConfig(SingleConfig):
    noise_scale: float = option(10.0, "Standard deviation β of the noise ε.", minimum=0)
    noise_init: float = option(0.017, "Initial value of each weight's noise scale σ.", minimum=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise_scale == 0 and changed(self, "noise_init"):
            raise UserError("noise_init needs noise; with noise_scale 0 it would change nothing.")


def nns(spec: EnvSpec, config: NnsConfig) -> Agent:
    """DQN with noisy networks in place of random actions (Fortunato et al., 2017)."""
    weights = noisy.weights(config.noise_scale, config.noise_init)
    return assemble.single(spec, config, exploiters=1, bonus=bonus.nothing(), weights=weights)


@dataclass(frozen=True)
class RndConfig(DqnConfig):
    beta: float = option(10.0, "Weight β of the bonus.", minimum=0)
    features: int = option(10, "Width m of the networks' output.", minimum=1)
    decay: float = option(0.999, "Decay α of the moving averages that normalise the bonus.", minimum=0, below=1)
    normalise: bool = option(True, "Normalise the bonus by moving averages of its mean and standard deviation.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.normalise and changed(self, "decay"):
            raise UserError("decay is for normalise=true; with normalise=false it would change nothing.")


def rnd(spec: EnvSpec, config: RndConfig) -> Agent:
    """DQN paid for the error of a network that learns to predict a fixed random one (Burda et al., 2018)."""
    surprise = bonus.distillation(config.beta, predictor(spec, config), decay=config.decay, normalise=config.normalise)
    return assemble.single(spec, config, explorers=1, bonus=surprise)


def predictor(spec: EnvSpec, config: RndConfig) -> Values:
    """f − f̃, with f trained and f̃ fixed: a value function with a prior of scale −1."""
    shape = assemble.shape(config, heads=1, prior_scale=-1.0)
    return values.make(spec._replace(num_actions=config.features), shape, force_dense=config.dense)
