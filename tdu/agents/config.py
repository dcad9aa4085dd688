"""What the Q-learning agents have in common: their options, with the paper's defaults (table 2)."""

from dataclasses import dataclass
from typing import Literal

from tdu.errors import UserError
from tdu.options import changed, option


@dataclass(frozen=True)
class QConfig:
    """Options of every Q-learner."""

    discount: float = option(0.99, "Discount factor γ.", minimum=0, maximum=1)
    batch_size: int = option(32, "Transitions per learning step.", minimum=1)
    hidden_sizes: tuple[int, ...] = option((64, 64), "Widths of the hidden layers.")
    torso: Literal["auto", "mlp", "conv"] = option(
        "auto", "Before the hidden layers: 3×3 windows for images (conv), nothing (mlp), or whatever fits (auto)."
    )
    observations: Literal["raw", "standard"] = option(
        "raw",
        "What networks see of vectors of numbers: them as they are, or centred and scaled by what was seen.",
    )
    learning_rate: float = option(1e-3, "Adam's learning rate.", above=0)
    adam_eps: float = option(1e-8, "Adam's ε.", above=0)
    replay_capacity: int = option(10_000, "How many of the last transitions are kept.", minimum=1, maximum=10**7)
    min_replay: int = option(128, "Learning starts once so many transitions are stored.", minimum=1)
    learn_period: int = option(1, "Environment steps per learning step.", minimum=1)
    target_period: int = option(4, "Learning steps between copies of the target network.", minimum=1, maximum=10**8)
    bootstrap: Literal["max", "double"] = option(
        "max", "Target: the target network's largest value, or its value of the online network's choice."
    )
    epsilon: float = option(0.0, "Probability of a random action.", minimum=0, maximum=1)
    dense: bool = option(False, "Use the ordinary first layer even where the observation is one-hot.")

    def __post_init__(self) -> None:
        if self.batch_size > self.replay_capacity:
            raise UserError(
                f"batch_size ({self.batch_size}) must not be larger than replay_capacity ({self.replay_capacity})."
            )
        if self.min_replay > self.replay_capacity:
            raise UserError(
                f"min_replay ({self.min_replay}) must not be larger than replay_capacity ({self.replay_capacity})."
            )


@dataclass(frozen=True)
class LearnerConfig(QConfig):
    """Options of the agents that `q_ensemble` trains, whether they have one network or many."""

    reward_unit: Literal["one", "largest", "returns"] = option(
        "one",
        "Unit in which values are learned: 1; the largest reward seen, where that is above 10 or below 0.1; or (returns) "
        "the same, times 10 or 100 once discounted returns exceed so many.",
    )
    return_steps: int = option(
        1, "n of n-step returns: a target sums the rewards of so many steps.", minimum=1, maximum=1000
    )
    return_cut: Literal["never", "worse"] = option(
        "never",
        "Where those steps end for a head: never before the last, or (worse) at the first that it would not have taken and "
        "that earned less than it expects: for tasks that leave little to chance; the more steps, the slower.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.return_cut != "never" and self.return_steps == 1:
            raise UserError(
                "return_cut is for targets of several steps, and return_steps is 1; give return_steps=3 as well."
            )


@dataclass(frozen=True)
class SingleConfig(LearnerConfig):
    """Options of the agents with one network (QEX has two), with the defaults of bsuite's DQN."""

    min_replay: int = option(100, "Learning starts once so many transitions are stored.", minimum=1)


@dataclass(frozen=True)
class DqnConfig(SingleConfig):
    """Options of those that act ε-greedily."""

    epsilon: float = option(0.05, "Probability of a random action.", minimum=0, maximum=1)


@dataclass(frozen=True)
class EnsembleConfig(LearnerConfig):
    """Options of every ensemble."""

    exploiters: int = option(20, "Value functions trained on the reward (K).", minimum=1)
    ensemble: Literal["networks", "heads"] = option(
        "networks", "One network for each head, or linear heads on one shared network, which is faster."
    )
    prior_scale: float = option(3.0, "Scale λ of each head's fixed random prior function; 0 for none.", minimum=0)
    dense_prior: float = option(
        1.0, "What λ is multiplied by where the observation is not one-hot.", above=0, maximum=1
    )
    prior_size: Literal["fan_in", "unit"] = option(
        "fan_in",
        "Size of a prior before λ: it shrinks as the observation gets wider, as in the paper (fan_in), or it has standard "
        "deviation 0.9 for every observation (unit).",
    )
    mask_prob: float = option(1.0, "Probability ρ that a head trains on a transition.", above=0, maximum=1)
    noise_scale: float = option(0.0, "Standard deviation of Gaussian reward noise, drawn per head.", minimum=0)
    acting: Literal["frozen", "live"] = option(
        "frozen", "Act with the head as it was when the episode began, or as it learns."
    )
    head_steps: int = option(
        0,
        "Another head is drawn after so many steps of an episode; 0: one acts to its end.",
        minimum=0,
        maximum=10**8,
    )
    head_choice: Literal["uniform", "ucb1", "mixed"] = option(
        "uniform", "How the head of an episode is drawn: uniformly, by UCB1, or an explorer with explorer_prob."
    )
    ucb_eta: float = option(8.0, "UCB1's weight η of the bound.", minimum=0)
    explorer_prob: float = option(0.5, "Probability of an explorer where head_choice is mixed.", minimum=0, maximum=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.head_choice == "mixed" and getattr(self, "explorers", 0) < 1:
            raise UserError("head_choice mixed needs at least one explorer; use uniform or ucb1.")
        for name, choice in (("ucb_eta", "ucb1"), ("explorer_prob", "mixed")):
            if self.head_choice != choice and changed(self, name):
                raise UserError(f"{name} is for head_choice={choice}; with {self.head_choice} it would change nothing.")


PRESETS: dict[str, dict[str, object]] = {
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
        "exploiters": 10,
        "explorers": 10,
        "prior_size": "unit",
        "prior_scale": 1.0,
        "mask_prob": 0.75,
        "batch_size": 128,
        "replay_capacity": 1_000_000,
        "adam_eps": 1e-5,
        "acting": "live",
    },
}
"""Sets of defaults.

- `paper`: the paper's table 2.
- `listing`: the same with batch 128, the batch size of the bsuite code that the paper's listing extends.
- `boot_dqn`: the settings of bsuite's boot_dqn today.
- `general`: for tasks with cycles, which most tasks have.
- `deep`: for Deep Sea of every size up to 100 and beyond (docs/deep-sea.md).

An ensemble without explorers has as many exploiters as both together, and no bonus.
"""

SINGLE_PRESETS: dict[str, dict[str, object]] = {
    "paper": {},
    "general": {
        name: PRESETS["general"][name]
        for name in (
            "observations", "reward_unit", "bootstrap", "learning_rate", "target_period", "return_steps", "replay_capacity",
        )
    },
}  # fmt: skip
"""The same for agents with one network: those of the general settings that apply to them."""
