"""One core per process, as the command line sets it, so that tests and command line compute the same numbers.

What one process has compiled, the others find: many tests start the same small program, some in a process of its own.
"""

import os
import shutil
import tempfile

if (
    "JAX_COMPILATION_CACHE_DIR" not in os.environ
):  # the processes that run the tests inherit it from the one that starts them
    OURS = os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="tdu-compiled-")
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.3"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
else:
    OURS = None

import jax
import pytest

from tdu.runners.parallel import use_one_core

use_one_core()


def pytest_unconfigure():
    """Leaves nothing behind."""
    if OURS is not None:
        shutil.rmtree(OURS, ignore_errors=True)


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
