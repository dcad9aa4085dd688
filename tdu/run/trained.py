"""An agent that has learned, for use outside of training: it acts greedily on the mean value over its exploiters."""

from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tdu.agents.r2d2.agent import RecurrentAgent
from tdu.environments.observations import encode
from tdu.run.runners.interaction import run_key
from tdu.types import Agent, Array, EnvSpec, Examiner, Key, Params, State, TimeStep


@lru_cache(maxsize=8)
def _programs(agent: Agent | RecurrentAgent) -> tuple[Any, Any, Any]:
    evaluator = agent.evaluator

    def values(params: Params, acting: State, observation: Array, reward: Array) -> Array:
        if evaluator.values is None:
            return agent.values(params, observation)
        return evaluator.values(params, acting, TimeStep(observation, reward, np.float32(1), np.bool_(False)))

    def act(params: Params, acting: State, timestep: TimeStep, key: Key, count: Array) -> tuple[Array, State]:
        return evaluator.act(params, acting, timestep, jax.random.fold_in(key, count))

    return jax.jit(values), jax.jit(evaluator.begin), jax.jit(act)


class TrainedAgent:
    """An agent that has learned. One with a memory remembers what it has seen since `begin_episode`."""

    def __init__(self, spec: EnvSpec, agent: Agent | RecurrentAgent, params: Params):
        self.spec = spec
        self.agent = agent
        self.params = jax.tree.map(jnp.asarray, params)
        self._values, self._begin, self._act = _programs(agent)
        self._key = run_key(0)
        self._acts = 0
        self.begin_episode()

    def __repr__(self) -> str:
        return f"TrainedAgent({self.spec.name}, {self.spec.num_actions} actions)"

    @property
    def examiner(self) -> Examiner | None:
        """Reads the heads' values, where the agent has them."""
        return self.agent.examiner if isinstance(self.agent, Agent) else None

    def begin_episode(self) -> None:
        """Forgets what was seen before."""
        self._acting: State = self._begin(self.params, self._key)

    def values(self, observation: Any, reward: float = 0.0) -> np.ndarray:
        """Value of every action, [A]. A one-hot observation may be given as an array or as its index.

        With a memory, it is the value after what was acted on since `begin_episode`; looking does not change it.
        """
        return np.asarray(self._values(self.params, self._acting, encode(self.spec, observation), np.float32(reward)))

    def act(self, observation: Any, reward: float = 0.0) -> int:
        """The best action, as the environment calls it; `reward` is what the last one gave, which only an agent with a memory
        looks at.
        """
        timestep = TimeStep(encode(self.spec, observation), np.float32(reward), np.float32(1), np.bool_(False))
        return self.act_on(timestep) + self.spec.first_action

    def act_on(self, timestep: TimeStep) -> int:
        """The best action for a time step as our environments give it."""
        action, self._acting = self._act(self.params, self._acting, timestep, self._key, np.uint32(self._acts % 2**32))
        self._acts += 1
        return int(action)
