"""Checks what XLA compiles for users, in a process with the users' compiler settings."""

import os
import subprocess
import sys
from pathlib import Path

QUICK = {"XLA_FLAGS", "JAX_DISABLE_MOST_OPTIMIZATIONS"}


def test_the_table_of_a_one_hot_layer_is_updated_in_place():
    environment = {name: value for name, value in os.environ.items() if name not in QUICK}
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", str(Path(__file__).parents[1] / "in_place.py")]
    process = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment)
    assert process.returncode == 0, process.stdout
    assert "3 passed" in process.stdout
