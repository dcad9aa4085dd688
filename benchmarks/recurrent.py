"""Tasks for agents with memory: R2D2, Bootstrapped R2D2 and TDU-R2D2 with their presets.

    python benchmarks/recurrent.py --out results/recurrent.csv
    python benchmarks/recurrent.py --out results/recurrent.csv --only memory_10 deep_sea_10 --agents tdu_r2d2

Each run has a row, written as it ends. A second start makes the missing runs. `--markdown` prints the table. Every run has a
limit of steps or episodes. A run with a target ends after five evaluations in a row at the target. A run on Deep Sea ends
when it is solved. `control` is r2d2 without LSTM, previous action and previous reward, so it has no memory. Presets were
tuned on seeds from 100 on. The seeds here are 0, 1, 2, …
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import rows

ROOT = Path(__file__).parent.parent


class Task(NamedTuple):
    """A task and its limits."""

    env: str
    agents: tuple[str, ...]
    seeds: int
    steps: int | None = None
    episodes: int | None = None
    every: int = 0
    """Episodes between evaluations; 0 for none."""
    evaluation_episodes: int = 60
    target: float | None = None
    """Return of the trained policy that counts as having learned the task."""


ALL = ("r2d2", "b_r2d2", "tdu_r2d2", "tdu_r2d2_prior")
OPTIONS = {"control": {"lstm_size": 0, "feed_back": False}, "b_r2d2": {"prior_scale": 0.0}}
"""Bootstrapped R2D2 has no priors, like its first rows in the file."""

TASKS = {
    "memory_10": Task("bsuite:memory_len/9", ("r2d2", "tdu_r2d2", "control"), 5, steps=20_000, every=200, target=0.95),
    "memory_30": Task("bsuite:memory_len/15", ("r2d2", "tdu_r2d2", "control"), 5, steps=80_000, every=200, target=0.95),
    "deep_sea_6": Task("deep_sea:size=6", ALL, 3, episodes=15_000),
    "deep_sea_8": Task("deep_sea:size=8", ALL, 3, episodes=15_000),
    "deep_sea_10": Task("deep_sea:size=10", ALL, 5, episodes=15_000),
    "deep_sea_12": Task("deep_sea:size=12", ALL, 3, episodes=15_000),
    "minatar_breakout": Task("gymnax:Breakout-MinAtar", ("tdu_r2d2", "r2d2"), 3, steps=500_000, every=500, target=10.0),
    "freeway": Task(
        "atari/freeway", ("tdu_r2d2", "b_r2d2", "r2d2"), 3, steps=300_000, every=32, evaluation_episodes=12, target=10.0
    ),
    "doorkey_8": Task(
        "gym:MiniGrid-DoorKey-8x8-v0",
        ("tdu_r2d2", "r2d2"),
        3,
        steps=300_000,
        every=100,
        evaluation_episodes=20,
        target=0.8,
    ),
}
IN_A_ROW = 5
COLUMNS = (
    "task", "agent", "seed", "target_step", "target_episode", "best_return", "last_return", "evaluation_episodes",
    "solved_episode", "training_return", "episodes", "steps", "steps_per_second", "seconds",
)  # fmt: skip


def run(name: str, agent: str, seed: int) -> dict[str, Any]:
    """The row of one run."""
    from tdu.run.processes import use_one_core

    use_one_core()
    import tdu
    from tdu.run.trained import play

    task, row, in_a_row = TASKS[name], dict.fromkeys(COLUMNS), 0

    def on_evaluation(evaluation: Any) -> bool:
        nonlocal in_a_row
        mean, episodes = evaluation.returns.mean, evaluation.returns.episodes
        if episodes < task.evaluation_episodes:  # evaluations in a run take at most a tenth of its steps
            more = play(task.env, evaluation.agent, episodes=task.evaluation_episodes).returns
            mean, episodes = float(more.mean()), len(more)
        row["last_return"] = round(mean, 4)
        row["best_return"] = max(row["best_return"] or -1e9, round(mean, 4))
        row["evaluation_episodes"] = episodes
        reached = task.target is not None and mean >= task.target
        if reached and row["target_step"] is None:
            row.update(target_step=evaluation.steps, target_episode=evaluation.episode)
        in_a_row = in_a_row + 1 if reached else 0
        return in_a_row < IN_A_ROW

    finished = tdu.train(
        task.env, "r2d2" if agent == "control" else agent, seed=seed, steps=task.steps, episodes=task.episodes,
        evaluation_episodes=task.evaluation_episodes if task.every else 0, evaluate_every=task.every or None,
        callbacks=[tdu.Callback(on_evaluation=on_evaluation)] if task.every else (), progress=None, say=lambda words: None,
        until="solved", **OPTIONS.get(agent, {}),
    )  # fmt: skip
    result = finished.result
    row |= {key: result[key] for key in ("episodes", "steps", "steps_per_second")}
    return row | {"solved_episode": result.get("solved_episode"), "training_return": round(result["mean_return"], 4)}


def worker(name: str, agent: str, seed: int) -> None:
    started = time.perf_counter()
    row = run(name, agent, seed)
    row |= {"task": name, "agent": agent, "seed": seed, "seconds": round(time.perf_counter() - started, 1)}
    print(json.dumps(row))


def markdown(rows: list[dict[str, str]]) -> str:
    """A line per task and agent, with every seed."""
    columns = (
        "task | agent | seeds | target at step, or solved at episode | reached | best return | last return | seconds"
    )
    lines = [f"| {columns} |"]
    lines.append("|---" * 8 + "|")
    for name, task in TASKS.items():
        column = "solved_episode" if task.target is None else "target_step"
        for agent in task.agents:
            matching = sorted(
                (r for r in rows if (r["task"], r["agent"]) == (name, agent)), key=lambda r: int(r["seed"])
            )
            if not matching:
                continue
            cells = [
                name,
                agent,
                ", ".join(r["seed"] for r in matching),
                ", ".join(r[column] or "never" for r in matching),
                f"{sum(bool(r[column]) for r in matching)} of {len(matching)}",
                ", ".join(r["best_return"] or "–" for r in matching),
                ", ".join(r["last_return"] or r["training_return"] for r in matching),
                f"{statistics.median(timed):.0f}"
                if (timed := [float(r["seconds"]) for r in matching if r["seconds"]])
                else "–",
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "recurrent.csv")
    parser.add_argument("--only", nargs="+", choices=TASKS, default=list(TASKS), metavar="TASK")
    parser.add_argument("--agents", nargs="+", choices=(*ALL, "control"), metavar="AGENT")
    parser.add_argument("--seeds", type=int, help="seeds 0 … SEEDS-1 (default: the task's)")
    parser.add_argument("--first-seed", type=int, default=0, help="from 100 on for tuning")
    parser.add_argument("--markdown", action="store_true", help="print the table and run nothing")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    if parsed.worker:
        name, agent, seed = parsed.worker
        worker(name, agent, int(seed))
        return 0
    if parsed.markdown:
        print(markdown(rows.read(parsed.out)))
        return 0
    done = {(r["task"], r["agent"], r["seed"]) for r in rows.read(parsed.out)}
    plan = [
        (name, agent, str(parsed.first_seed + seed))
        for name in parsed.only
        for seed in range(parsed.seeds or TASKS[name].seeds)
        for agent in TASKS[name].agents
        if parsed.agents is None or agent in parsed.agents
    ]
    missing = [run for run in plan if run not in done]
    started, failed = time.monotonic(), 0
    for count, one in enumerate(missing):
        found = subprocess.run([sys.executable, __file__, "--worker", *one], capture_output=True, text=True)
        left = (time.monotonic() - started) / (count + 1) * (len(missing) - count - 1)
        if found.returncode:
            failed += 1
            print(f"{' '.join(one)} failed: {found.stderr.strip()[-500:]}", file=sys.stderr)
            continue
        row = json.loads(found.stdout.strip().splitlines()[-1])
        rows.append(parsed.out, COLUMNS, row)
        reached = row["target_step"] or row["solved_episode"] or "never"
        words = f"reached at {reached}, best {row['best_return']}, {row['seconds']:.0f} s"
        print(f"{' '.join(one)}: {words} (about {left / 60:.0f} min left)", file=sys.stderr, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
