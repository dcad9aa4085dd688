"""Agents with one network, and QEX with two, with the settings of bsuite's DQN and the paper's best values."""

from tdu import behaviour, bonus, values
from tdu.agents import assemble
from tdu.agents.config import DqnConfig
from tdu.agents.own_options import CtsConfig, NnsConfig, QexConfig, RndConfig
from tdu.errors import UserError
from tdu.networks import noisy
from tdu.options import changed
from tdu.types import Agent, EnvSpec, Values


def dqn(spec: EnvSpec, config: DqnConfig) -> Agent:
    """DQN: acts ε-greedily as it learns (Mnih et al., 2015)."""
    return assemble.single(spec, config, exploiters=1, bonus=bonus.nothing())


def qex(spec: EnvSpec, config: QexConfig) -> Agent:
    """A second network whose only reward is the absolute TD error of the first (Simmons-Edler et al., 2019)."""
    choice = behaviour.mixed(1, 2, config.explorer_prob, config.epsilon)
    surprise = bonus.absolute_td(config.beta)
    return assemble.single(spec, config, exploiters=1, explorers=1, bonus=surprise, behaviour=choice)


def cts(spec: EnvSpec, config: CtsConfig) -> Agent:
    """DQN paid r + β·(n(s, a) + 0.01)^−½, n the visit count of a state-action pair (after Bellemare et al., 2016)."""
    if spec.num_states is not None and changed(config, "resolution"):
        raise UserError(
            f"{spec.name} has one-hot observations, which are counted exactly: resolution would change nothing."
        )
    return assemble.single(
        spec, config, explorers=1, bonus=bonus.counts(config.beta, spec, resolution=config.resolution)
    )


def nns(spec: EnvSpec, config: NnsConfig) -> Agent:
    """DQN with noisy networks in place of random actions (Fortunato et al., 2017)."""
    weights = noisy.weights(config.noise_scale, config.noise_init)
    return assemble.single(spec, config, exploiters=1, bonus=bonus.nothing(), weights=weights)


def rnd(spec: EnvSpec, config: RndConfig) -> Agent:
    """DQN paid for the error of a network that learns to predict a fixed random one (Burda et al., 2018)."""
    surprise = bonus.distillation(config.beta, predictor(spec, config), decay=config.decay, normalise=config.normalise)
    return assemble.single(spec, config, explorers=1, bonus=surprise)


def predictor(spec: EnvSpec, config: RndConfig) -> Values:
    """f − f̃, with f trained and f̃ fixed: a value function with a prior of scale −1."""
    shape = assemble.shape(config, heads=1, prior_scale=-1.0)
    return values.make(spec._replace(num_actions=config.features), shape, force_dense=config.dense)
