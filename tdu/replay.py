"""A uniform ring of transitions, compiled. Its structure is inferred from one example."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from tdu.types import Array, EnvSpec, Key, Replay, State, Transition


class Ring(NamedTuple):
    data: Transition
    """Every leaf has a leading axis of `capacity`."""
    next: Array
    """Where the next transition goes."""
    filled: Array
    """How many there are."""
    streams: State = ()
    """How many environments they come from, in turn; empty where steps are drawn one by one."""


def example(spec: EnvSpec, extras: dict[str, Array] | None = None) -> Transition:
    """A transition of the environment's shapes, all zeros."""
    observation = jnp.zeros(spec.carried_shape, spec.carried_dtype)
    number = jnp.zeros(())
    return Transition(observation, jnp.zeros((), jnp.int32), number, number, observation, extras or {})


def uniform(capacity: int, batch_size: int, *, steps: int = 1, join: float | None = None) -> Replay:
    """Keeps the last `capacity` transitions; a batch is drawn uniformly with replacement.

    With `steps` above 1, a transition that is drawn has the others of so many under `later`; which of them `follows` the one
    before in its episode they say. Or, with `join` a discount γ, they are one, as many as follow: its reward is the steps'
    discounted sum, and γ times its d_t is what the value of o_t is worth. Transitions then carry `last` and `row`; what they
    carry under a name that ends in `_t` belongs to o_t.
    """
    several = steps > 1

    def init(example: Transition) -> Ring:
        empty = jax.tree.map(lambda x: jnp.zeros((capacity, *jnp.shape(x)), jnp.asarray(x).dtype), example)
        return Ring(
            empty, jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32), jnp.ones((), jnp.int32) if several else ()
        )

    def add(state: Ring, transition: Transition) -> Ring:
        data = jax.tree.map(lambda ring, x: ring.at[state.next].set(x), state.data, transition)
        streams = jnp.maximum(state.streams, transition.extras["row"] + 1) if several else ()
        return Ring(data, (state.next + 1) % capacity, jnp.minimum(state.filled + 1, capacity), streams)

    def size(state: Ring) -> Array:
        return state.filled

    def sample(state: Ring, key: Key) -> Transition:
        places = jax.random.randint(key, (batch_size,), 0, jnp.maximum(size(state), 1))
        if not several:
            return drawn(state, places)
        return with_later(state, places) if join is None else joined(state, places, join)

    def drawn(state: Ring, places: Array) -> Transition:
        return jax.tree.map(lambda ring: ring[places], state.data)

    def ahead_of(state: Ring, first: Array) -> tuple[Array, Array]:
        """Where the steps from `first` [B] on are, [B, n], and whether each but the first follows the one before."""
        ahead = state.streams * jnp.arange(steps)
        places = (first[:, None] + ahead) % capacity
        newer = (state.next - 1 - first) % capacity  # how many were stored since
        row, last = (state.data.extras[name][places] for name in ("row", "last"))
        return places, (ahead[1:] <= newer[:, None]) & (row[:, 1:] == row[:, :1]) & ~last[:, :-1]

    def with_later(state: Ring, first: Array) -> Transition:
        places, follows = ahead_of(state, first)
        later = drawn(state, places[:, 1:])
        return drawn(state, first)._replace(later=later._replace(extras=later.extras | {"follows": follows}))

    def joined(state: Ring, first: Array, discount: float) -> Transition:
        places, follows = ahead_of(state, first)
        counts = jnp.cumprod(jnp.concatenate([jnp.ones_like(follows[:, :1]), follows], axis=1), axis=1)
        d_t = jnp.where(counts, state.data.d_t[places], 1.0)
        before = jnp.concatenate([jnp.ones_like(d_t[:, :1]), jnp.cumprod(discount * d_t[:, :-1], axis=1)], axis=1)
        count = jnp.sum(counts, axis=1)
        end = jnp.take_along_axis(places, count[:, None] - 1, axis=1)[:, 0]
        of_first, of_end = drawn(state, first), drawn(state, end)
        extras = {name: (of_end if name.endswith("_t") else of_first).extras[name] for name in of_first.extras}
        return of_first._replace(
            r_t=jnp.sum(counts * before * state.data.r_t[places], axis=1),
            d_t=jnp.prod(d_t, axis=1) * discount ** (count - 1),
            o_t=of_end.o_t,
            extras=extras,
        )

    return Replay(init, add, sample, size)


def cut(state: Ring) -> Ring:
    """The same ring, in which what is stored next follows none of what is there: every environment begins an episode."""
    capacity = len(state.data.r_t)
    age = (state.next - 1 - jnp.arange(capacity)) % capacity
    extras = dict(state.data.extras)
    extras["last"] = extras["last"] | (age < state.streams)
    return state._replace(data=state.data._replace(extras=extras))


def sequence(length: int) -> Replay:
    """Keeps the last `length` transitions and gives them all, oldest first, once there are so many."""
    ring = uniform(length, length)

    def sample(state: Ring, key: Key) -> Transition:
        del key
        return jax.tree.map(lambda data: jnp.roll(data, -state.next, axis=0), state.data)

    return ring._replace(sample=sample)
