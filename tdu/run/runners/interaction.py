"""One environment step, seen from the agent: what the compiled and the stepwise runner share, draw by draw.

Every random number of step t comes from `fold_in(run key, t)`. Both runners make their actions and updates here, so the
same agent takes the same actions in both.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tdu import random
from tdu.types import Agent, Array, EitherArray, Key, State, TimeStep, Transition

FOLDED_STEPS = 1 << 31
"""So many steps have a number of their own under one key; then the key changes."""

REBASE_PERIOD = 1 << 28
"""After so many steps the agent's 32-bit counters are brought back (`Agent.rebase`)."""


class Keys(NamedTuple):
    """The keys of one step, one per use."""

    act: Key
    environment: Key
    observe: Key
    learn: Key
    begin: Key
    reset: Key


class Player(NamedTuple):
    """An agent at work."""

    learner: State
    """All that the agent has learned and stored."""
    acting: State
    """The actor's state: the head that acts at present."""


class Learned(NamedTuple):
    """What the learning steps of a stretch of time amount to: sums, and the largest of what is named so."""

    bonus: EitherArray
    loss: EitherArray
    updates: EitherArray
    largest_q: EitherArray
    largest_extra: EitherArray

    @classmethod
    def nothing(cls) -> "Learned":
        """Before the first step."""
        return cls(*(jnp.zeros(()) for _ in cls._fields))

    def plus(self, metrics: dict[str, Array]) -> "Learned":
        """With one more step's metrics."""
        return Learned(
            bonus=self.bonus + metrics["bonus"],
            loss=self.loss + metrics["loss"],
            updates=self.updates + metrics["updates"],
            largest_q=jnp.maximum(self.largest_q, metrics["largest_q"]),
            largest_extra=jnp.maximum(self.largest_extra, metrics["largest_extra"]),
        )

    def told(self) -> Array:
        """Mean bonus, mean loss, largest |Q| and the most paid beside the reward, [4]."""
        means = jnp.stack([self.bonus, self.loss]) / jnp.maximum(self.updates, 1.0)
        return jnp.append(means, jnp.stack([self.largest_q, self.largest_extra]))


def run_key(seed: int | Array) -> Key:
    """The key of a whole run."""
    return random.key(seed)


def key_and_number(key: Key, step: int, rows: int = 1) -> tuple[Key, np.int32]:
    """The key under which step `step` of a run is numbered, and its number there; steps may be more than 2³².

    With several rows, a step of all of them has as many numbers, of which this is the first.
    """
    age, number = divmod(step, FOLDED_STEPS // rows)
    return _key_of_age(key, np.uint32(age)) if age else key, np.int32(number * rows)


@jax.jit
def _key_of_age(key: Key, age: EitherArray) -> Key:
    return jax.random.fold_in(random.for_use(key, random.Use.LATER_STEPS), age)


def keys_at(key: Key, t: EitherArray) -> Keys:
    """The keys of environment step t, counted from 0."""
    split = jax.random.split(jax.random.fold_in(key, t), len(Keys._fields))
    return Keys(*(split[i] for i in range(len(Keys._fields))))


def first_keys(key: Key) -> tuple[Key, Key, Key]:
    """Before step 0: the keys of the agent, of its first head and of the first reset."""
    keys = jax.random.split(random.for_use(key, random.Use.FIRST_STEP), 3)
    return keys[0], keys[1], keys[2]


def act(agent: Agent, player: Player, timestep: TimeStep, keys: Keys) -> tuple[Array, Player]:
    """The action for what the environment has answered."""
    action, acting = agent.actor.act(agent.params(player.learner), player.acting, timestep, keys.act)
    return action, player._replace(acting=acting)


def learn(
    agent: Agent, player: Player, observation: Array, action: Array, after: TimeStep, keys: Keys, row: EitherArray = 0
) -> tuple[State, dict[str, Array]]:
    """Stores what happened in one of several environments and learns: the learner, and what it tells."""
    transition = happened(agent, observation, action, after, row)
    learner = agent.observe(player.learner, player.acting, transition, keys.observe)
    return agent.learn(learner, keys.learn)


def happened(agent: Agent, observation: Array, action: Array, after: TimeStep, row: EitherArray = 0) -> Transition:
    """A step as the agent stores it."""
    known = {"last": after.last, "row": jnp.asarray(row, jnp.int32)}
    extras = {name: known[name] for name in agent.extras}
    return Transition(observation, action, after.reward, after.discount, after.observation, extras)


def begin(agent: Agent, learner: State, keys: Keys) -> State:
    """The actor's state of a new episode: the next head is drawn."""
    return agent.actor.begin(agent.params(learner), keys.begin)
