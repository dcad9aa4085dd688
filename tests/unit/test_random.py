"""Our keys give the same random numbers as JAX's keys."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tdu import random

DRAWS = {
    "bits": lambda k: jax.random.bits(k, (5, 3)),
    "bits8": lambda k: jax.random.bits(k, (7,), jnp.uint8),
    "bits16": lambda k: jax.random.bits(k, (7,), jnp.uint16),
    "normal": lambda k: jax.random.normal(k, (4,)),
    "randint": lambda k: jax.random.randint(k, (32,), 0, 77),
    "split": lambda k: jax.random.key_data(jax.random.split(k, 6)),
    "fold_in": lambda k: jax.random.key_data(jax.random.fold_in(k, 123)),
    "vmap": lambda k: jax.vmap(lambda x: jax.random.uniform(x, (3,)))(jax.random.split(k, 4)),
}


@pytest.mark.parametrize("seed", [0, 7, 2**32 - 1])
@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_same_numbers_as_jax(draw, seed):
    theirs = jax.random.wrap_key_data(jnp.array([0, seed], jnp.uint32), impl="threefry2x32")
    np.testing.assert_array_equal(jax.jit(draw)(random.key(seed)), draw(theirs))


def test_a_seed_is_jax_s_seed():
    np.testing.assert_array_equal(jax.random.key_data(random.key(7)), jax.random.key_data(jax.random.key(7)))
