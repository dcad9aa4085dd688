"""Runs on Python environments: one compiled call per environment step.

`StepwiseAgent` is the agent as such a loop wants it, an object that selects actions and takes updates; it learns from a
step and picks the next action in the same call. `StepwiseRunner` drives it and keeps the log.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tdu.environments.python import PythonEnvironment
from tdu.errors import EnvironmentFault
from tdu.runners import interaction
from tdu.runners.interaction import Mind, Sums
from tdu.runners.rows import Progress, Row
from tdu.types import Agent, Array, Key, TimeStep


class StepwiseCarry(NamedTuple):
    mind: Mind
    t: Array
    learned: Sums


@lru_cache(maxsize=8)
def _programs(agent: Agent) -> tuple[Any, Any, Any]:
    """What is compiled for an agent: how it starts, acts, and learns from a step. Runs of the same agent share it."""

    def start(key: Key) -> StepwiseCarry:
        return StepwiseCarry(interaction.begin(agent, key)[0], jnp.zeros((), jnp.int32), Sums.zero())

    def act(carry: StepwiseCarry, key: Key, observation: Array) -> Array:
        return interaction.act(agent, carry.mind, observation, interaction.keys_at(key, carry.t))

    def update(carry: StepwiseCarry, key: Key, observation: Array, action: Array, after: TimeStep) -> Any:
        keys = interaction.keys_at(key, carry.t)
        head = agent.head(carry.mind.actor)
        mind, metrics = interaction.learn(agent, carry.mind, observation, action, after, keys)
        learned = carry.learned.plus(metrics)
        kept = jax.tree.map(lambda x: jnp.where(after.last, jnp.zeros_like(x), x), learned)
        carry = StepwiseCarry(mind, carry.t + 1, kept)
        return carry, act(carry, key, after.observation), (head, learned.means())

    return jax.jit(start), jax.jit(act), jax.jit(update, donate_argnums=0)


class StepwiseAgent:
    """An agent for a loop in Python."""

    def __init__(self, agent: Agent, seed: int):
        self._key = interaction.run_key(seed)
        start, self._act, self._update = _programs(agent)
        self.carry = start(self._key)
        self._next: tuple[Array, np.ndarray] | None = None
        self.last_episode: tuple[Array, Array] | None = None
        """Head, and mean bonus and loss [2], of the episode under way or just over."""

    def select_action(self, observation: np.ndarray) -> int:
        """The action for an encoded observation; already known where it follows the last update."""
        if self._next is not None and np.array_equal(self._next[1], observation):
            return int(self._next[0])
        return int(self._act(self.carry, self._key, observation))

    def update(self, observation: np.ndarray, action: int, after: TimeStep) -> None:
        """Learns from one step."""
        self.carry, next_action, self.last_episode = self._update(
            self.carry, self._key, observation, np.int32(action), after
        )
        self._next = None if after.last else (next_action, after.observation)

    def restore(self, carry: StepwiseCarry) -> None:
        """Continues from a state between two episodes."""
        self.carry, self._next = jax.tree.map(jnp.asarray, carry), None


class StepwiseRunner:
    """A run over a Python environment. It can be saved between episodes only."""

    def __init__(self, env: PythonEnvironment, agent: Agent, seed: int, *, episodes: int, stop: bool):
        self.spec = env.spec
        self._env = env
        self._agent = StepwiseAgent(agent, seed)
        self._episodes = episodes
        self._stop = stop and env.spec.solved is not None
        self.progress = Progress(env.spec)
        self.steps = 0
        self._compile()

    def _compile(self) -> None:
        """Traces and compiles both calls on a state that is thrown away."""
        shape = () if self.spec.num_states is not None else self.spec.observation_shape
        observation = np.zeros(shape, np.int32 if self.spec.num_states is not None else np.float32)
        after = TimeStep(observation, np.float32(0), np.float32(1), np.bool_(False))
        kept = jax.tree.map(np.asarray, self._agent.carry)
        self._agent.select_action(observation)
        self._agent.update(observation, 0, after)
        self._agent.restore(kept)

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to do."""
        return self.progress.episode >= self._episodes or (self._stop and self.progress.solved_episode is not None)

    def advance(self) -> list[Row]:
        """Runs one episode."""
        timestep = self._env.reset(self.progress.episode)
        if timestep.last:
            raise EnvironmentFault(f"{self.spec.name} ended an episode before its first step.")
        episode_return, length = 0.0, 0
        bad_before = self._env.info().get("total_bad_episodes", 0)
        while not timestep.last:
            action = self._agent.select_action(timestep.observation)
            after = self._env.step(action)
            self._agent.update(timestep.observation, action, after)
            episode_return += float(after.reward)
            length += 1
            timestep = after
        self.steps += length
        info = self._env.info()
        self.progress.add(episode_return, info.get("total_bad_episodes", 0) > bad_before)
        assert self._agent.last_episode is not None
        head, (bonus, loss) = map(np.asarray, self._agent.last_episode)
        standard = {
            "episode": self.progress.episode,
            "steps": self.steps,
            "episode_len": length,
            "episode_return": episode_return,
            "total_return": self.progress.total_return,
            "head": int(head),
            "bonus": bonus,
            "loss": loss,
        }
        return [standard | info]

    def save(self) -> tuple[Any, dict[str, Any]]:
        """The run's state: arrays, and plain values."""
        return self._agent.carry, {"counters": self._env.counters(), "steps": self.steps}

    def restore(self, arrays: Any, plain: dict[str, Any], log: dict[str, np.ndarray]) -> None:
        """Puts back what `save` gave, with the log up to there."""
        self._agent.restore(arrays)
        self._env.restore_counters(plain["counters"])
        self.steps = plain["steps"]
        self.progress = Progress.replay(self.spec, log)
