"""JAX's threefry generator with its rounds unrolled.

On a CPU, XLA runs JAX's rolled rounds as a loop of about fifteen kernels; unrolled, a draw is one kernel. The numbers are
those of `jax.random.key(seed)` bit for bit.

`split(key, n)[i]` is `fold_in(key, i)`, so a key that is split must not also be folded with small numbers. All other numbers
that are folded into keys are listed in `Use`.
"""

import enum
import math

import jax
import jax.numpy as jnp
from jax.extend.random import define_prng_impl

from tdu.types import Array, Key


@enum.unique
class Use(enum.IntEnum):
    """Purpose of a key that is not one of a split; the numbers are far above those of any split."""

    BONUS = 1 << 16
    NOISE = (1 << 31) + 1
    EVALUATION = (1 << 31) + 2
    BEGUN_AGAIN = (1 << 31) + 3
    RECORD = (1 << 31) + 4
    WATCH = (1 << 31) + 5
    ROLLOUT = (1 << 31) + 6
    HEAD = (1 << 31) + 7
    SUCCESSOR = (1 << 31) + 8
    LATER_STEPS = (1 << 32) - 2
    FIRST_STEP = (1 << 32) - 1


def for_use(key: Key, use: Use) -> Key:
    """A key for one use."""
    return jax.random.fold_in(key, jnp.uint32(int(use)))


_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def key(seed: int | Array) -> Key:
    """A key for `jax.random`'s functions, from an integer in [0, 2³²)."""
    return wrap(_seed(jnp.asarray(seed, jnp.uint32)))


def wrap(data: Array) -> Key:
    """A key from its two numbers, as `jax.random.key_data` returns them."""
    return jax.random.wrap_key_data(data, impl=_IMPL)


def _threefry(key_data: Array, x0: Array, x1: Array) -> tuple[Array, Array]:
    """Threefry-2x32 with 20 rounds (Salmon et al., 2011) of the counters (x0, x1)."""
    k0, k1 = key_data[0], key_data[1]
    keys = (k0, k1, k0 ^ k1 ^ jnp.uint32(0x1BD11BDA))
    x0, x1 = x0 + keys[0], x1 + keys[1]
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            x0 = x0 + x1
            x1 = x0 ^ ((x1 << jnp.uint32(rotation)) | (x1 >> jnp.uint32(32 - rotation)))
        x0 = x0 + keys[(group + 1) % 3]
        x1 = x1 + keys[(group + 2) % 3] + jnp.uint32(group + 1)
    return x0, x1


def _counters(shape: tuple[int, ...]) -> tuple[Array, Array]:
    """High and low words of 0, 1, 2 …; fewer than 2³² numbers are drawn at once."""
    low = jnp.arange(math.prod(shape), dtype=jnp.uint32).reshape(shape)
    return jnp.zeros_like(low), low


def _seed(seed: int | Array) -> Array:
    low = jnp.asarray(seed).astype(jnp.uint32)
    return jnp.stack([jnp.zeros_like(low), low])


def _split(key_data: Array, shape: tuple[int, ...]) -> Array:
    return jnp.stack(_threefry(key_data, *_counters(shape)), axis=-1)


def _fold_in(key_data: Array, data: int | Array) -> Array:
    return jnp.stack(_threefry(key_data, *_seed(data)))


def _random_bits(key_data: Array, bit_width: int, shape: tuple[int, ...]) -> Array:
    high, low = _threefry(key_data, *_counters(shape))
    if bit_width == 64:
        return (high.astype(jnp.uint64) << jnp.uint64(32)) | low.astype(jnp.uint64)
    bits = high ^ low
    return bits if bit_width == 32 else bits.astype({8: jnp.uint8, 16: jnp.uint16}[bit_width])


_IMPL = define_prng_impl(
    key_shape=(2,),
    seed=_seed,
    split=_split,
    random_bits=lambda *draw: _random_bits(*draw),  # looked up at every trace, so that a test can patch it
    fold_in=_fold_in,
    name="tdu_threefry",
    tag="tdu",
)
