"""Values of a policy in a thousand MDPs at once: NumPy's and JAX's batched solve, both LAPACK in float64 on one core.

    python benchmarks/theory_solves.py --out results/theory_solves.json

Times are medians of processor time over rounds, in which both take turns, so other work affects them little. Compilation is
reported separately.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from workers import machine

from tdu import files
from tdu.run.processes import use_one_core

STATES = (8, 12, 16, 25, 40, 64)
SYSTEMS, ROUNDS, GAMMA = 1000, 21, 0.9


def numpy_solve(system: Any, rewards: Any) -> Any:
    return np.linalg.solve(system, rewards[..., None])[..., 0]


jax_solve = jax.jit(lambda system, rewards: jnp.linalg.solve(system, rewards[..., None])[..., 0])


def seconds(call: Callable[[], object]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def measure(states: int, rng: np.random.Generator) -> dict[str, float]:
    transitions = rng.dirichlet(np.ones(states), size=(SYSTEMS, states))
    system, rewards = np.eye(states) - GAMMA * transitions, rng.standard_normal((SYSTEMS, states))
    with jax.enable_x64(True):
        there, then = jnp.asarray(system), jnp.asarray(rewards)
        calls = {
            "numpy": lambda: numpy_solve(system, rewards),
            "jax": lambda: jax_solve(there, then).block_until_ready(),
        }
        compilation = seconds(calls["jax"])
        np.testing.assert_allclose(np.asarray(calls["jax"]()), calls["numpy"](), atol=1e-9)
        took: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(ROUNDS):
            for name, call in calls.items():
                took[name].append(1000 * seconds(call))
    both = {name: statistics.median(times) for name, times in took.items()}
    return {
        "numpy_milliseconds": round(both["numpy"], 2),
        "jax_milliseconds": round(both["jax"], 2),
        "jax_over_numpy": round(both["jax"] / both["numpy"], 2),
        "jax_compilation_milliseconds": round(1000 * compilation - both["jax"], 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results") / "theory_solves.json")
    out = parser.parse_args().out
    use_one_core()
    rng = np.random.default_rng(0)
    measured = {
        "command": "python benchmarks/theory_solves.py",
        "machine": machine() | {"numpy": np.__version__, "jax": jax.__version__},
        "systems": SYSTEMS,
        "rounds": ROUNDS,
        "states": {str(states): measure(states, rng) for states in STATES},
    }
    files.write_atomically(out, f"{json.dumps(measured, indent=1)}\n".encode())
    print(json.dumps(measured["states"], indent=1))


if __name__ == "__main__":
    main()
