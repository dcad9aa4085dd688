"""One environment step, seen from the agent: what the compiled and the stepwise runner share, draw by draw.

Every random number of step t comes from `fold_in(run key, t)`. Both runners make their actions and updates here, so the
same agent takes the same actions in both.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tdu import random
from tdu.types import Agent, Array, Key, TimeStep, Transition


class Keys(NamedTuple):
    """The keys of one step, one per use."""

    act: Key
    environment: Key
    observe: Key
    learn: Key
    begin: Key
    reset: Key


class Mind(NamedTuple):
    """The agent's whole state, and the head that acts at present."""

    state: Any
    actor: Any


class Sums(NamedTuple):
    """Sums over the learning steps of the episode under way."""

    bonus: Array
    loss: Array
    updates: Array

    @classmethod
    def zero(cls) -> "Sums":
        """Before the first step."""
        return cls(jnp.zeros(()), jnp.zeros(()), jnp.zeros(()))

    def plus(self, metrics: dict[str, Array]) -> "Sums":
        """With one more step's metrics."""
        return Sums(*(old + metrics[name] for name, old in zip(self._fields, self, strict=True)))

    def means(self) -> Array:
        """Mean bonus and mean loss, [2]."""
        return jnp.stack([self.bonus, self.loss]) / jnp.maximum(self.updates, 1.0)


def run_key(seed: int | Array) -> Key:
    """The key of a whole run."""
    return random.key(seed)


def keys_at(key: Key, t: Array) -> Keys:
    """The keys of environment step t, counted from 0."""
    split = jax.random.split(jax.random.fold_in(key, t), len(Keys._fields))
    return Keys(*(split[i] for i in range(len(Keys._fields))))


def begin(agent: Agent, key: Key) -> tuple[Mind, Key]:
    """A new agent with its first head drawn, and the key of the first reset."""
    key_init, key_begin, key_reset = jax.random.split(jax.random.fold_in(key, jnp.uint32(2**32 - 1)), 3)
    state = agent.init(key_init)
    return Mind(state, agent.begin_episode(state, key_begin)), key_reset


def act(agent: Agent, mind: Mind, observation: Array, keys: Keys) -> Array:
    """The action for an observation."""
    return agent.act(mind.state, mind.actor, observation, keys.act)


def learn(
    agent: Agent, mind: Mind, observation: Array, action: Array, after: TimeStep, keys: Keys
) -> tuple[Mind, dict[str, Array]]:
    """Stores what happened, learns, and draws the next head if the episode is over."""
    transition = Transition(observation, action, after.reward, after.discount, after.observation, {})
    state = agent.observe(mind.state, mind.actor, transition, keys.observe)
    state, metrics = agent.learn(state, keys.learn)
    actor = jax.lax.cond(after.last, lambda: agent.begin_episode(state, keys.begin), lambda: mind.actor)
    return Mind(state, actor), metrics
