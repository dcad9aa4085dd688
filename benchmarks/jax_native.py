"""Agents on environments of other JAX libraries: navix's DoorKey compared with Gymnasium's, and Craftax-Classic.

    python benchmarks/jax_native.py                        # writes results/jax_native.csv and results/jax_native_speed.csv
    python benchmarks/jax_native.py --markdown

Each run and each measured speed has a row. A second start makes the missing rows and continues an interrupted run. Seconds
are processor time, because the machine may be busy. TDU and BDQN have heads on a shared network.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import rows

ROOT = Path(__file__).resolve().parent.parent
RUNS, SPEEDS = ROOT / "results" / "jax_native.csv", ROOT / "results" / "jax_native_speed.csv"
RUN_COLUMNS = (
    "env",
    "agent",
    "seed",
    "steps",
    "episodes",
    "seconds",
    "first_reward_step",
    "return_last_100",
    "greedy_return",
)
SPEED_COLUMNS = ("env", "agent", "steps_per_second")
SEED = 0
SPEED_SECONDS = 10.0
WARM_UP = 3000
AGENTS: dict[str, dict[str, Any]] = {"tdu": {"ensemble": "heads"}, "bdqn": {"ensemble": "heads"}, "dqn": {}, "rnd": {}}
NAVIX = {size: f"navix:Navix-DoorKey-{size}x{size}-v0:max_steps={10 * size * size}" for size in (5, 8)}
CRAFTAX = "craftax:Craftax-Classic-Symbolic-v1"


class Task(NamedTuple):
    env: str
    agent: str
    steps: int


TASKS = [
    *(Task(NAVIX[size], agent, 300_000) for size in NAVIX for agent in AGENTS),
    *(Task(CRAFTAX, agent, 1_000_000) for agent in ("tdu", "rnd")),
]
PAIRS = [
    (env, agent)
    for size in NAVIX
    for agent in ("tdu", "dqn")
    for env in (f"{NAVIX[size]},observation=symbolic_first_person", f"gym:MiniGrid-DoorKey-{size}x{size}-v0")
]
"""Both observe the 7×7 cells before the agent."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="TEXT", help="only environments whose id contains one of these")
    parser.add_argument("--steps", type=int, help="another number of steps, for all runs")
    parser.add_argument("--markdown", action="store_true", help="print the tables and run nothing")
    parsed = parser.parse_args()
    if parsed.markdown:
        print(markdown())
        return 0

    def wanted(env: str) -> bool:
        return parsed.only is None or any(text in env for text in parsed.only)

    measured = {(r["env"], r["agent"]) for r in rows.read(SPEEDS)}
    for env, agent in PAIRS:
        if wanted(env) and (env, agent) not in measured:
            rows.append(
                SPEEDS, SPEED_COLUMNS, {"env": env, "agent": agent, "steps_per_second": round(speed(env, agent), 1)}
            )
    for task in TASKS:
        task = task._replace(steps=parsed.steps or task.steps)
        done = {(r["env"], r["agent"], r["steps"]) for r in rows.read(RUNS)}
        if wanted(task.env) and (task.env, task.agent, str(task.steps)) not in done:
            rows.append(RUNS, RUN_COLUMNS, run(task))
    return 0


def run(task: Task) -> dict[str, Any]:
    """Trains, or continues, one run; its row."""
    import tdu

    out = ROOT / "runs" / "jax_native" / f"{task.env.replace(':', '-')}-{task.agent}-{task.steps}"
    started = time.process_time()
    trained = tdu.train(
        task.env, task.agent, seed=SEED, steps=task.steps, preset="general", out=out, resume="if_there",
        evaluation_episodes=20, **AGENTS[task.agent],
    )  # fmt: skip
    seconds = time.process_time() - started
    log = trained.log
    rewarded = np.flatnonzero(log["episode_return"] > 0)
    return {
        "env": task.env, "agent": task.agent, "seed": SEED, "steps": task.steps, "episodes": len(log["steps"]),
        "seconds": round(seconds, 1),
        "first_reward_step": int(log["steps"][rewarded[0]]) if rewarded.size else "",
        "return_last_100": round(float(np.mean(log["episode_return"][-100:])), 3),
        "greedy_return": round(trained.result["greedy_return"]["mean"], 3) if trained.result.get("greedy_return") else "",
    }  # fmt: skip


def speed(env: str, agent: str) -> float:
    """Steps per second of processor time, acting and learning, without compilation."""
    from tdu.run.plan import make_runner, plan

    planned = plan(env, agent, steps=10**9, until="budget", preset="general", **AGENTS[agent])
    runner, _ = make_runner(planned.config, planned.env)
    while runner.clock.steps < WARM_UP:
        runner.advance()
    started, steps = time.process_time(), runner.clock.steps
    while time.process_time() - started < SPEED_SECONDS:
        runner.advance()
    return (runner.clock.steps - steps) / (time.process_time() - started)


def markdown() -> str:
    """Both tables."""
    speeds = {(r["env"], r["agent"]): float(r["steps_per_second"]) for r in rows.read(SPEEDS)}
    lines = ["| environment | TDU, steps/s | DQN, steps/s |", "|---|---|---|"]
    for env in dict.fromkeys(env for env, _ in speeds):
        lines.append(f"| `{env}` | {' | '.join(f'{speeds[env, agent]:,.0f}' for agent in ('tdu', 'dqn'))} |")
    lines += ["", "| environment | agent | steps | first reward at step | return, last 100 episodes | greedy return |"]
    lines.append("|---|---|---|---|---|---|")
    for row in rows.read(RUNS):
        first = f"{int(row['first_reward_step']):,}" if row["first_reward_step"] else "never"
        cells = (
            f"`{row['env']}`",
            row["agent"],
            f"{int(row['steps']):,}",
            first,
            row["return_last_100"],
            row["greedy_return"],
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    from tdu.run.processes import use_one_core

    use_one_core()
    sys.exit(main())
