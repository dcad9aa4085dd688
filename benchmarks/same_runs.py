"""Checks that two commits give the same runs, bit for bit: every runner, every family of agents, a resume and a sweep.

    python benchmarks/same_runs.py --out before.json        # on one commit
    python benchmarks/same_runs.py --against before.json --verdict results/same_runs.json   # on another, same machine

before.json has a hash of each column of each run's logs, and of the trained agent's parameters. Wall time is excluded. On an
older commit, use a copy of this file.
"""

import argparse
import contextlib
import csv
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import tdu

SEA = "deep_sea:size=8"
RUNS: dict[str, dict[str, Any]] = {
    "tdu": {"env": SEA, "episodes": 60},
    "tdu, listing, masks, noise, ucb1": {
        "env": SEA, "episodes": 40, "preset": "listing", "mask_prob": 0.5, "noise_scale": 0.1, "acting": "live",
        "head_choice": "ucb1",
    },
    "tdu, deep": {
        "env": SEA, "episodes": 60, "preset": "deep", "exploiters": 10, "explorers": 10, "prior_scale": 1.0,
        "mask_prob": 0.75, "beta": 1.0,
    },
    "tdu, dense": {"env": SEA, "episodes": 30, "dense": True},
    "bdqn, boot_dqn": {"env": SEA, "agent": "bdqn", "episodes": 60, "preset": "boot_dqn"},
    "dqn": {"env": SEA, "agent": "dqn", "episodes": 60},
    "rnd": {"env": SEA, "agent": "rnd", "episodes": 40},
    "cts": {"env": SEA, "agent": "cts", "episodes": 40},
    "nns": {"env": SEA, "agent": "nns", "episodes": 40},
    "qex": {"env": SEA, "agent": "qex", "episodes": 40},
    "q_ucb": {"env": SEA, "agent": "q_ucb", "episodes": 40},
    "qu, stochastic": {"env": f"{SEA},stochastic=true", "agent": "qu", "episodes": 40},
    "su": {"env": SEA, "agent": "su", "episodes": 40},
    "tdu_ac": {"env": SEA, "agent": "tdu_ac", "episodes": 40},
    "tdu, Binary Tree": {"env": "binary_tree:depth=10", "episodes": 60},
    "tdu, bsuite twin": {"env": "cartpole/0", "episodes": 3},
    "tdu, official bsuite": {"env": "bsuite:deep_sea/0", "episodes": 20},
    "tdu, Gymnasium": {"env": "gym:CartPole-v1", "steps": 1500},
    "tdu, heads, Gymnasium": {"env": "gym:CartPole-v1", "steps": 1500, "ensemble": "heads"},
    "tdu, four Gymnasium environments": {"env": "gym:CartPole-v1", "steps": 1500, "num_envs": 4},
    "dqn, Gymnasium": {"env": "gym:CartPole-v1", "agent": "dqn", "steps": 1500},
    "bdqn, image": {"env": "key_door:size=5,limit=40,observation=image", "agent": "bdqn", "steps": 1500},
    "tdu_r2d2, compiled": {"env": SEA, "agent": "tdu_r2d2", "steps": 3000},
    "r2d2, Gymnasium": {"env": "gym:CartPole-v1", "agent": "r2d2", "steps": 3000, "preset": "memory"},
}  # fmt: skip
WALL_TIME = "seconds"


def digest(numbers: Any) -> str:
    """Hash of an array."""
    return hashlib.sha256(np.ascontiguousarray(numbers).tobytes()).hexdigest()[:16]


def of_log(log: dict[str, np.ndarray]) -> dict[str, str]:
    return {name: digest(numbers) for name, numbers in sorted(log.items()) if name != WALL_TIME}


def of_file(path: Path) -> dict[str, str]:
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return of_log({name: np.asarray([float(row[name]) for row in rows]) for name in rows[0]}) if rows else {}


def of_run(run: tdu.Run) -> dict[str, str]:
    import jax

    kept = {name: value for name, value in run.result.items() if "sha256" not in name and "second" not in name}
    leaves = jax.tree.leaves(run.agent.params)
    params = hashlib.sha256(b"".join(np.ascontiguousarray(x).tobytes() for x in leaves)).hexdigest()[:16]
    return of_log(run.log) | {"result": json.dumps(kept, sort_keys=True), "params": params}


DIFFERENT = ("config", "steps_per_second")
"""Fields of a result that may differ: its config gains a field with every new option."""


def same(column: str, was: str, now: str | None) -> bool:
    """Whether a column is unchanged. A result may have new fields."""
    if column != "result" or now is None:
        return was == now
    return contains(json.loads(now), {name: x for name, x in json.loads(was).items() if name not in DIFFERENT})


def contains(now: Any, was: Any) -> bool:
    if isinstance(was, dict) and isinstance(now, dict):
        return all(name in now and contains(now[name], x) for name, x in was.items())
    return bool(now == was)


def train(**options: Any) -> tdu.Run:
    return tdu.train(
        **{"seed": 3, "until": "budget", "evaluation_episodes": 2, "progress": None, "say": ignore} | options
    )


def ignore(sentence: str) -> None:
    del sentence


def resumed(folder: Path) -> dict[str, str]:
    """A run that is interrupted after 20 of 60 episodes and resumed."""
    seen = []

    def interrupt(row: dict[str, Any]) -> None:
        seen.append(row)
        if len(seen) == 20:
            raise KeyboardInterrupt

    options = {"env": "gym:CartPole-v1", "steps": 1500, "out": folder, "checkpoint_seconds": 0.0, "evaluate_every": 10}
    with contextlib.suppress(KeyboardInterrupt):
        train(**options, callbacks=[tdu.Callback(on_episode=interrupt)])
    run = train(**options, resume=True)
    return of_run(run) | {
        f"{path.name} {k}": v for path in sorted(folder.glob("*.csv")) for k, v in of_file(path).items()
    }


def sweep(folder: Path) -> dict[str, str]:
    """Four runs of the command line."""
    command = [sys.executable, "-m", "tdu", "sweep", SEA, "--agent", "tdu", "--grid", "beta=0.1,1", "--seeds", "2"]
    command += ["--episodes", "30", "--until", "budget", "--out", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    logs = sorted(of_file(path)["total_return"] + of_file(path)["loss"] for path in folder.rglob("log.csv"))
    return {f"log {i}": log for i, log in enumerate(logs)}


def commit() -> str:
    """The commit of the package."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(
        command, cwd=Path(tdu.__file__).parent, check=True, capture_output=True, text=True
    ).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--verdict", type=Path, help="where to write which runs are equal")
    parser.add_argument("--only", nargs="*", help="names of runs that contain one of these")
    arguments = parser.parse_args()

    def wanted(name: str) -> bool:
        return not arguments.only or any(part in name for part in arguments.only)

    found: dict[str, dict[str, str]] = {}
    for name, options in RUNS.items():
        if wanted(name):
            found[name] = of_run(train(**options))
            print(name, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, make in (("a resumed run", resumed), ("a sweep", sweep)):
            if wanted(name):
                found[name] = make(Path(folder) / "run")
                print(name, flush=True)
    if arguments.out is not None:
        arguments.out.write_text(json.dumps({"commit": commit(), "runs": found}, indent=1) + "\n")
    if arguments.against is not None:
        before = json.loads(arguments.against.read_text())
        runs: dict[str, dict[str, Any]] = {}
        for name, columns in found.items():
            was = before["runs"].get(name, {})
            changed = sorted(c for c in was if not same(c, was[c], columns.get(c)))
            runs[name] = {"equal": bool(was) and not changed, "columns": len(was), "different": changed}
            print(name, runs[name])
        equal = sum(run["equal"] for run in runs.values())
        print(f"{equal} of {len(runs)} runs are equal.")
        if arguments.verdict is not None:
            head = {"before": before["commit"], "after": commit(), "equal": f"{equal} of {len(runs)}"}
            arguments.verdict.write_text(json.dumps(head | {"runs": runs}, indent=1) + "\n")
        sys.exit(equal < len(runs))


if __name__ == "__main__":
    main()
