"""One core per process, as the command line sets it, so that tests and command line compute the same numbers.

Tests compile much and compute little. XLA leaves out most of its optimizations and writes its kernels the older way, which
compiles in a third of the time (the same meaning, other rounding), and what one process has compiled, the others find: many
tests start the same small program, some in a process of its own. What is said here is said to those processes too.
"""

import os
import shutil
import tempfile

if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    # The processes that run the tests have it from the one that starts them.
    OURS = os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="tdu-compiled-")
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.3"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
    quick = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {quick}".strip()
else:
    OURS = None

from tdu.run.processes import use_one_core

use_one_core()

LONGEST = (
    "test_ray",
    "test_sweeps",
    "test_processes",
    "test_runs",
    "test_your_task",
    "test_runners",
    "test_r2d2",
    "test_reproduce",
)
"""Files that take longest begin first, so that none of them is left to the end alone."""


def pytest_collection_modifyitems(items):
    order = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.stem, len(order)))


def pytest_unconfigure():
    """Leaves nothing behind."""
    if OURS is not None:
        shutil.rmtree(OURS, ignore_errors=True)
