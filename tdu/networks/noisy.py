"""Noisy networks (Fortunato et al., 2017): every weight is μ + σ·ε, with μ and σ trained and ε redrawn at each step.

The noise is not factorised: an independent standard normal for each weight. Drawing thousands of normals per step would cost
more than learning. So ε is read from a pool of normals that is drawn once, at an offset that is redrawn at each step.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tdu import random
from tdu.types import Array, Key, Params, Weights

_POOL = 1 << 18
"""Minimum number of normals in the pool; it has at least four times the largest layer."""


class Noisy(NamedTuple):
    """What is trained, both structured as the weights are."""

    mean: Params
    scale: Params


class Pool(NamedTuple):
    normals: Array
    key: Array
    """Data of the key from which offsets are drawn."""


class Draw(NamedTuple):
    normals: Array
    offsets: Array
    """Random bits, one number for each array of weights."""


def weights(scale: float, initial: float) -> Weights:
    """μ + scale·σ·ε, σ starting at `initial`."""

    def init(key: Key, networks: Params) -> Pool:
        largest = max(x.size for x in jax.tree.leaves(networks))
        key_pool, key_offsets = jax.random.split(random.for_use(key, random.Use.NOISE))
        normals = jax.random.normal(key_pool, (max(_POOL, 4 * largest),))
        return Pool(normals, jax.random.bits(key_offsets, (2,)))

    def trainable(params: Params) -> Noisy:
        return Noisy(params, jax.tree.map(lambda w: jnp.full_like(w, initial), params))

    def trainable_rows(rows: Array) -> Array:
        return jnp.concatenate([rows, jnp.full_like(rows, initial)], axis=1)

    def draw(pool: Pool, step: Array, stream: int) -> Draw:
        key = jax.random.fold_in(random.wrap(pool.key), 2 * step + stream)
        return Draw(pool.normals, jax.random.bits(key, (_OFFSETS,)))

    def drawn(trained: Noisy, draw: Draw | None) -> Params:
        if draw is None:
            return trained.mean
        leaves, structure = jax.tree.flatten(trained.mean)
        noise = [_slice(draw, i + 1, w) for i, w in enumerate(leaves)]
        return jax.tree.map(lambda w, s, e: w + scale * s * e, *trained, jax.tree.unflatten(structure, noise))

    def drawn_rows(trained: Array, states: Array, draw: Draw | None) -> Array:
        mean, spread = jnp.split(trained, 2, axis=1)
        if draw is None:
            return mean
        row = mean.shape[1:]
        width = math.prod(row)
        table = draw.normals[: draw.normals.size // width * width].reshape(-1, *row)
        at = (draw.offsets[0] % table.shape[0] + states.astype(jnp.uint32)) % table.shape[0]
        return mean + scale * spread * table[at]

    def each(function: Callable[[Params], Params], trained: Noisy) -> Noisy:
        return Noisy(function(trained.mean), function(trained.scale))

    return Weights(init, trainable, trainable_rows, draw, drawn, drawn_rows, each)


_OFFSETS = 32
"""Arrays of weights with their own offset; networks with more arrays share offsets."""


def _slice(draw: Draw, number: int, like: Array) -> Array:
    room = draw.normals.size - like.size
    at = draw.offsets[number % _OFFSETS] % (room + 1)
    return jax.lax.dynamic_slice(draw.normals, (at,), (like.size,)).reshape(like.shape)
