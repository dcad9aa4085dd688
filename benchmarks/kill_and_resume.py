"""Kills runs with SIGKILL at random moments, resumes them, and compares the end with a run that was never killed.

    python benchmarks/kill_and_resume.py --kills 100 --out results/kill_and_resume.json

At least a fifth of the kills are aimed at a checkpoint while it is being written: the script watches the run's folder for
one and strikes when it appears. The log (wall time aside) and every array of the last checkpoint must be bit-identical.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CASES = {
    "compiled": ["deep_sea:size=30,stochastic=true", "--episodes", "1500"],
    "stepwise": ["bsuite:deep_sea_stochastic/0", "--episodes", "1500"],
}
LATEST = 15.0
"""Seconds after a start at which it is killed at the latest; it trains after about eight."""
SHARED = ["--no-stop", "--seed", "3", "--checkpoint-seconds", "0", "--progress", "none"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parsed = parser.parse_args()
    moments = random.Random(parsed.seed)
    outcome: dict = {"command": f"python benchmarks/kill_and_resume.py --kills {parsed.kills}", "cases": {}}
    with tempfile.TemporaryDirectory() as folder:
        whole = {}
        for name, case in CASES.items():
            whole[name] = Path(folder) / f"{name}-whole"
            started = time.monotonic()
            subprocess.run(command(case, whole[name]), check=True, stdout=subprocess.DEVNULL)
            outcome["cases"][name] = {
                "whole_seconds": round(time.monotonic() - started, 1),
                "log": digest_log(whole[name]),
                "state": digest_state(whole[name]),
                "rounds": [],
            }
        kills = 0
        while kills < parsed.kills:
            name = "stepwise" if moments.random() < 0.25 else "compiled"
            tally = one_round(CASES[name], Path(folder) / "run", moments, parsed.kills - kills)
            kills += tally["kills"]
            tally["log_identical"] = digest_log(Path(folder) / "run") == outcome["cases"][name]["log"]
            tally["state_identical"] = digest_state(Path(folder) / "run") == outcome["cases"][name]["state"]
            outcome["cases"][name]["rounds"].append(tally)
            print(name, tally, f"{kills} kills so far", flush=True)
            shutil.rmtree(Path(folder) / "run")
    rounds = [r for case in outcome["cases"].values() for r in case["rounds"]]
    outcome["kills"] = sum(r["kills"] for r in rounds)
    outcome["kills_while_writing_a_checkpoint"] = sum(r["while_writing"] for r in rounds)
    outcome["kills_before_the_first_checkpoint"] = sum(r["before_first_checkpoint"] for r in rounds)
    enough = outcome["kills_while_writing_a_checkpoint"] >= outcome["kills"] // 5
    outcome["all_identical"] = all(r["log_identical"] and r["state_identical"] for r in rounds)
    parsed.out.parent.mkdir(parents=True, exist_ok=True)
    parsed.out.write_text(json.dumps(outcome, indent=1) + "\n")
    print(json.dumps({k: v for k, v in outcome.items() if k != "cases"}, indent=1))
    return 0 if outcome["all_identical"] and enough else 1


def command(case: list[str], out: Path) -> list[str]:
    return [sys.executable, "-m", "tdu", "train", *case, *SHARED, "--out", str(out), "--resume-if-there"]


def one_round(case: list[str], out: Path, moments: random.Random, most: int) -> dict:
    """Kills one run again and again, then lets it finish."""
    tally = {"kills": 0, "while_writing": 0, "before_first_checkpoint": 0}
    for _ in range(min(most, moments.randint(12, 24))):
        stale = being_written(out)  # what an earlier kill has left is not being written now
        process = subprocess.Popen(command(case, out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if moments.random() < 0.5:
            struck = strike_while_writing(process, out, stale, moments)
        else:
            struck = wait_until(process, time.monotonic() + moments.uniform(0.1, LATEST))
        if not struck:
            break
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        tally["kills"] += 1
        tally["while_writing"] += bool(being_written(out) - stale)
        has_one = (out / "checkpoints").exists() and any(p.name.isdigit() for p in (out / "checkpoints").iterdir())
        tally["before_first_checkpoint"] += not has_one
    subprocess.run(command(case, out), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return tally


def being_written(out: Path) -> set[tuple[str, int]]:
    """Checkpoints that are not whole, by name and inode."""
    found = set()
    for path in (out / "checkpoints").glob(".writing-*"):
        try:
            status = path.stat()
        except FileNotFoundError:  # it has just become whole
            continue
        found.add((path.name, status.st_ino))
    return found


def strike_while_writing(process: subprocess.Popen, out: Path, stale: set, moments: random.Random) -> bool:
    """Waits until a checkpoint is being written, after a random number of them; False if the run ended first."""
    skip, seen = moments.randint(0, 3), set()
    while process.poll() is None:
        seen |= {name for name, _ in being_written(out) - stale}
        if len(seen) > skip and being_written(out) - stale:
            time.sleep(moments.uniform(0.0, 0.005))
            return process.poll() is None
        time.sleep(0.0005)
    return False


def wait_until(process: subprocess.Popen, deadline: float) -> bool:
    while time.monotonic() < deadline:
        if process.poll() is not None:
            return False
        time.sleep(0.01)
    return True


def digest_log(out: Path) -> str:
    """Of the log without its last column, the wall time."""
    lines = [line.rsplit(",", 1)[0] for line in (out / "log.csv").read_text().splitlines()]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def digest_state(out: Path) -> str:
    """Of the last checkpoint's arrays: parameters, replay, everything."""
    newest = sorted(p for p in (out / "checkpoints").iterdir() if p.name.isdigit())[-1]
    parts = sorted(newest.glob("*.safetensors"))
    return hashlib.sha256(b"".join(part.read_bytes() for part in parts)).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
