"""What XLA makes of a program for users, looked at in a process that compiles as theirs do."""

import os
import subprocess
import sys
from pathlib import Path

QUICK = {"XLA_FLAGS", "JAX_DISABLE_MOST_OPTIMIZATIONS"}


def test_the_big_table_of_a_one_hot_layer_is_updated_where_it_lies():
    environment = {name: value for name, value in os.environ.items() if name not in QUICK}
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", str(Path(__file__).parents[1] / "in_place.py")]
    told = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert told.returncode == 0, told.stdout
    assert "3 passed" in told.stdout
