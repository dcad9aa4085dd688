"""Options of the Q-learning agents, with the paper's defaults (table 2).

Importing it does not import JAX, so that `--help` starts quickly.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tdu.errors import UserError
from tdu.networks.kinds import TORSO_HELP, EnsembleKind, TorsoKind
from tdu.options import changed, option

if TYPE_CHECKING:
    from tdu.types import Behaviour, EnvSpec, Optimiser

RewardUnit = Literal["one", "largest", "returns"]


@dataclass(frozen=True)
class QConfig:
    discount: float = option(0.99, "Discount factor γ.", minimum=0, maximum=1)
    batch_size: int = option(32, "Transitions per learning step.", minimum=1)
    hidden_sizes: tuple[int, ...] = option((64, 64), "Widths of the hidden layers.")
    torso: TorsoKind = option("auto", TORSO_HELP)
    observations: Literal["raw", "standard"] = option(
        "raw",
        "Network inputs for vectors of numbers: unchanged (raw), or with mean 0 and deviation 1 (standard).",
    )
    learning_rate: float = option(1e-3, "Adam's learning rate.", above=0)
    adam_eps: float = option(1e-8, "Adam's ε.", above=0)
    replay_capacity: int = option(
        10_000, "Number of transitions in the replay; the oldest are overwritten.", minimum=1, maximum=10**7
    )
    min_replay: int = option(128, "Transitions in the replay before learning starts.", minimum=1)
    learn_period: int = option(1, "Environment steps per learning step.", minimum=1)
    target_period: int = option(4, "Learning steps between copies of the target network.", minimum=1, maximum=10**8)
    bootstrap: Literal["max", "double"] = option(
        "max",
        "Target: the target network's largest value (max), or its value of the online network's best action (double).",
    )
    epsilon: float = option(0.0, "Probability of a random action.", minimum=0, maximum=1)
    dense: bool = option(False, "Use the dense first layer for one-hot observations too.")

    @property
    def optimiser(self) -> "Optimiser":
        from tdu.adam import Adam

        return Adam(self.learning_rate, eps=self.adam_eps)

    def __post_init__(self) -> None:
        check_replay(self.replay_capacity, batch_size=self.batch_size, min_replay=self.min_replay)


def check_replay(capacity: int, **sizes: int) -> None:
    """Refuses what a replay of this capacity cannot hold."""
    for name, size in sizes.items():
        if size > capacity:
            raise UserError(f"{name} ({size}) must not be larger than replay_capacity ({capacity}).")


@dataclass(frozen=True)
class LearnerConfig(QConfig):
    """Options of the agents that `q_ensemble` trains, with one network or many."""

    eager_steps: int = option(
        0,
        "Steps at the start of a run that are each followed by a learning step; later, one in learn_period is.",
        minimum=0,
    )
    reward_unit: RewardUnit = option(
        "one",
        "Unit in which values are learned: 1 (one); the largest reward seen, if it is above 10 or below 0.1 (largest); or "
        "the same, times 10 or 100 once discounted returns exceed 10 or 100 of it (returns).",
    )
    return_steps: int = option(
        1,
        "n of n-step returns.",
        minimum=1,
        maximum=1000,
    )
    dense_return_steps: int = option(
        0,
        "n for observations that are not one-hot, which may lack what an agent has to remember; 0 for return_steps.",
        minimum=0,
        maximum=1000,
    )
    return_cut: Literal["never", "worse"] = option(
        "never",
        "Where an n-step return ends for a head: after n steps (never), or before the first step that the head would not "
        "have taken and that earned less than it expects (worse). Use worse in nearly deterministic tasks; it is slower.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_replay(self.replay_capacity, eager_steps=self.eager_steps)
        if self.eager_steps and self.learn_period == 1:
            raise UserError("eager_steps needs learn_period above 1; set learn_period=4, for example.")
        if self.return_cut != "never" and max(self.return_steps, self.dense_return_steps) == 1:
            raise UserError("return_cut needs return_steps above 1; set return_steps=3, for example.")

    def steps_of_returns(self, spec: "EnvSpec") -> int:
        """n of n-step returns in an environment."""
        return self.return_steps if spec.num_states is not None else self.dense_return_steps or self.return_steps


@dataclass(frozen=True)
class SingleConfig(LearnerConfig):
    """Options of agents with one network (QEX has two), with the defaults of bsuite's DQN."""

    min_replay: int = option(100, "Transitions in the replay before learning starts.", minimum=1)


@dataclass(frozen=True)
class DqnConfig(SingleConfig):
    """Options of single-network agents that act ε-greedily."""

    epsilon: float = option(0.05, "Probability of a random action.", minimum=0, maximum=1)


@dataclass(frozen=True)
class EnsembleConfig(LearnerConfig):
    """Options of every ensemble; the defaults are the paper's for BDQN."""

    exploiters: int = option(20, "Value functions trained on the reward (K).", minimum=1)
    ensemble: EnsembleKind = option(
        "networks",
        "One network per head (networks), or linear heads on a shared network (heads), which is faster.",
    )
    prior_scale: float = option(3.0, "Scale λ of each head's fixed random prior function; 0 for none.", minimum=0)
    dense_prior: float = option(
        1.0,
        "Factor of λ for observations that are not one-hot.",
        above=0,
        maximum=1,
    )
    prior_size: Literal["fan_in", "unit"] = option(
        "fan_in",
        "Size of a prior before λ: smaller for wider observations, as in the paper (fan_in), or standard deviation 0.9 for "
        "every observation (unit).",
    )
    trace_decay: float = option(
        0.0,
        "Decay of a memory trace, a moving average of past observations that the networks see beside the current one; 0 for "
        "none. Not for one-hot observations, bytes, boards and images.",
        minimum=0,
        below=1,
    )
    mask_prob: float = option(1.0, "Probability ρ that a head learns from a transition.", above=0, maximum=1)
    noise_scale: float = option(0.0, "Standard deviation of Gaussian reward noise, drawn for each head.", minimum=0)
    acting: Literal["frozen", "live"] = option(
        "frozen", "Act with the head as it was when the episode began (frozen), or as it learns (live)."
    )
    head_steps: int = option(
        0,
        "Steps of an episode after which another head is drawn; 0 for one head per episode.",
        minimum=0,
        maximum=10**8,
    )
    head_choice: Literal["uniform", "ucb1", "mixed"] = option(
        "uniform", "How an episode's head is chosen: uniformly, by UCB1, or an explorer with explorer_prob (mixed)."
    )
    ucb_eta: float = option(8.0, "Weight η of UCB1's confidence bound.", minimum=0)
    explorer_prob: float = option(0.5, "Probability of an explorer with head_choice=mixed.", minimum=0, maximum=1)

    @property
    def explorers(self) -> int:
        """Value functions trained on reward plus bonus (N); an option of the agents that have some."""
        return 0

    @property
    def heads(self) -> int:
        return self.exploiters + self.explorers

    def behaviour(self) -> "Behaviour":
        """How the head of an episode is chosen and acts."""
        from tdu import behaviour as behaviours

        match self.head_choice:
            case "uniform":
                return behaviours.uniform(self.heads, self.epsilon)
            case "ucb1":
                return behaviours.ucb1(self.heads, self.ucb_eta, self.epsilon)
            case "mixed":
                return behaviours.mixed(self.exploiters, self.heads, self.explorer_prob, self.epsilon)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.head_choice == "mixed" and not self.explorers:
            raise UserError("head_choice mixed needs at least one explorer; use uniform or ucb1.")
        for name, choice in (("ucb_eta", "ucb1"), ("explorer_prob", "mixed")):
            if self.head_choice != choice and changed(self, name):
                raise UserError(f"{name} is for head_choice={choice}; with {self.head_choice} it would change nothing.")


Presets = dict[str, dict[str, object]]

PRESETS: Presets = {
    "paper": {},
    "listing": {"batch_size": 128},
    "boot_dqn": {"batch_size": 128, "hidden_sizes": (50, 50), "prior_scale": 5.0},
    "general": {
        "exploiters": 5,
        "explorers": 5,
        "prior_scale": 1.0,
        "dense_prior": 0.3,
        "observations": "standard",
        "reward_unit": "returns",
        "bootstrap": "double",
        "learning_rate": 5e-4,
        "target_period": 300,
        "return_steps": 3,
        "replay_capacity": 50_000,
        "epsilon": 0.05,
        "acting": "live",
        "head_steps": 500,
    },
    "deep": {
        "ensemble": "heads",
        "hidden_sizes": (128, 128),
        "exploiters": 15,
        "explorers": 5,
        "prior_size": "unit",
        "prior_scale": 0.3,
        "mask_prob": 0.75,
        "batch_size": 128,
        "replay_capacity": 1_000_000,
        "adam_eps": 1e-5,
        "acting": "live",
    },
    "bsuite": {
        "ensemble": "heads",
        "hidden_sizes": (64, 64),
        "exploiters": 15,
        "explorers": 5,
        "prior_size": "unit",
        "prior_scale": 0.3,
        "mask_prob": 0.75,
        "batch_size": 64,
        "replay_capacity": 100_000,
        "adam_eps": 1e-5,
        "acting": "live",
        "observations": "standard",
        "reward_unit": "returns",
        "trace_decay": 0.99,
        "bootstrap": "double",
        "learning_rate": 5e-4,
        "target_period": 300,
        "return_steps": 1,
        "dense_return_steps": 20,
        "discount": 0.9995,
        "epsilon": 0.01,
        "learn_period": 8,
        "eager_steps": 50_000,
    },
}
"""Presets: named sets of defaults.

- `paper`: the paper's table 2.
- `listing`: the same with batch size 128, as in the bsuite code that the paper's listing extends.
- `boot_dqn`: the settings of bsuite's boot_dqn.
- `general`: for tasks with cycles, which are most tasks.
- `deep`: for Deep Sea of every size up to 100 and beyond (docs/deep-sea.md).
- `bsuite`: one configuration for all of bsuite (docs/agents/tdu.md).

An agent without explorers has as many exploiters as exploiters and explorers together.
"""

SINGLE_PRESETS: Presets = {
    "paper": {},
    "general": {
        name: PRESETS["general"][name]
        for name in (
            "observations", "reward_unit", "bootstrap", "learning_rate", "target_period", "return_steps", "replay_capacity",
        )
    },
}  # fmt: skip
"""The same for agents with one network: the general settings that apply to them."""

PAPER_ONLY: Presets = {"paper": {}}
"""For agents without other presets."""
