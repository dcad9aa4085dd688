"""Each test process uses one core, like the command line, so both compute the same numbers.

Tests compile a lot and compute little. XLA therefore skips most optimizations and uses its older kernel emitters, which
compile in a third of the time. Results differ only by rounding. All processes share compiled programs, because many tests
start the same small program, some in a separate process. Processes that tests start inherit these settings.
"""

import os
import shutil
import tempfile

if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    # Processes that run the tests inherit the variable from the process that starts them.
    OURS = os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="tdu-compiled-")
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.05"
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
"""The slowest files start first, so that none of them runs alone at the end."""


def pytest_collection_modifyitems(items):
    order = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.stem, len(order)))


def pytest_unconfigure():
    """Deletes the compiled programs."""
    if OURS is not None:
        shutil.rmtree(OURS, ignore_errors=True)
