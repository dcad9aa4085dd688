"""Maps of environments: the place of each state on a grid, and the result of each action without randomness.

Deep Sea       the reachable cells of its grid
Binary Tree    its branches in lines of 25
key_door       if one-hot, the grid without the key beside the grid with the key
"""

from typing import NamedTuple

import numpy as np

from tdu.environments.binary_tree import onward_actions
from tdu.environments.bsuite_twins.experiments import DEEP_SEAS
from tdu.environments.built_in import BUILT_IN, BinaryTreeSettings, DeepSeaSettings, KeyDoorSettings
from tdu.environments.deep_sea import action_mapping
from tdu.environments.ids import parse
from tdu.environments.key_door import MOVES
from tdu.types import EnvSpec

TREE_COLUMNS = 25


class Map(NamedTuple):
    """S states on a grid. Episodes start in the first."""

    kind: str
    rows: int
    columns: int
    states: np.ndarray
    """The observation in each state, [S]."""
    cells: np.ndarray
    """The cell of each state, row · columns + column, [S]."""
    following: np.ndarray
    """Index of the next state, S at the end of the episode, [S, A]."""
    rewards: np.ndarray
    """Rewards without noise, [S, A]."""
    goal: int
    """The cell of the reward."""

    @property
    def discounts(self) -> np.ndarray:
        """0 at the end of the episode, else 1, [S, A]."""
        return (self.following < len(self.states)).astype(np.float32)

    def path(self, actions: np.ndarray) -> list[int]:
        """The states that a policy [S] visits, until one repeats or the episode ends."""
        state, path = 0, dict[int, None]()
        while state < len(self.states) and state not in path:
            path[state] = None
            state = int(self.following[state, actions[state]])
        return list(path)


def find(spec: EnvSpec) -> Map | None:
    """The map of an environment; None if it has none."""
    env_id = parse(spec.name)
    if spec.num_states is None:
        return None
    if env_id.experiment in DEEP_SEAS:
        return _deep_sea(DeepSeaSettings(size=spec.observation_shape[0], stochastic=DEEP_SEAS[env_id.experiment]))
    settings = env_id.built_in_settings() if env_id.source in BUILT_IN else None
    if isinstance(settings, DeepSeaSettings):
        return _deep_sea(settings)
    if isinstance(settings, BinaryTreeSettings):
        return _binary_tree(settings)
    return _key_door(settings) if isinstance(settings, KeyDoorSettings) else None


def _deep_sea(settings: DeepSeaSettings) -> Map:
    size = settings.size
    rows, columns = np.tril_indices(size)
    number = np.full((size + 1, size), len(rows))
    number[rows, columns] = np.arange(len(rows))
    right = action_mapping(size, settings.mapping_seed)[rows, columns]
    moves_right = np.arange(2)[None] == right[:, None]
    columns_after = np.clip(columns[:, None] + np.where(moves_right, 1, -1), 0, size - 1)
    chest = moves_right & (columns[:, None] == size - 1)
    return Map(
        "deep_sea",
        rows=size,
        columns=size,
        states=rows * size + columns,
        cells=rows * size + columns,
        following=number[rows[:, None] + 1, columns_after],
        rewards=(chest - moves_right * settings.move_cost / size).astype(np.float32),
        goal=size * size - 1,
    )


def _binary_tree(settings: BinaryTreeSettings) -> Map:
    branches = np.arange(settings.depth)
    onward = np.arange(2)[None] == onward_actions(settings.depth, settings.seed)[:, None]
    return Map(
        "binary_tree",
        rows=-(-settings.depth // TREE_COLUMNS),
        columns=min(settings.depth, TREE_COLUMNS),
        states=branches,
        cells=branches,
        following=np.where(onward, branches[:, None] + 1, settings.depth),
        rewards=(onward & (branches == settings.depth - 1)[:, None]).astype(np.float32),
        goal=settings.depth - 1,
    )


def _key_door(settings: KeyDoorSettings) -> Map:
    size, far = settings.size, settings.size - 1
    states = np.arange(2 * size * size)
    has_key, row, column = states // size**2, states // size % size, states % size
    rows = np.clip(row[:, None] + np.asarray([move[0] for move in MOVES]), 0, far)
    columns = np.clip(column[:, None] + np.asarray([move[1] for move in MOVES]), 0, far)
    keys = has_key[:, None] | ((rows == 0) & (columns == far))
    opened = (keys == 1) & (rows == far) & (columns == 0)
    width = 2 * size + 1
    return Map(
        "key_door",
        rows=size,
        columns=width,
        states=states,
        cells=row * width + column + has_key * (size + 1),
        following=np.where(opened, len(states), keys * size**2 + rows * size + columns),
        rewards=opened.astype(np.float32),
        goal=far * width + size + 1,
    )
