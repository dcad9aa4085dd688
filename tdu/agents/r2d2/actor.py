"""Actors with a memory. In training, one head acts ε-greedily for a while, then another. In evaluation, the mean of the
exploiters' values is maximised.

The head is drawn uniformly and acts for a number of steps, across episodes. Actor i of n acts at random with probability
0.4^(1 + 7·i/(n − 1)).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tdu import td
from tdu.agents.r2d2.network import Recurrent, RecurrentParams
from tdu.agents.r2d2.sequences import Memory, Steps
from tdu.behaviour import epsilon_greedy
from tdu.types import Actor, Array, Key, TimeStep


class Remembered(NamedTuple):
    """What an actor remembers of the episode."""

    memory: Memory
    """The network's memory."""
    action: Array
    """The last action; −1 before the first."""
    is_first: Array


class Acting(NamedTuple):
    remembered: Remembered
    head: Array
    left: Array
    """Steps until another head is drawn."""
    epsilon: Array


def ladder(count: int) -> np.ndarray:
    """ε of every actor, [n]; a single actor has the middle one."""
    rungs = np.linspace(0.0, 1.0, count) if count > 1 else np.array([0.5])
    return (0.4 ** (1 + 7 * rungs)).astype(np.float32)


def fresh(network: Recurrent) -> Remembered:
    """The memory at the beginning of an episode."""
    return Remembered(network.memory(), jnp.full((), -1, jnp.int32), jnp.ones((), bool))


def forgetting(network: Recurrent, acting: Acting) -> Acting:
    """The actor at the beginning of the next episode: the same head, an empty memory."""
    return acting._replace(remembered=fresh(network))


def look(
    network: Recurrent, params: RecurrentParams, remembered: Remembered, timestep: TimeStep
) -> tuple[Array, Memory]:
    """Squashed values [H, A] at a time step, and the network's memory after it."""
    now = Steps(timestep.observation, remembered.action, timestep.reward * ~remembered.is_first, remembered.is_first)
    one = jax.tree.map(lambda x: jnp.asarray(x)[None, None], now)
    q, memory = network.unroll(params, jax.tree.map(lambda x: x[None], remembered.memory), one)
    return q[0, 0], jax.tree.map(lambda x: x[0], memory)


def explorer(network: Recurrent, heads: int, head_steps: int, epsilon: Array | float) -> Actor:
    """One head at a time, ε-greedily."""

    def begin(_: RecurrentParams, key: Key) -> Acting:
        head = jax.random.randint(key, (), 0, heads)
        return Acting(fresh(network), head, jnp.full((), head_steps, jnp.int32), jnp.asarray(epsilon, jnp.float32))

    def act(params: RecurrentParams, acting: Acting, timestep: TimeStep, key: Key) -> tuple[Array, Acting]:
        key_head, key_action = jax.random.split(key)
        q, memory = look(network, params, acting.remembered, timestep)
        redraw = acting.left == 0
        head = jnp.where(redraw, jax.random.randint(key_head, (), 0, heads), acting.head)
        action = epsilon_greedy(acting.epsilon)(q[head], key_action)
        left = jnp.where(redraw, head_steps, acting.left) - 1
        remembered = Remembered(memory, action, jnp.zeros((), bool))
        return action, Acting(remembered, head, left, acting.epsilon)

    return Actor(begin, act, remembers=True)


def evaluator(network: Recurrent, heads: slice, epsilon: float) -> Actor:
    """ε-greedy on the mean of unsquashed values over some heads."""
    pick = epsilon_greedy(epsilon)

    def begin(_params: RecurrentParams, _key: Key) -> Remembered:
        return fresh(network)

    def mean(params: RecurrentParams, remembered: Remembered, timestep: TimeStep) -> tuple[Array, Memory]:
        q, memory = look(network, params, remembered, timestep)
        return jnp.mean(td.unsquash(q[heads]), axis=0), memory

    def act(params: RecurrentParams, remembered: Remembered, timestep: TimeStep, key: Key) -> tuple[Array, Remembered]:
        q, memory = mean(params, remembered, timestep)
        action = pick(q, key)
        return action, Remembered(memory, action, jnp.zeros((), bool))

    return Actor(begin, act, remembers=True, values=lambda *at: mean(*at)[0])
