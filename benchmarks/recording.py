"""The cost of --record and of its page: snapshots and steps in processor time, size and speed of a page.

    python benchmarks/recording.py --out results/recording.json
    python -m tdu train deep_sea:size=50 --episodes 10000 --until budget --record --out long
    python benchmarks/recording.py --page long --out results/recording.json

Times are processor time, which other work affects little. The page also has wall time: of `tdu report` from start to end, and
until Chromium first paints. The one-time compilation for snapshots is excluded.
"""

import argparse
import dataclasses
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tdu import files
from tdu.run import folder as runs
from tdu.run.plan import make_runner, plan
from tdu.run.processes import use_one_core
from tdu.run.recording import Recorder

CASES = (("tdu", 20, 275), ("tdu", 50, 2951), ("dqn", 50, None))
"""Agent, size of Deep Sea, and the episode at which it is solved in results/deep_sea/runs.csv."""
EPISODES, SHORT = 10_000, 300
"""Lengths of runs, in episodes."""
TIMES = 3
"""Number of times that a page is made and opened."""


def processor_seconds(call: Callable[[], object], times: int) -> float:
    began = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - began) / times


def snapshots(recorder: Recorder, episodes: int) -> int:
    """Number of snapshots after that many episodes."""
    count, moment = 1, 0
    while moment < episodes:
        moment = recorder.after(moment)
        count += 1
    return count


def measure(agent_name: str, size: int, solved: int | None) -> dict[str, float | int | str]:
    planned = plan(f"deep_sea:size={size}", agent_name, episodes=EPISODES)
    runner, agent = make_runner(planned.config, planned.env)
    recorder = Recorder(runner, agent, planned.config)
    short = Recorder(runner, agent, dataclasses.replace(planned.config, episodes=SHORT))
    recorder.snapshot(runner.clock)
    runner.advance()
    steps = processor_seconds(runner.advance, 3)
    snapshot = processor_seconds(lambda: recorder.snapshot(runner.clock), 10)
    measured: dict[str, float | int | str] = {
        "agent": agent_name,
        "size": size,
        "seconds_of_1000_steps": round(steps, 4),
        "seconds_of_a_snapshot": round(snapshot, 5),
    }
    for name, episodes in (("whole", EPISODES), ("short", SHORT), ("until_solved", solved)):
        if episodes is not None:
            count = snapshots(recorder if episodes != SHORT else short, episodes)
            measured[f"snapshots_{name}"] = count
            measured[f"share_{name}"] = round(count * snapshot / (episodes * size / 1000 * steps), 4)
    return measured


def measure_page(folder: Path) -> dict[str, object]:
    """The page of a run: its size, the time of `tdu report`, and the time to a browser's first paint."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    from browser import Browser

    config = runs.read_config(folder)
    record = runs.read_record(folder, config, print)
    assert record is not None
    log = runs.read_log(folder / "log.csv")
    made = []
    with tempfile.TemporaryDirectory() as place:
        page = Path(place) / "report.html"
        command = [sys.executable, "-m", "tdu", "report", str(folder), "--out", str(page)]
        for _ in range(TIMES):
            before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            subprocess.run(command, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            made.append({"seconds": round(time.perf_counter() - began, 2), "processor_seconds": round(used, 2)})
        paints, browser = [], Browser()
        for _ in range(TIMES):
            browser.open(page)
            first = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
            browser.until(first)
            paints.append(round(browser.run(first) / 1000, 3))
            assert browser.problems == []
        browser.close()
        size = page.stat().st_size
    return {
        "agent": config.agent, "environment": config.env, "episodes": int(log["episode"][-1]),
        "heads": record.about["exploiters"] + record.about["explorers"], "snapshots": len(record.snapshots),
        "record_megabytes": round((folder / "record.jsonl").stat().st_size / 1e6, 2), "page_megabytes": round(size / 1e6, 2),
        "made": made, "first_paint_seconds": paints,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--page", type=Path, metavar="RUN", help="measure the page of this run, and leave the rest as it is"
    )
    parsed = parser.parse_args()
    measured = json.loads(parsed.out.read_text()) if parsed.out.exists() else {}
    if parsed.page is not None:
        measured["page"] = measure_page(parsed.page)
        print(measured["page"])
    else:
        use_one_core()
        measured["snapshots"] = []
        for case in CASES:
            measured["snapshots"].append(measure(*case))
            print(measured["snapshots"][-1], flush=True)
    files.write_atomically(parsed.out, (json.dumps(measured, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
