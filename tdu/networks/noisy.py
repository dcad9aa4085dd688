"""Noisy networks (Fortunato et al., 2017): every weight is μ + σ·ε with μ and σ trained and ε drawn anew for each step.

The noise is unfactorised: an independent standard normal for each weight. Drawing thousands of normals per step would cost
more than learning from it, so ε is read from a pool of normals drawn once, at a place drawn anew every time.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tdu import random
from tdu.types import Array, Key, Weights

_POOL = 1 << 18
"""Normals in the pool, at least; and at least four times the largest layer."""


class Pool(NamedTuple):
    normals: Array
    key: Array
    """Data of the key from which the places are drawn."""


class Draw(NamedTuple):
    normals: Array
    places: Array
    """Random bits, one number for each array of weights."""


def weights(scale: float, initial: float) -> Weights:
    """μ + scale·σ·ε, σ starting at `initial`."""

    def init(key: Key, networks: Any) -> Pool:
        largest = max(x.size for x in jax.tree.leaves(networks))
        key_pool, key_places = jax.random.split(random.for_use(key, random.Use.NOISE))
        normals = jax.random.normal(key_pool, (max(_POOL, 4 * largest),))
        return Pool(normals, jax.random.bits(key_places, (2,)))

    def trainable(params: Any) -> Any:
        return params, jax.tree.map(lambda w: jnp.full_like(w, initial), params)

    def trainable_rows(rows: Array) -> Array:
        return jnp.concatenate([rows, jnp.full_like(rows, initial)], axis=1)

    def draw(pool: Pool, step: Array, stream: int) -> Draw:
        key = jax.random.fold_in(random.wrap(pool.key), 2 * step + stream)
        return Draw(pool.normals, jax.random.bits(key, (_PLACES,)))

    def drawn(trained: Any, draw: Draw | None) -> Any:
        mean, spread = trained
        if draw is None:
            return mean
        leaves, structure = jax.tree.flatten(mean)
        noise = [_slice(draw, i + 1, w) for i, w in enumerate(leaves)]
        return jax.tree.map(lambda w, s, e: w + scale * s * e, mean, spread, jax.tree.unflatten(structure, noise))

    def drawn_rows(trained: Array, states: Array, draw: Draw | None) -> Array:
        mean, spread = jnp.split(trained, 2, axis=1)
        if draw is None:
            return mean
        row = mean.shape[1:]
        width = math.prod(row)
        table = draw.normals[: draw.normals.size // width * width].reshape(-1, *row)
        at = (draw.places[0] % table.shape[0] + states.astype(jnp.uint32)) % table.shape[0]
        return mean + scale * spread * table[at]

    def each(function: Callable[[Any], Any], trained: Any) -> Any:
        mean, spread = trained
        return function(mean), function(spread)

    return Weights(init, trainable, trainable_rows, draw, drawn, drawn_rows, each)


_PLACES = 32
"""Arrays of weights that can be told apart; a network of more layers starts over."""


def _slice(draw: Draw, number: int, like: Array) -> Array:
    room = draw.normals.size - like.size
    at = draw.places[number % _PLACES] % (room + 1)
    return jax.lax.dynamic_slice(draw.normals, (at,), (like.size,)).reshape(like.shape)
