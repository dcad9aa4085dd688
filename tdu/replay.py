"""A uniform ring of transitions, compiled. Its structure is inferred from one example."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from tdu.types import Array, EnvSpec, Key, Replay, Transition


class Ring(NamedTuple):
    data: Transition
    """Every leaf has a leading axis of `capacity`."""
    next: Array
    """Where the next transition goes."""
    filled: Array
    """How many there are."""


def example(spec: EnvSpec, extras: dict[str, Array] | None = None) -> Transition:
    """A transition of the environment's shapes, all zeros."""
    observation = jnp.zeros(spec.carried_shape, spec.carried_dtype)
    number = jnp.zeros(())
    return Transition(observation, jnp.zeros((), jnp.int32), number, number, observation, extras or {})


def uniform(capacity: int, batch_size: int) -> Replay:
    """Keeps the last `capacity` transitions; a batch is drawn uniformly with replacement."""

    def init(example: Transition) -> Ring:
        empty = jax.tree.map(lambda x: jnp.zeros((capacity, *jnp.shape(x)), jnp.asarray(x).dtype), example)
        return Ring(empty, jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32))

    def add(state: Ring, transition: Transition) -> Ring:
        data = jax.tree.map(lambda ring, x: ring.at[state.next].set(x), state.data, transition)
        return Ring(data, (state.next + 1) % capacity, jnp.minimum(state.filled + 1, capacity))

    def size(state: Ring) -> Array:
        return state.filled

    def sample(state: Ring, key: Key) -> Transition:
        rows = jax.random.randint(key, (batch_size,), 0, jnp.maximum(size(state), 1))
        return jax.tree.map(lambda ring: ring[rows], state.data)

    return Replay(init, add, sample, size)


def sequence(length: int) -> Replay:
    """Keeps the last `length` transitions and gives them all, oldest first, once there are so many."""
    ring = uniform(length, length)

    def sample(state: Ring, key: Key) -> Transition:
        del key
        return jax.tree.map(lambda data: jnp.roll(data, -state.next, axis=0), state.data)

    return ring._replace(sample=sample)
