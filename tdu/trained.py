"""An agent that has learned."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tdu.environments.python import encode_observation
from tdu.types import Agent, EnvSpec


class TrainedAgent:
    """An agent that has learned. It acts greedily on the mean value over its exploiters."""

    def __init__(self, spec: EnvSpec, agent: Agent, state: Any):
        self.spec = spec
        self.state = jax.tree.map(jnp.asarray, state)
        self._agent = agent
        self._evaluate = jax.jit(agent.evaluate)

    def q(self, observation: jax.Array) -> jax.Array:
        """Value of every action for an encoded observation, [A]; for use in compiled code."""
        return self._agent.evaluate(self.state, observation)

    def values(self, observation: Any) -> np.ndarray:
        """Value of every action, [A]."""
        return np.asarray(self._evaluate(self.state, encode_observation(self.spec, observation)))

    def act(self, observation: Any) -> int:
        """The best action. A one-hot observation may be given as an array or as its index."""
        return int(np.argmax(self.values(observation)))
