"""Our environments as Gymnasium ones, for use with other libraries: one-hot observations come as arrays."""

import dataclasses
from typing import Any

import gymnasium
import jax
import numpy as np
from gymnasium import spaces

from tdu import random
from tdu.environments import settings
from tdu.environments.binary_tree import binary_tree
from tdu.environments.deep_sea import deep_sea
from tdu.environments.key_door import key_door
from tdu.options import build
from tdu.types import Environment


class _Ours(gymnasium.Env[np.ndarray, np.int64]):
    """One of our compiled environments as a Gymnasium one: observations of states are one-hot arrays."""

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, env: Environment, shape: tuple[int, ...]):
        self._states, self._shape = env.spec.num_states, shape
        self._reset_compiled = jax.jit(lambda seed: env.reset(random.key(seed)))
        self._step_compiled = jax.jit(lambda state, action, seed: env.step(state, action, random.key(seed)))
        self._state: Any = None
        lowest = -1.0 if self._states is None else 0.0
        self.observation_space = spaces.Box(lowest, 1.0, shape, np.float32)
        self.action_space = spaces.Discrete(env.spec.num_actions)

    def _draw(self) -> np.uint32:
        """The seed of a key; where there is nothing random, it changes nothing."""
        return np.uint32(self.np_random.integers(2**32))

    def _observation(self, seen: Any) -> np.ndarray:
        if self._states is None:
            return np.asarray(seen)
        one_hot = np.zeros(
            self._states + 1, np.float32
        )  # the place behind the last state is the end, which is all zeros
        one_hot[int(seen)] = 1.0
        return one_hot[:-1].reshape(self._shape)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._state, timestep = self._reset_compiled(self._draw())
        return self._observation(timestep.observation), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._state, timestep = self._step_compiled(self._state, np.int32(action), self._draw())
        ended, terminated = bool(timestep.last), float(timestep.discount) == 0.0
        observation = self._observation(timestep.observation)
        return observation, float(timestep.reward), ended and terminated, ended and not terminated, {}


class DeepSea(_Ours):
    """Deep Sea; the same settings as `deep_sea:` of the command line."""

    def __init__(self, **given: Any):
        made = build(settings.DeepSeaSettings, given, kind="environment DeepSea")
        super().__init__(deep_sea(**dataclasses.asdict(made)), (made.size, made.size))


class BinaryTree(_Ours):
    """The Binary Tree; the same settings as `binary_tree:` of the command line."""

    def __init__(self, **given: Any):
        made = build(settings.BinaryTreeSettings, given, kind="environment BinaryTree")
        super().__init__(binary_tree(**dataclasses.asdict(made)), (made.depth,))


class KeyDoor(_Ours):
    """Key and door; the same settings as `key_door:` of the command line."""

    def __init__(self, **given: Any):
        made = build(settings.KeyDoorSettings, given, kind="environment KeyDoor")
        env = key_door(**dataclasses.asdict(made))
        super().__init__(env, env.spec.observation_shape)
