"""The options that single agents add to those of `config.py`, with the paper's best values.

Like every file of options, it does not import JAX, so that `--help` starts quickly.
"""

from dataclasses import dataclass
from typing import Literal

from tdu.agents.config import DqnConfig, EnsembleConfig, QConfig, SingleConfig
from tdu.errors import UserError
from tdu.networks.kinds import TORSO_HELP, TorsoKind
from tdu.options import changed, option


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


@dataclass(frozen=True)
class QuConfig(EnsembleConfig):
    """As TDU: λ = 3, β = 1."""

    exploiters: int = option(10, "Value functions trained on the reward (K).", minimum=2)
    explorers: int = option(10, "Value functions trained on reward plus bonus (N).", minimum=1)
    beta: float = option(1.0, "Weight β of the bonus σ(Q).", minimum=0)


@dataclass(frozen=True)
class QUcbConfig(EnsembleConfig):
    """Twenty heads, λ = 3, β = 1."""

    exploiters: int = option(20, "Value functions trained on the reward (K).", minimum=2)
    beta: float = option(1.0, "Weight β of σ(Q) in the choice of actions.", minimum=0)


@dataclass(frozen=True)
class QexConfig(DqnConfig):
    beta: float = option(10.0, "Scale β of the explorer's reward |δ|.", minimum=0)
    explorer_prob: float = option(0.5, "Probability that the explorer acts in an episode.", minimum=0, maximum=1)


@dataclass(frozen=True)
class CtsConfig(DqnConfig):
    beta: float = option(0.1, "Weight β of the bonus.", minimum=0)
    resolution: float = option(
        0.1, "Width of the cells in which observations are counted; one-hot observations are counted exactly.", above=0
    )


@dataclass(frozen=True)
class NnsConfig(SingleConfig):
    noise_scale: float = option(10.0, "Standard deviation β of the noise ε.", minimum=0)
    noise_init: float = option(0.017, "Initial value of each weight's noise scale σ.", minimum=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise_scale == 0 and changed(self, "noise_init"):
            raise UserError("noise_init needs noise; with noise_scale 0 it would change nothing.")


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


@dataclass(frozen=True)
class SuConfig(QConfig):
    """bsuite's DQN with the paper's best values."""

    hidden_sizes: tuple[int, ...] = option((64,), "Widths of the hidden layers.")
    min_replay: int = option(100, "Transitions in the replay before learning starts.", minimum=1)
    successor: Literal["auto", "network", "table"] = option(
        "auto",
        "Form of ψ: a network, a table with one row per state, or (auto) the table where observations are one-hot.",
    )
    features: int = option(64, "Width of φ and ψ for each action.", minimum=1, maximum=1024)
    likelihood_variance: float = option(10.0, "Variance of the noise in rewards.", above=0)
    prior_variance: float = option(1e-3, "Variance of the weights before any reward is seen.", above=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bootstrap != "max":
            raise UserError("agent su chooses actions by its sample of weights; bootstrap=double would change nothing.")
        if self.observations != "raw":
            raise UserError("agent su needs raw observations: standardised ones may be negative; leave it out.")


@dataclass(frozen=True)
class TduAcConfig:
    discount: float = option(0.99, "Discount factor γ.", minimum=0, maximum=1)
    sequence_length: int = option(32, "Environment steps per learning step.", minimum=2, maximum=10**6)
    td_lambda: float = option(
        0.9, "λ of the returns that the policy and its baseline learn from.", minimum=0, maximum=1
    )
    entropy_cost: float = option(0.0, "Weight of the policy's entropy in its loss.", minimum=0)
    hidden_sizes: tuple[int, ...] = option((64, 64), "Widths of the hidden layers.")
    torso: TorsoKind = option("auto", TORSO_HELP)
    learning_rate: float = option(3e-3, "Adam's learning rate.", above=0)
    adam_eps: float = option(1e-8, "Adam's ε.", above=0)
    critics: int = option(10, "Critics trained on the reward (K).", minimum=2)
    prior_scale: float = option(3.0, "Scale λ of each critic's fixed random prior function; 0 for none.", minimum=0)
    beta: float = option(1.0, "Weight β of the bonus; 0 for a plain actor-critic.", minimum=0)
    divisor: Literal["unbiased", "biased"] = option("unbiased", "σ divides by K − 1 (eq. 7) or by K.")
    dense: bool = option(False, "Use the dense first layer for one-hot observations too.")
