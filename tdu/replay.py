"""A uniform ring of transitions, compiled. Its structure is inferred from one example."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from tdu.types import Array, EnvSpec, Key, Replay, Transition


class Ring(NamedTuple):
    data: Transition
    """Every leaf has a leading axis of `capacity`."""
    added: Array
    """How many transitions were ever added."""


def example(spec: EnvSpec, extras: dict[str, Array] | None = None) -> Transition:
    """A transition of the environment's shapes, all zeros."""
    one_hot = spec.num_states is not None
    observation = jnp.zeros((), jnp.int32) if one_hot else jnp.zeros(spec.observation_shape, jnp.float32)
    number = jnp.zeros(())
    return Transition(observation, jnp.zeros((), jnp.int32), number, number, observation, extras or {})


def uniform(capacity: int, batch_size: int) -> Replay:
    """Keeps the last `capacity` transitions; a batch is drawn uniformly with replacement."""

    def init(example: Transition) -> Ring:
        empty = jax.tree.map(lambda x: jnp.zeros((capacity, *jnp.shape(x)), jnp.asarray(x).dtype), example)
        return Ring(empty, jnp.zeros((), jnp.int32))

    def add(state: Ring, transition: Transition) -> Ring:
        at = state.added % capacity
        data = jax.tree.map(lambda ring, x: ring.at[at].set(x), state.data, transition)
        return Ring(data, state.added + 1)

    def size(state: Ring) -> Array:
        return jnp.minimum(state.added, capacity)

    def sample(state: Ring, key: Key) -> Transition:
        rows = jax.random.randint(key, (batch_size,), 0, jnp.maximum(size(state), 1))
        return jax.tree.map(lambda ring: ring[rows], state.data)

    return Replay(init, add, sample, size)


def sequence(length: int) -> Replay:
    """Keeps the last `length` transitions and gives them all, oldest first, once there are so many."""
    ring = uniform(length, length)

    def sample(state: Ring, key: Key) -> Transition:
        del key
        return jax.tree.map(lambda data: jnp.roll(data, -(state.added % length), axis=0), state.data)

    return ring._replace(sample=sample)
