"""Settings in the ids of environments, with their defaults and ranges."""

from dataclasses import dataclass
from typing import Literal

from tdu.options import option

GYM_EPISODES = 1000
"""Default number of episodes on Gymnasium, Atari and other JAX libraries."""


@dataclass(frozen=True)
class DeepSeaSettings:
    size: int = option(10, "Rows and columns of the grid.", minimum=2, maximum=300)
    mapping_seed: int = option(42, "Seed of which action means right in each cell.", minimum=0, maximum=2**32 - 1)
    stochastic: bool = option(False, "Moves to the right may fail and the corners pay noise.")
    move_cost: float = option(0.01, "Cost of moving right all the way.", minimum=0)
    solved_share: float = option(
        0.0, "Solved once the share of bad episodes is below this; 0 for bsuite 0.3.6's rule.", minimum=0, maximum=1
    )


@dataclass(frozen=True)
class BinaryTreeSettings:
    depth: int = option(50, "Number of branches.", minimum=1, maximum=100_000)
    seed: int = option(42, "Seed of which action leads on at each branch.", minimum=0, maximum=2**32 - 1)


@dataclass(frozen=True)
class KeyDoorSettings:
    size: int = option(8, "Rows and columns of the grid.", minimum=2, maximum=300)
    limit: int = option(80, "Steps after which an episode is cut off.", minimum=1, maximum=10**6)
    observation: Literal["one_hot", "features", "image"] = option(
        "one_hot", "What is seen: the state's index, row, column and key as numbers, or planes of an image."
    )
    slip: float = option(0.0, "Probability that another move happens than the one chosen.", minimum=0, maximum=1)


@dataclass(frozen=True)
class AtariSettings:
    """Settings of `atari/GAME`; the defaults are the paper's."""

    size: int = option(84, "Rows and columns of the grey picture.", minimum=8, maximum=160)
    stack: int = option(4, "Pictures in an observation.", minimum=1, maximum=32)
    noops: int = option(30, "Frames at most in which nothing is done at first.", minimum=0, maximum=1000)
    cap: int = option(108_000, "Frames after which an episode is cut off; an action has 4.", minimum=4, maximum=10**9)


@dataclass(frozen=True)
class NavixSettings:
    """Settings of `navix:NAME`; the defaults are navix's."""

    max_steps: int = option(
        100, "Steps after which an episode is cut off; MiniGrid's DoorKey has 10 per cell.", minimum=1
    )
    observation: Literal["symbolic", "symbolic_first_person"] = option(
        "symbolic", "The whole grid, or the 7×7 cells before the agent."
    )


BuiltInSettings = DeepSeaSettings | BinaryTreeSettings | KeyDoorSettings

BUILT_IN: dict[str, type[BuiltInSettings]] = {
    "deep_sea": DeepSeaSettings,
    "binary_tree": BinaryTreeSettings,
    "key_door": KeyDoorSettings,
}
"""By name of the built-in environment."""
