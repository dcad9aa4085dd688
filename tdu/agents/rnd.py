"""RND: DQN paid for the error of a network that learns to predict a fixed random one (Burda et al., 2018)."""

from dataclasses import dataclass

from tdu import behaviour, bonus, values
from tdu.agents import assemble
from tdu.agents.config import DqnConfig
from tdu.errors import UserError
from tdu.options import changed, option
from tdu.types import Agent, EnvSpec, Values


@dataclass(frozen=True)
class RndConfig(DqnConfig):
    """bsuite's DQN with the paper's best values."""

    beta: float = option(10.0, "Weight β of the bonus.", minimum=0)
    features: int = option(10, "Width m of the networks' output.", minimum=1)
    decay: float = option(0.999, "Decay α of the moving averages that normalise the bonus.", minimum=0, below=1)
    normalise: bool = option(True, "Normalise the bonus by moving averages of its mean and standard deviation.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.normalise and changed(self, "decay"):
            raise UserError("decay is for normalise=true; with normalise=false it would change nothing.")


def make(spec: EnvSpec, config: RndConfig) -> Agent:
    """The agent for an environment."""
    surprise = bonus.distillation(config.beta, predictor(spec, config), decay=config.decay, normalise=config.normalise)
    choice = behaviour.uniform(1, config.epsilon)
    return assemble.single(spec, config, exploiters=0, explorers=1, bonus=surprise, behaviour=choice)


def predictor(spec: EnvSpec, config: RndConfig) -> Values:
    """f − f̃, with f trained and f̃ fixed: a value function with a prior of scale −1."""
    shape = assemble.shape(config, heads=1, prior_scale=-1.0)
    return values.make(spec._replace(num_actions=config.features), shape, force_dense=config.dense)
