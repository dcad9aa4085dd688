"""The effect of each setting of the preset `general`: TDU with one setting changed.

    python benchmarks/levers.py --out results/levers.csv
    python benchmarks/levers.py --out results/levers.csv --markdown

Each run has a row, written as it ends. A second start makes the missing runs. The settings were chosen with this table and
with single runs before it. The seeds differ from those of benchmarks/tasks.py.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import rows
import tasks

LEVERS: dict[str, dict[str, Any]] = {
    "general": {},
    "bootstrap=max": {"bootstrap": "max"},
    "learning_rate=2e-4": {"learning_rate": 2e-4},
    "learning_rate=1e-3": {"learning_rate": 1e-3},
    "target_period=4": {"target_period": 4},
    "target_period=100": {"target_period": 100},
    "target_period=1000": {"target_period": 1000},
    "return_steps=1": {"return_steps": 1},
    "return_steps=5": {"return_steps": 5},
    "return_cut=worse": {"return_cut": "worse"},
    "epsilon=0": {"epsilon": 0.0},
    "acting=frozen": {"acting": "frozen"},
    "epsilon=0 acting=frozen": {"epsilon": 0.0, "acting": "frozen"},
    "prior_scale=0": {"prior_scale": 0.0},
    "prior_scale=0.3": {"prior_scale": 0.3},
    "prior_scale=3": {"prior_scale": 3.0},
    "beta=0": {"beta": 0.0},
    "beta=0.1": {"beta": 0.1},
    "beta=3": {"beta": 3.0},
    "10+10 heads": {"exploiters": 10, "explorers": 10},
    "batch_size=128": {"batch_size": 128},
    "replay_capacity=10000": {"replay_capacity": 10_000},
    "learn_period=2": {"learn_period": 2},
    "preset=paper": {"preset": "paper"},
}
DENSE_LEVERS: dict[str, dict[str, Any]] = {
    "general": {},
    "observations=raw": {"observations": "raw"},
    "dense_prior=0.1": {"dense_prior": 0.1},
    "dense_prior=1": {"dense_prior": 1.0},
    "return_steps=1": {"return_steps": 1},
    "return_steps=5": {"return_steps": 5},
    "return_cut=worse": {"return_cut": "worse"},
    "target_period=100": {"target_period": 100},
    "learning_rate=1e-3": {"learning_rate": 1e-3},
}
"""For observations that are vectors of numbers."""
TASKS = {"key_door_8": LEVERS, "key_door_8_features": DENSE_LEVERS}
SEEDS = (100, 101, 102)
COLUMNS = ("lever", *tasks.COLUMNS)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=tasks.ROOT / "results" / "levers.csv")
    parser.add_argument("--only", nargs="+", choices=TASKS, default=list(TASKS), metavar="TASK")
    parser.add_argument("--markdown", action="store_true", help="print the table and run nothing")
    parser.add_argument("--worker", nargs="+", help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    if parsed.worker:
        lever, task, *seeds = parsed.worker
        for seed in seeds:
            started = time.process_time()
            row = tasks.ours(tasks.TASKS[task], "tdu", int(seed), **TASKS[task][lever])
            row |= {"lever": lever, "task": task, "agent": "tdu", "seed": int(seed), "compiled": seed == seeds[0]}
            print(json.dumps(row | {"seconds": round(time.process_time() - started, 1)}), flush=True)
        return 0
    if parsed.markdown:
        print(markdown(rows.read(parsed.out)))
        return 0
    done = {(r["lever"], r["task"], r["seed"]) for r in rows.read(parsed.out)}
    for task in parsed.only:
        for lever in TASKS[task]:
            seeds = [str(seed) for seed in SEEDS if (lever, task, str(seed)) not in done]
            if not seeds:
                continue
            command = [sys.executable, __file__, "--worker", lever, task, *seeds]
            found = subprocess.run(command, capture_output=True, text=True, check=True)
            for row in (json.loads(line) for line in found.stdout.splitlines() if line.startswith("{")):
                rows.append(parsed.out, COLUMNS, row)
                reached = f"target at {row['target_step'] or 'no'} steps, {row['seconds']:.0f} s"
                print(f"{lever} {task} {row['seed']}: {reached}", flush=True)
    return 0


def markdown(rows: list[dict[str, str]]) -> str:
    """A table per set of levers: steps to the target on each task, and the largest value divided by the possible return."""
    tables = []
    for levers in (LEVERS, DENSE_LEVERS):
        names = [task for task, its in TASKS.items() if its is levers]
        lines = ["| changed | " + " | ".join(f"{name}: target at step" for name in names) + " | largest Q / possible |"]
        lines.append("|---" * (len(names) + 2) + "|")
        for lever in levers:
            matching = [r for r in rows if r["lever"] == lever and r["task"] in names]
            if not matching:
                continue
            steps = [tasks.median_words([r["target_step"] for r in matching if r["task"] == name]) for name in names]
            drift = max(float(r["largest_q"]) / max(float(r["possible_return"]), 1e-9) for r in matching)
            lines.append(f"| {lever} | {' | '.join(steps)} | {drift:.2g} |")
        tables.append("\n".join(lines))
    return "\n\n".join(tables)


if __name__ == "__main__":
    sys.exit(main())
