"""Environments that can be drawn: where each state lies on a grid, and what each action does in it when nothing goes wrong.

Deep Sea    the cells that can be reached, on the grid itself
the tree    its branches one after the other, in lines of 25
key_door    one-hot: the grid without the key, and beside it the grid with it
"""

from typing import NamedTuple

import numpy as np

from tdu.environments.binary_tree import onward_actions
from tdu.environments.bsuite_twins.experiments import DEEP_SEAS
from tdu.environments.deep_sea import action_mapping
from tdu.environments.ids import parse
from tdu.environments.key_door import MOVES
from tdu.environments.settings import BUILT_IN, BinaryTreeSettings, DeepSeaSettings, KeyDoorSettings
from tdu.types import EnvSpec

_LINE = 25


class Map(NamedTuple):
    """S states on a grid. The first is the one in which episodes begin."""

    kind: str
    rows: int
    columns: int
    states: np.ndarray
    """What the environment observes in each, [S]."""
    cells: np.ndarray
    """Where each is drawn: row · columns + column, [S]."""
    following: np.ndarray
    """Where each action leads, as a number of `states`, or S where the episode ends, [S, A]."""
    rewards: np.ndarray
    """Without noise, [S, A]."""
    goal: int
    """The cell of the reward."""

    @property
    def discounts(self) -> np.ndarray:
        """0 where the episode ends, [S, A]."""
        return (self.following < len(self.states)).astype(np.float32)

    def path(self, actions: np.ndarray) -> list[int]:
        """The states that a policy, an action for each state [S], goes through, up to the first that comes again."""
        state, met = 0, dict[int, None]()
        while state < len(self.states) and state not in met:
            met[state] = None
            state = int(self.following[state, actions[state]])
        return list(met)


def find(spec: EnvSpec) -> Map | None:
    """The map of an environment that has one."""
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
        rows=-(-settings.depth // _LINE),
        columns=min(settings.depth, _LINE),
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
