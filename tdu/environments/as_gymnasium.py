"""Built-in environments as Gymnasium environments, for use with other libraries. `import tdu` registers them."""

import gymnasium
import jax
import numpy as np
from gymnasium import spaces

from tdu import random
from tdu.environments.built_in import BUILT_IN, make
from tdu.options import build
from tdu.types import Array, State

Info = dict[str, object]


class BuiltInEnv(gymnasium.Env[np.ndarray, np.int64]):
    """A built-in environment with the settings of its id. Observations of states are one-hot arrays."""

    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, environment: str, **given: object):
        settings = build(BUILT_IN[environment].settings, given, kind=f"environment {environment}")
        env = make(environment, settings)
        self._states, self._shape = env.spec.num_states, env.spec.observation_shape
        self._reset_compiled = jax.jit(lambda seed: env.reset(random.key(seed)))
        self._step_compiled = jax.jit(lambda state, action, seed: env.step(state, action, random.key(seed)))
        self._state: State = None
        lowest = -1.0 if self._states is None else 0.0
        self.observation_space = spaces.Box(lowest, 1.0, self._shape, np.float32)
        self.action_space = spaces.Discrete(env.spec.num_actions)

    def _draw(self) -> np.uint32:
        """The seed of a key."""
        return np.uint32(self.np_random.integers(2**32))

    def _observation(self, observed: Array) -> np.ndarray:
        if self._states is None:
            return np.asarray(observed)
        one_hot = np.zeros(self._states + 1, np.float32)  # the last place is the end, observed as zeros
        one_hot[int(observed)] = 1.0
        return one_hot[:-1].reshape(self._shape)

    def reset(
        self, *, seed: int | None = None, options: dict[str, object] | None = None
    ) -> tuple[np.ndarray, dict[str, object]]:
        super().reset(seed=seed)
        self._state, timestep = self._reset_compiled(self._draw())
        return self._observation(timestep.observation), {}

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, Info]:
        self._state, timestep = self._step_compiled(self._state, np.int32(action), self._draw())
        ended, terminated = bool(timestep.last), float(timestep.discount) == 0.0
        observation = self._observation(timestep.observation)
        return observation, float(timestep.reward), ended and terminated, ended and not terminated, {}
