"""Ours: every agent with its defaults on small tasks. Deep Sea 4 is the positive control, Deep Sea 10 needs exploration.

Catch needs no exploration. Its greedy policy is evaluated for 200 episodes after 2,000 episodes of training. Its score is the
share of balls caught, (1 + return) / 2.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from reproduction import analysis, deep_sea_runs, drawing, wording
from reproduction.experiment import Findings, Grid, Measured, Verdict, cell, select
from reproduction.rows import RunRow
from tdu.agents import AGENTS
from tdu.environments.bsuite import imported
from tdu.run import folder as run_folder
from tdu.run.stored import evaluate
from tdu.run.sweeps import Cell

EPISODES = 2000
EVALUATIONS = 200
CATCH = "catch/0"
TASKS = {"Deep Sea 4": "deep_sea:size=4", "Deep Sea 10": "deep_sea:size=10", "Catch": CATCH}
AGENTS_SHOWN: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name, entry in AGENTS.items() if not entry.is_recurrent},
    "tdu_ac, β = 0": ("tdu_ac", {"beta": 0.0}),
}


def cells(preset: str) -> list[Cell]:
    """Every agent on every task; the preset `paper` has ten seeds."""
    seeds = range(3 if preset == "laptop" else 10)
    return [one for env in TASKS.values() for name in AGENTS_SHOWN for one in _cells(env, name, seeds)]


def _cells(env: str, name: str, seeds: Sequence[int]) -> list[Cell]:
    agent, options = AGENTS_SHOWN[name]
    return [cell(env, agent, seed, episodes=EPISODES, **options) for seed in seeds]


def measure(folder: Path, result: run_folder.RunResult) -> Measured:
    """Deep Sea's score, or the share of balls that the greedy policy catches."""
    if result.env != CATCH:
        return deep_sea_runs.measure(folder, result)
    greedy = evaluate(folder, episodes=EVALUATIONS)["mean_return"]
    return Measured(score=round((1 + greedy) / 2, 5))


def report(rows: Sequence[RunRow]) -> Findings:
    """One line per agent."""
    runs = {
        (name, task): select(rows, _cells(env, name, range(10))) for name in AGENTS_SHOWN for task, env in TASKS.items()
    }
    returns = {
        name: [2 * row.score - 1 for row in runs[name, "Catch"] if row.score is not None] for name in AGENTS_SHOWN
    }
    lines = []
    for name, values in returns.items():
        solved = [wording.solve_episodes(runs[name, task]) for task in list(TASKS)[:2]]
        catch = f"{np.mean(values):.2f} ({', '.join(f'{value:.2f}' for value in values)})" if values else "–"
        lines.append([name, *solved, catch])
    body = [
        f"Runs have at most {EPISODES:,} episodes. Deep Sea: the episode at which each seed is solved by bsuite's rule. "
        f"Catch: the return of the greedy policy over {EVALUATIONS} episodes, mean and every seed; the best is 1.",
        "![Episodes to solve Deep Sea 10](battery.svg)",
        wording.table(["agent", "Deep Sea 4, solved at", "Deep Sea 10, solved at", "Catch, greedy return"], lines),
    ]
    missing = sum(len(select(rows, [one])) == 0 for one in cells("laptop"))
    if missing:
        verdict = Verdict("not yet enough data", f"{missing} of {len(cells('laptop'))} runs are missing")
    else:
        counts = [
            f"{task} by {sum(_all_solved(runs[name, task]) for name in AGENTS_SHOWN)}" for task in list(TASKS)[:2]
        ]
        caught = sum(min(values) > 0.9 for values in returns.values())
        words = (
            f"solved on every seed: {' and '.join(counts)} of {len(AGENTS_SHOWN)} agents; Catch's return is above 0.9 "
        )
        verdict = Verdict("answered", f"{words}on every seed with {caught} agents")
    return Findings({"battery": verdict}, "\n\n".join(body), {"battery": lambda: _draw(runs)})


def _all_solved(runs: Sequence[RunRow]) -> bool:
    return all(time.solved for time in analysis.solve_times(runs))


def _draw(runs: dict[tuple[str, str], list[RunRow]]) -> "drawing.Figure":
    drawn, axes = drawing.figure(9, 3.8)
    for at, name in enumerate(AGENTS_SHOWN):
        times = analysis.solve_times(runs[name, "Deep Sea 10"])
        drawing.runs(axes, at, times, colour=drawing.COLOURS.get(name, drawing.GREYS[0]))
    axes.set_xticks(range(len(AGENTS_SHOWN)), [name.replace(", ", ",\n") for name in AGENTS_SHOWN], rotation=30)
    axes.set(ylabel="episodes to solve", title="Deep Sea 10 (triangle: not solved within 2,000 episodes)")
    if any(runs.values()):
        axes.set_yscale("log")
    return drawn


BATTERY = Grid(
    summary="every agent with its defaults on Deep Sea 4, Deep Sea 10 and Catch (our own question)",
    claims={"battery": "Which agents solve small tasks with their defaults?"},
    rules="counts only, without a test.",
    left_out="seven of ten seeds.",
    cells=cells, measure=measure, report=report,
    check=imported,
)  # fmt: skip
