"""Speed of whole runs of each runner at an older commit and now, measured in turn.

    python benchmarks/before_after.py --before 92e0dd0 --out results/before_after.json

Each measurement is a process that trains through `tdu.train` and prints the result's steps per second, which excludes
compilation. The two commits take turns, `--rounds` times. Compare ratios, because machines are noisy.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import folders
import workers

ROOT = Path(__file__).resolve().parent.parent
RUNS: dict[str, dict[str, Any]] = {
    "compiled, networks": {"env": "deep_sea:size=20", "steps": 30_000, "preset": "paper"},
    "compiled, heads": {"env": "deep_sea:size=20", "steps": 120_000, "preset": "deep"},
    "compiled, DQN": {"env": "deep_sea:size=20", "agent": "dqn", "steps": 200_000, "preset": "paper"},
    "compiled, bsuite twin": {"env": "catch/0", "steps": 30_000, "preset": "paper"},
    "stepwise, Gymnasium": {"env": "gym:CartPole-v1", "steps": 12_000},
    "stepwise, four environments": {"env": "gym:CartPole-v1", "steps": 12_000, "num_envs": 4},
    "stepwise, official bsuite": {"env": "bsuite:catch/0", "steps": 12_000, "preset": "paper"},
    "recurrent": {"env": "memory_len/9", "agent": "r2d2", "steps": 60_000},
}
_CODE = """
import json, sys
from tdu.{processes} import use_one_core
use_one_core()
import tdu
settings = json.loads(sys.argv[1])
run = tdu.train(settings.pop("env"), until="budget", evaluation_episodes=0, progress=None, **settings)
print(run.result["steps_per_second"])
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", metavar="COMMIT", required=True, help="the older commit")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each run (default 3)")
    parser.add_argument("--only", metavar="WORDS", default="", help="only runs whose name contains this")
    parser.add_argument("--out", type=Path, help="where to save the numbers as JSON")
    parsed = parser.parse_args()
    found: dict[str, dict[str, Any]] = {}
    with workers.checked_out(parsed.before) as before:
        assert before is not None
        for name, settings in RUNS.items():
            if parsed.only not in name:
                continue
            rates: dict[str, list[float]] = {"before": [], "now": []}
            for _ in range(parsed.rounds):
                for which, tree in (("before", before), ("now", ROOT)):
                    rates[which].append(rate(tree, settings))
            ratio = statistics.median(rates["now"]) / statistics.median(rates["before"])
            found[name] = {"steps_per_second": rates, "now_over_before": round(ratio, 2)}
            print(f"{name}: {rates['before']} before, {rates['now']} now, ratio {ratio:.2f}", flush=True)
    report = {"command": f"python benchmarks/before_after.py --before {parsed.before}", "commit": folders.commit()}
    if parsed.out is not None:
        parsed.out.write_text(json.dumps(report | {"runs": found}, indent=1) + "\n", "utf-8")
    return 0


def rate(tree: Path, settings: dict[str, Any]) -> float:
    """Steps per second of one run with the code of `tree`."""
    processes = "run.processes" if (tree / "tdu" / "run").exists() else "runners.parallel"
    command = [sys.executable, "-c", _CODE.format(processes=processes), json.dumps(settings)]
    paths = os.environ | {"PYTHONPATH": str(tree)}
    ended = subprocess.run(command, env=paths, cwd=tree, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise SystemExit(f"{settings} failed at {tree}: {ended.stderr.strip().splitlines()[-1]}")
    return float(ended.stdout.split()[-1])


if __name__ == "__main__":
    sys.exit(main())
