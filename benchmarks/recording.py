"""What --record costs: processor time of a snapshot beside that of a thousand steps, and its share of whole runs.

    python benchmarks/recording.py --out results/recording.json

Processor time, so that a busy machine changes little. Compilation is left out: it happens once.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

from tdu import files
from tdu.runners.parallel import use_one_core
from tdu.training.plan import make_runner, plan
from tdu.training.recording import Recorder

CASES = (("tdu", 20, 275), ("tdu", 50, 2951), ("dqn", 50, None))
"""Agent, size of the sea, and the episode at which the README has it solved."""
EPISODES, SHORT = 10_000, 300
"""Runs that may have so many episodes."""


def processor_seconds(call: Callable[[], object], times: int) -> float:
    began = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - began) / times


def snapshots(recorder: Recorder, episodes: int) -> int:
    """How many there are by then."""
    count, moment = 1, 0
    while moment < episodes:
        moment = recorder.after(moment)
        count += 1
    return count


def measure(agent_name: str, size: int, solved: int | None) -> dict[str, float | int | str]:
    planned = plan(f"deep_sea:size={size}", agent_name, episodes=EPISODES)
    runner, agent = make_runner(planned.config, planned.env)
    recorder = Recorder(runner, agent, seed=0, episodes=EPISODES)
    short = Recorder(runner, agent, seed=0, episodes=SHORT)
    recorder.snapshot(runner.clock)
    runner.advance()
    steps = processor_seconds(runner.advance, 3)
    snapshot = processor_seconds(lambda: recorder.snapshot(runner.clock), 10)
    told: dict[str, float | int | str] = {
        "agent": agent_name,
        "size": size,
        "seconds_of_1000_steps": round(steps, 4),
        "seconds_of_a_snapshot": round(snapshot, 5),
    }
    for name, episodes in (("whole", EPISODES), ("short", SHORT), ("until_solved", solved)):
        if episodes is not None:
            count = snapshots(recorder if episodes != SHORT else short, episodes)
            told[f"snapshots_{name}"] = count
            told[f"share_{name}"] = round(count * snapshot / (episodes * size / 1000 * steps), 4)
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    use_one_core()
    rows = []
    for case in CASES:
        rows.append(measure(*case))
        print(rows[-1], flush=True)
    files.write_atomically(out, (json.dumps(rows, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
