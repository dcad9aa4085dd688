"""Options of R2D2 and its ensembles, with the paper's defaults (tables 4 and 5), and presets for smaller machines."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tdu.agents.config import Presets, check_replay
from tdu.errors import UserError
from tdu.networks.kinds import TORSO_HELP, TorsoKind
from tdu.options import changed, option

if TYPE_CHECKING:
    from tdu.agents.r2d2.sequences import Shape


@dataclass(frozen=True)
class Config:
    """R2D2 with one head; `exploiters` makes it bootstrapped."""

    exploiters: int = option(1, "Value functions trained on the reward (K).", minimum=1, maximum=1000)
    discount: float = option(0.997, "Discount factor γ.", minimum=0, maximum=1)
    td_lambda: float = option(0.97, "λ of Peng's Q(λ).", minimum=0, maximum=1)
    batch_size: int = option(64, "Sequences per learning step.", minimum=1, maximum=10**5)
    trace_length: int = option(80, "Steps of a sequence that are learned from.", minimum=1, maximum=10**5)
    burn_in: int = option(20, "Steps before them that only bring the memory up to date.", minimum=0, maximum=10**5)
    replay_period: int = option(40, "Steps between the starts of two sequences.", minimum=1, maximum=10**5)
    replay_capacity: int = option(100_000, "Capacity of the replay, in sequences.", minimum=1, maximum=10**8)
    min_replay: int = option(5000, "Sequences in the replay before learning starts.", minimum=1)
    compress: bool = option(False, "Compress stored frames (zlib): less memory, slower.")
    priority_exponent: float = option(0.9, "Exponent of priorities.", minimum=0)
    importance_exponent: float = option(0.6, "Exponent of importance weights.", minimum=0)
    learn_period: int = option(3200, "Environment steps per learning step.", minimum=1)
    rollout: int = option(
        20, "Most steps of every environment between two rounds of learning.", minimum=1, maximum=10**4
    )
    learning_rate: float = option(2e-4, "Adam's learning rate.", above=0)
    adam_eps: float = option(1e-3, "Adam's ε.", above=0)
    clip: float = option(40.0, "Largest norm of the gradient; larger ones are scaled down.", above=0)
    target_period: int = option(400, "Learning steps between copies of the target network.", minimum=1, maximum=10**8)
    torso: TorsoKind = option("auto", TORSO_HELP)
    filters: tuple[int, ...] = option((32, 64, 64), "Filters of the convolutions; as many of them as fit the image.")
    pixels: int = option(
        0,
        "Images are averaged over squares until a side has about this many pixels; 0 for never.",
        minimum=0,
        maximum=10**4,
    )
    hidden_sizes: tuple[int, ...] = option((512,), "Widths of the layers before the LSTM.")
    lstm_size: int = option(512, "Width of the LSTM; 0 for no memory.", minimum=0, maximum=65_536)
    head_size: int = option(512, "Width of the hidden layer of each head's two streams.", minimum=1, maximum=65_536)
    feed_back: bool = option(True, "Feed the network the previous action and reward too.")
    mask_prob: float = option(1.0, "Probability ρ that a head learns from a stored sequence.", above=0, maximum=1)
    head_steps: int = option(100, "Steps that a head acts before another is drawn.", minimum=1)
    prior_scale: float = option(0.0, "Scale λ of each head's fixed random prior function; 0 for none.", minimum=0)
    prior_width: float = option(0.25, "Width of the prior's layers, as a share of the network's.", above=0, maximum=1)
    evaluation_epsilon: float = option(
        0.001, "Probability of a random action of the trained policy.", minimum=0, maximum=1
    )
    evaluate: Literal["exploiters", "explorers"] = option(
        "exploiters", "Heads whose mean value the trained policy maximises; explorers are the paper's ablation."
    )

    @property
    def explorers(self) -> int:
        """Value functions trained on reward plus bonus (N); an option of the agents that have some."""
        return 0

    @property
    def heads(self) -> int:
        return self.exploiters + self.explorers

    @property
    def shape(self) -> "Shape":
        from tdu.agents.r2d2.sequences import Shape

        return Shape(self.burn_in, self.trace_length, self.replay_period)

    def __post_init__(self) -> None:
        if self.trace_length < self.burn_in:
            raise UserError(
                f"trace_length ({self.trace_length}) is shorter than burn_in ({self.burn_in}): a sequence must have at "
                "least as many steps to learn from as steps of burn-in; make burn_in smaller."
            )
        if self.replay_period > self.trace_length:
            raise UserError(
                f"replay_period ({self.replay_period}) must not be larger than trace_length ({self.trace_length}), or some "
                "steps would never be learned from."
            )
        check_replay(self.replay_capacity, batch_size=self.batch_size, min_replay=self.min_replay)
        if not self.prior_scale and changed(self, "prior_width"):
            raise UserError("prior_width is of the prior; with prior_scale 0 it has no effect.")
        if self.evaluate == "explorers" and not self.explorers:
            raise UserError("evaluate=explorers needs explorers; this agent has none.")


@dataclass(frozen=True)
class BootstrappedConfig(Config):
    """Bootstrapped R2D2: the paper's ensemble of ten with priors. It gives no λ; 0.1 is its value for TDU-R2D2+."""

    exploiters: int = option(10, "Value functions trained on the reward (K).", minimum=1, maximum=1000)
    prior_scale: float = option(0.1, "Scale λ of each head's fixed random prior function; 0 for none.", minimum=0)


@dataclass(frozen=True)
class TduR2D2Config(Config):
    """TDU-R2D2: K = N = 5, no prior, β = 1."""

    exploiters: int = option(5, "Value functions trained on the reward (K).", minimum=1, maximum=1000)
    explorers: int = option(5, "Value functions trained on reward plus bonus (N).", minimum=1, maximum=1000)
    beta: float = option(1.0, "Weight β of the bonus; 0.1 for the paper's variants L.", minimum=0)
    bonus: Literal["tdu", "qu", "qex", "counts", "rnd"] = option(
        "tdu",
        "The explorers' bonus: σ of TD errors, σ of values, |δ| alone, rare pairs, or the error of distillation.",
    )
    divisor: Literal["unbiased", "biased"] = option("unbiased", "σ divides by K − 1 (eq. 7) or by K.")
    resolution: float = option(
        0.1, "Width of the cells in which observations that are not one-hot are counted.", above=0
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bonus in ("tdu", "qu") and self.exploiters < 2:
            raise UserError(f"bonus {self.bonus} needs at least two exploiters to disagree, not {self.exploiters}.")
        for name, choice in (("divisor", "tdu"), ("resolution", "counts")):
            if self.bonus != choice and changed(self, name):
                raise UserError(f"{name} is for bonus={choice}; with {self.bonus} it has no effect.")


@dataclass(frozen=True)
class TduPriorConfig(TduR2D2Config):
    """TDU-R2D2+: K = 8, N = 2, prior 0.1, β = 1."""

    exploiters: int = option(8, "Value functions trained on the reward (K).", minimum=1, maximum=1000)
    explorers: int = option(2, "Value functions trained on reward plus bonus (N).", minimum=1, maximum=1000)
    prior_scale: float = option(0.1, "Scale λ of each head's fixed random prior function; 0 for none.", minimum=0)


_SMALL: dict[str, object] = {
    "batch_size": 32, "trace_length": 20, "burn_in": 5, "replay_period": 10, "replay_capacity": 10_000, "min_replay": 100,
    "learn_period": 32, "learning_rate": 1e-3, "adam_eps": 1e-5, "target_period": 100, "hidden_sizes": (64,),
    "lstm_size": 64, "head_size": 64,
}  # fmt: skip

PRESETS: Presets = {
    "paper": {},
    "memory": _SMALL | {"hidden_sizes": (32,)},
    "deep-sea": _SMALL,
    "minatar": _SMALL
    | {"torso": "mlp", "hidden_sizes": (128,), "lstm_size": 128, "discount": 0.99, "learning_rate": 5e-4},
    "atari-small": _SMALL
    | {
        "batch_size": 16, "learn_period": 160, "discount": 0.99, "learning_rate": 5e-4, "adam_eps": 1e-4,
        "target_period": 200, "filters": (16, 32), "pixels": 42, "hidden_sizes": (128,), "lstm_size": 128,
    },
}  # fmt: skip
"""Sets of defaults: the paper's table 4, which needs a cluster, and four that learn on a laptop."""

NUM_ENVS = {"paper": 256, "memory": 8, "deep-sea": 8, "minatar": 16, "atari-small": 16}
"""Default number of environments, by preset."""

PRESET_OF = {"deep_sea": "deep-sea", "minatar": "minatar", "atari": "atari-small", "other": "memory"}
"""Default preset by kind of environment (`EnvId.kind`)."""
