"""Frames of an environment's episodes; for built-in environments also as text.

Built-in environments are drawn here from their state. Others render themselves: Gymnasium's `render`, Atari's screen.
"""

import os
from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from tdu import random
from tdu.environments import close, gymnasium, make, parse
from tdu.environments.atari import AtariVector
from tdu.environments.binary_tree import BinaryTreeState
from tdu.environments.deep_sea import DeepSeaState
from tdu.environments.key_door import KeyDoorState
from tdu.environments.maps import TREE_COLUMNS
from tdu.environments.python import PythonEnvironment
from tdu.environments.vector import PythonVector
from tdu.errors import UserError
from tdu.types import Environment, EnvSpec, State, TimeStep

Frame = np.ndarray
"""[height, width, 3], bytes."""
Square = tuple[int, int]
"""Row and column."""

_SMALLEST = 240
"""Pixels of a picture's shorter side, if cells can be enlarged to reach it."""
_WATER, _UNREACHABLE, _DIVER, _REWARD, _TRAIL, _LINE = (
    (27, 58, 94), (16, 24, 36), (250, 250, 250), (245, 196, 66), (96, 150, 190), (22, 46, 76),
)  # fmt: skip


class Stage(NamedTuple):
    """An environment that plays one episode after another and can be drawn."""

    spec: EnvSpec
    reset: Callable[[int], TimeStep]
    """reset(episode, counted from 0)."""
    step: Callable[[int], TimeStep]
    frame: Callable[[], Frame]
    text: Callable[[], str] | None
    """The frame as text, if supported."""
    close: Callable[[], None]


class Board(NamedTuple):
    """A grid with an agent and objects."""

    rows: int
    columns: int
    agent: Square | None
    """None once the agent has left the grid."""
    objects: dict[Square, str]
    """Cells with an object, and its letter."""
    outside: frozenset[Square] = frozenset()


def stage(env_id: str, seed: int) -> Stage:
    """The environment of an id, to be drawn."""
    parsed = parse(env_id)
    if parsed.source == "gym":
        for part in ("VIDEO", "AUDIO"):  # rendering needs no screen or audio device
            os.environ.setdefault(f"SDL_{part}DRIVER", "dummy")
        try:
            return _python_stage(gymnasium.load(parsed.name, f"watch {seed}", render_mode="rgb_array"))
        except UserError:  # either it takes no render_mode, or it cannot be made at all and raises again here
            gymnasium.load(parsed.name, f"watch {seed}").close()
            raise cannot_draw(env_id) from None
    if parsed.source == "bsuite" and parsed.kind == "deep_sea":
        env_id = parsed.name  # the twin is the same environment, and can be drawn
    made = make(env_id, f"watch {seed}")
    if isinstance(made, Environment):
        return _compiled_stage(made, seed)
    if isinstance(made, AtariVector):
        return _atari_stage(made)
    if not isinstance(made, PythonVector):
        made.close()
        raise cannot_draw(env_id)
    return _python_stage(made.environments[0])


def _python_stage(env: PythonEnvironment) -> Stage:
    def frame() -> Frame:
        picture = np.asarray(env.render())  # without dimensions if it is None
        if picture.ndim != 3 or picture.shape[2] not in (3, 4) or picture.dtype != np.uint8:
            raise cannot_draw(env.spec.name)
        return picture[:, :, :3]

    return Stage(env.spec, env.reset, env.step, frame, None, env.close)


def _atari_stage(env: AtariVector) -> Stage:
    """One game. It starts its next episode itself, so `begin` only returns the current observation."""
    observation, ended = env.start()[0], False

    def begin(episode: int) -> TimeStep:
        nonlocal ended
        del episode
        ended = False
        return TimeStep(observation, np.float32(0), np.float32(1), np.bool_(False))

    def take(action: int) -> TimeStep:
        nonlocal observation, ended
        stepped = env.step(np.asarray([action]))
        observation, ended = stepped.now[0], bool(stepped.ended)
        return TimeStep(*(part[0] for part in stepped.after))

    return Stage(env.spec, begin, take, lambda: env.screen(ended=ended), None, env.close)


def cannot_draw(name: str) -> UserError:
    """The error for an environment without pictures."""
    return UserError(
        f'{name} does not render itself, so it cannot be watched (Gymnasium environments need render_mode="rgb_array" '
        "and a render() that returns a picture); let `make` return one that does, or name another one with --env."
    )


def _compiled_stage(env: Environment, seed: int) -> Stage:
    key = random.for_use(random.key(seed), random.Use.WATCH)
    reset, step = jax.jit(env.reset), jax.jit(env.step)
    state: State = None
    episode_key = key
    trail: list[Square | None] = []

    def begin(episode: int) -> TimeStep:
        nonlocal state, episode_key, trail
        key_reset, episode_key = jax.random.split(jax.random.fold_in(key, episode))
        state, timestep = reset(key_reset)
        trail = [board_of(env.spec, state).agent]
        return timestep

    def take(action: int) -> TimeStep:
        nonlocal state
        state, timestep = step(state, np.int32(action), jax.random.fold_in(episode_key, len(trail) - 1))
        trail.append(board_of(env.spec, state).agent)
        return timestep

    return Stage(
        env.spec,
        begin,
        take,
        lambda: drawn(board_of(env.spec, state), trail),
        lambda: written(board_of(env.spec, state), trail),
        lambda: close(env),
    )


def board_of(spec: EnvSpec, state: object) -> Board:
    """The board of a built-in environment's state."""
    if isinstance(state, DeepSeaState):
        size = spec.observation_shape[0]
        row, column = int(state.row), int(state.column)
        outside = frozenset((r, c) for r in range(size) for c in range(r + 1, size))
        return Board(size, size, (row, column) if row < size else None, {(size - 1, size - 1): "$"}, outside)
    if isinstance(state, BinaryTreeState):
        depth = spec.observation_shape[0]
        rows, columns = -(-depth // TREE_COLUMNS), min(depth, TREE_COLUMNS)
        agent = divmod(min(int(state.branch), depth - 1), columns)
        outside = frozenset(divmod(i, columns) for i in range(depth, rows * columns))
        return Board(rows, columns, agent, {divmod(depth - 1, columns): "$"}, outside)
    if isinstance(state, KeyDoorState):
        size = int(parse(spec.name).options()["size"])
        objects = {(size - 1, 0): "D"} | ({} if bool(state.has_key) else {(0, size - 1): "k"})
        return Board(size, size, (int(state.row), int(state.column)), objects)
    raise cannot_draw(spec.name)


def drawn(board: Board, trail: list[Square | None]) -> Frame:
    """A picture of the board with the agent's trail."""
    size = max(6, min(40, _SMALLEST // min(max(board.rows, 4), 40)))
    picture = np.zeros((board.rows * size, board.columns * size, 3), np.uint8)
    picture[:] = _WATER
    layers = (
        (board.outside, _UNREACHABLE, 0), (trail, _TRAIL, size // 3), (board.objects, _REWARD, size // 5),
        ([board.agent], _DIVER, size // 6),
    )  # fmt: skip
    for cells, colour, margin in layers:
        for row, column in filter(None, cells):
            top, left, side = row * size + margin, column * size + margin, size - 2 * margin
            picture[top : top + side, left : left + side] = colour
    picture[::size], picture[:, ::size] = _LINE, _LINE
    even = picture.shape[0] % 2, picture.shape[1] % 2  # video encoders need even sides
    return np.pad(picture, ((0, even[0]), (0, even[1]), (0, 0)), mode="edge")


def written(board: Board, trail: list[Square | None]) -> str:
    """The board as text: @ is the agent, · its trail."""
    visited = set(trail)

    def sign(cell: Square) -> str:
        if cell == board.agent:
            return "@"
        if cell in board.objects:
            return board.objects[cell]
        return " " if cell in board.outside else "·" if cell in visited else "~"

    lines = (" ".join(sign((r, c)) for c in range(board.columns)) for r in range(board.rows))
    return "\n".join(line.rstrip() for line in lines)
