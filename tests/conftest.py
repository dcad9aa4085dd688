"""One core per process, as the command line sets it, so that tests and command line compute the same numbers."""

import jax
import pytest

from tdu.runners.parallel import use_one_core

use_one_core()


@pytest.fixture(scope="module")
def lightly_compiled():
    """For files that compile much and compute little: half the time to compile, the same meaning, other rounding."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture
def fully_compiled():
    """For a test in such a file that needs what XLA makes of a program otherwise."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", before)
