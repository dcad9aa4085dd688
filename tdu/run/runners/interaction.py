"""One environment step from the agent's side, shared by the compiled and the stepwise runner.

Every random number of step t comes from `fold_in(run key, t)`. Both runners act and learn through these functions, so the
same agent takes the same actions in both.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tdu import random
from tdu.metrics import Metrics
from tdu.types import Agent, Array, EitherArray, Key, State, TimeStep, Transition

FOLDED_STEPS = 1 << 31
"""Steps that are numbered under one key; after them the key changes."""

REBASE_PERIOD = 1 << 28
"""Steps after which the agent's 32-bit counters are reduced (`Agent.rebase`)."""


class Keys(NamedTuple):
    """The keys of one step, one per use."""

    act: Key
    environment: Key
    observe: Key
    learn: Key
    begin: Key
    reset: Key


class Player(NamedTuple):
    """An agent in a run."""

    learner: State
    """What the agent has learned and stored."""
    acting: State
    """The actor's state: the head that acts in this episode."""


def run_key(seed: int | Array) -> Key:
    return random.key(seed)


def key_and_number(key: Key, step: int, rows: int = 1) -> tuple[Key, np.int32]:
    """The key under which step `step` of a run is numbered, and its number there; there may be more than 2³² steps.

    With several rows, a step has a number for each row, and this is the first.
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
    """Keys for what comes before step 0: the agent, its first head and the first reset."""
    keys = jax.random.split(random.for_use(key, random.Use.FIRST_STEP), 3)
    return keys[0], keys[1], keys[2]


def act(agent: Agent, player: Player, timestep: TimeStep, keys: Keys) -> tuple[Array, Player]:
    action, acting = agent.actor.act(agent.params(player.learner), player.acting, timestep, keys.act)
    return action, player._replace(acting=acting)


def learn(
    agent: Agent, player: Player, observation: Array, action: Array, after: TimeStep, keys: Keys, row: EitherArray = 0
) -> tuple[State, Metrics]:
    """Stores a step of one of several environments and learns: the learner's state and its metrics."""
    transition = as_transition(agent, observation, action, after, row)
    learner = agent.observe(player.learner, player.acting, transition, keys.observe)
    return agent.learn(learner, keys.learn)


def as_transition(agent: Agent, observation: Array, action: Array, after: TimeStep, row: EitherArray = 0) -> Transition:
    """A step in the form that the agent stores."""
    known = {"last": after.last, "row": jnp.asarray(row, jnp.int32)}
    extras = {name: known[name] for name in agent.extras}
    return Transition(observation, action, after.reward, after.discount, after.observation, extras)


def begin(agent: Agent, learner: State, keys: Keys) -> State:
    """The actor's state for a new episode: the next head is drawn."""
    return agent.actor.begin(agent.params(learner), keys.begin)
