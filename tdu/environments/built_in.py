"""The built-in environments: compiled, with settings in their ids."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

from tdu.environments.binary_tree import binary_tree
from tdu.environments.deep_sea import deep_sea
from tdu.environments.key_door import key_door
from tdu.options import option
from tdu.types import Environment


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


BuiltInSettings = DeepSeaSettings | BinaryTreeSettings | KeyDoorSettings


class BuiltIn(NamedTuple):
    settings: type[BuiltInSettings]
    make: Callable[..., Environment]
    """Takes the settings as named arguments."""
    summary: str


BUILT_IN = {
    "deep_sea": BuiltIn(DeepSeaSettings, deep_sea, "Deep Sea: one policy in 2^size finds the chest."),
    "binary_tree": BuiltIn(
        BinaryTreeSettings, binary_tree, "Binary Tree: one wrong action anywhere ends the episode."
    ),
    "key_door": BuiltIn(
        KeyDoorSettings, key_door,
        "Key and door: fetch the key, open the door; a grid with cycles and one reward at the end.",
    ),
}  # fmt: skip
"""By name."""


@lru_cache(maxsize=32)
def make(name: str, settings: BuiltInSettings) -> Environment:
    """One object per environment, so that its compiled code is reused."""
    return BUILT_IN[name].make(**dataclasses.asdict(settings))
