"""Gymnasium environments with discrete actions, by their id or as objects; and ours as Gymnasium environments.

A time limit (`truncated`) ends the episode without ending the task: the value of its last state still counts. The environment
is seeded from (run seed, episode) at every reset.
"""

from typing import Any, NamedTuple

import gymnasium
import jax
import numpy as np
from gymnasium import spaces

from tdu import random
from tdu.environments.binary_tree import binary_tree
from tdu.environments.deep_sea import deep_sea
from tdu.environments.python import PythonEnvironment, see_current_folder, told
from tdu.errors import UserError
from tdu.types import Environment


def load(gym_id: str, seed: int) -> PythonEnvironment:
    """The environment of a Gymnasium id."""
    see_current_folder()  # an id may name a module of the user's
    try:
        env = gymnasium.make(gym_id)
    except (Exception, SystemExit) as e:
        ours = isinstance(e, gymnasium.error.Error | ImportError)
        words = " ".join(str(e).split()).rstrip(".?!") if ours else told(e)
        raise UserError(f"Gymnasium cannot make '{gym_id}': {words}.") from e
    return adapt(env, f"gym:{gym_id}", seed)


def adapt(env: Any, name: str, seed: int) -> PythonEnvironment:
    """A Gymnasium environment as ours."""
    actions, observations = env.action_space, env.observation_space
    if not isinstance(actions, spaces.Discrete):
        raise UserError(f"{name} does not have discrete actions but {actions}, and only discrete ones are supported.")
    if isinstance(observations, spaces.Dict | spaces.Tuple):
        raise UserError(
            f"{name} observes {type(observations).__name__}, not one array; wrap it in "
            "gymnasium.wrappers.FlattenObservation, in a function of yours for python:module:function."
        )
    if getattr(observations, "shape", None) is None:
        raise UserError(f"{name} observes {type(observations).__name__}, not one array, which no agent here can take.")
    states = int(observations.n) if isinstance(observations, spaces.Discrete) else None
    return PythonEnvironment(_AsDmEnv(env), name=name, seed=seed, num_states=states, default_episodes=EPISODES)


EPISODES = 1000
"""In a run, if nobody says otherwise."""


class _Spec(NamedTuple):
    shape: tuple[int, ...] = ()
    dtype: Any = None
    num_values: int = 0


class _Step(NamedTuple):
    observation: Any
    reward: float | None
    discount: float | None
    ended: bool

    def last(self) -> bool:
        return self.ended


class _AsDmEnv:
    """A Gymnasium environment behind dm_env's names."""

    def __init__(self, env: Any):
        self._env = env
        self._first_action = int(env.action_space.start)
        space = env.observation_space
        self._first_state = int(space.start) if isinstance(space, spaces.Discrete) else 0
        self._next_seed: int | None = None

    def observation_spec(self) -> _Spec:
        return _Spec(shape=tuple(self._env.observation_space.shape), dtype=self._env.observation_space.dtype)

    def action_spec(self) -> _Spec:
        return _Spec(num_values=int(self._env.action_space.n))

    def seed_next(self, number: int) -> None:
        """The next reset is made with this seed."""
        self._next_seed = number

    def reset(self) -> _Step:
        observation, _ = self._env.reset(seed=self._next_seed)
        return _Step(self._observation(observation), None, None, False)

    def step(self, action: int) -> _Step:
        observation, reward, terminated, truncated, _ = self._env.step(action + self._first_action)
        ended = bool(terminated) or bool(truncated)
        return _Step(self._observation(observation), reward, 0.0 if terminated else 1.0, ended)

    def _observation(self, observation: Any) -> Any:
        return observation - self._first_state if self._first_state else observation


class _Ours(gymnasium.Env[np.ndarray, np.int64]):
    """One of our compiled environments as a Gymnasium one: observations are one-hot arrays."""

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, env: Environment, shape: tuple[int, ...]):
        assert env.spec.num_states is not None
        self._states, self._shape = env.spec.num_states, shape
        self._reset_compiled, self._step_compiled = jax.jit(env.reset), jax.jit(env.step)
        self._state: Any = None
        self.observation_space = spaces.Box(0.0, 1.0, shape, np.float32)
        self.action_space = spaces.Discrete(env.spec.num_actions)

    def _key(self) -> Any:
        return random.key(int(self.np_random.integers(2**32)))

    def _observation(self, index: Any) -> np.ndarray:
        return np.eye(self._states + 1, self._states, dtype=np.float32)[int(index)].reshape(self._shape)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._state, timestep = self._reset_compiled(self._key())
        return self._observation(timestep.observation), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._state, timestep = self._step_compiled(self._state, np.int32(action), self._key())
        ended, terminated = bool(timestep.last), float(timestep.discount) == 0.0
        observation = self._observation(timestep.observation)
        return observation, float(timestep.reward), ended and terminated, ended and not terminated, {}


class DeepSea(_Ours):
    """Deep Sea; the same settings as `deep_sea:` of the command line."""

    def __init__(self, size: int = 10, mapping_seed: int = 42, stochastic: bool = False, move_cost: float = 0.01):
        env = deep_sea(size, mapping_seed=mapping_seed, stochastic=stochastic, move_cost=move_cost)
        super().__init__(env, (size, size))


class BinaryTree(_Ours):
    """The Binary Tree; the same settings as `binary_tree:` of the command line."""

    def __init__(self, depth: int = 50, seed: int = 42):
        super().__init__(binary_tree(depth, seed=seed), (depth,))


def register() -> None:
    """Makes `gymnasium.make("tdu/DeepSea-v0", size=20)` and `"tdu/BinaryTree-v0"` work; importing tdu calls it."""
    for name in ("DeepSea", "BinaryTree"):
        if f"tdu/{name}-v0" not in gymnasium.registry:
            gymnasium.register(f"tdu/{name}-v0", entry_point=f"{__name__}:{name}")
