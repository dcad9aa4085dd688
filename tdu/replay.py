"""A replay of transitions: a ring buffer on the device, sampled uniformly."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from tdu.types import Array, EnvSpec, Key, State, Transition, TransitionReplay


class Ring(NamedTuple):
    data: Transition
    """Every leaf has a leading axis of `capacity`."""
    next: Array
    """Where the next transition goes."""
    filled: Array
    """Number of transitions stored."""
    streams: State = ()
    """Number of environments, which take turns; empty where single steps are sampled."""


def example(spec: EnvSpec, extras: dict[str, Array] | None = None) -> Transition:
    """A transition of zeros with the environment's shapes."""
    observation = jnp.zeros(spec.carried_shape, spec.carried_dtype)
    number = jnp.zeros(())
    return Transition(observation, jnp.zeros((), jnp.int32), number, number, observation, extras or {})


def uniform(capacity: int, batch_size: int, *, steps: int = 1, join: float | None = None) -> TransitionReplay:
    """Keeps the last `capacity` transitions; a batch is drawn uniformly with replacement.

    With n = `steps` > 1, transitions need `last` and `row` in their extras. The n − 1 steps after one are in `later`;
    `later.extras["follows"]` marks those that continue the episode. With a discount γ as `join`, up to n steps of an episode
    become one transition instead: r_t is their discounted sum, and γ·d_t the weight of the value of o_t. Extras whose names
    end in `_t` are those of o_t.
    """
    several = steps > 1

    def init(example: Transition) -> Ring:
        empty = jax.tree.map(lambda x: jnp.zeros((capacity, *jnp.shape(x)), jnp.asarray(x).dtype), example)
        streams = jnp.ones((), jnp.int32) if several else ()
        return Ring(empty, jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32), streams)

    def add(state: Ring, transition: Transition) -> Ring:
        data = jax.tree.map(lambda ring, x: ring.at[state.next].set(x), state.data, transition)
        streams = jnp.maximum(state.streams, transition.extras["row"] + 1) if several else ()
        return Ring(data, (state.next + 1) % capacity, jnp.minimum(state.filled + 1, capacity), streams)

    def sample(state: Ring, key: Key) -> Transition:
        places = jax.random.randint(key, (batch_size,), 0, jnp.maximum(state.filled, 1))
        if not several:
            return drawn(state, places)
        return with_later(state, places) if join is None else joined(state, places, join)

    def drawn(state: Ring, places: Array) -> Transition:
        return jax.tree.map(lambda ring: ring[places], state.data)

    def ahead_of(state: Ring, first: Array) -> tuple[Array, Array]:
        """Places of n steps from `first` [B] on, [B, n], and whether each but the first continues the episode, [B, n − 1]."""
        ahead = state.streams * jnp.arange(steps)
        places = (first[:, None] + ahead) % capacity
        newer = (state.next - 1 - first) % capacity  # transitions stored since then
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

    return TransitionReplay(init, add, sample, lambda state: state.filled)


def cut(state: Ring) -> Ring:
    """The ring after all environments were reset: no stored transition is continued by the next ones."""
    capacity = len(state.data.r_t)
    age = (state.next - 1 - jnp.arange(capacity)) % capacity
    extras = dict(state.data.extras)
    extras["last"] = extras["last"] | (age < state.streams)
    return state._replace(data=state.data._replace(extras=extras))


def sequence(length: int) -> TransitionReplay:
    """Keeps the last `length` transitions; a sample is all of them, oldest first. It must be full."""
    ring = uniform(length, length)

    def sample(state: Ring, key: Key) -> Transition:
        del key
        return jax.tree.map(lambda data: jnp.roll(data, -state.next, axis=0), state.data)

    return ring._replace(sample=sample)
