"""Ours: how often bsuite's rule holds on small stochastic Deep Sea before the greedy policy reaches the chest."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from reproduction import analysis, drawing, wording
from reproduction.deep_sea_runs import ENSEMBLES, deep_sea_id
from reproduction.experiment import Findings, Grid, Measured, Verdict, cell, select
from reproduction.rows import RunRow
from tdu.environments.deep_sea import solved_rule
from tdu.report.bsuite_scores import logged_from
from tdu.run import folder as run_folder
from tdu.run.runners import mastery
from tdu.run.sweeps import Cell

SIZES = tuple(range(10, 23, 2))
EPISODES = 2000
SEEDS = 3
METHODS = tuple((agent, preset) for agent in ENSEMBLES for preset in ("paper", "listing"))


def cells(preset: str) -> list[Cell]:
    """Every run; the preset `paper` has more seeds."""
    return [
        _cell(size, *method, seed)
        for seed in range(SEEDS if preset == "laptop" else 10)
        for size in SIZES
        for method in METHODS
    ]


def _cell(size: int, agent: str, preset: str, seed: int) -> Cell:
    return cell(deep_sea_id(size, stochastic=True), agent, seed, preset=preset, episodes=EPISODES, until="budget")


def measure(folder: Path, result: run_folder.RunResult) -> Measured:
    """Score 1 if bsuite's rule still holds at the next episode that bsuite logs; the first check with the full depth."""
    log = run_folder.read_log(folder / "log.csv")
    holds = np.asarray(solved_rule(stochastic=True)(log["total_bad_episodes"], log["episode"], 0))
    still = result.solved_episode is not None and bool(holds[logged_from(result.solved_episode) - 1])
    checks = log["episode"][log["greedy_depth"] == result.optimal_depth]
    first = int(checks[0]) if len(checks) else None
    return Measured(score=float(still), successes=round(float(log["denoised_return"][-1])), full_depth_episode=first)


def is_lucky(row: RunRow) -> bool:
    """Whether the rule held before the greedy policy first followed the whole optimal path."""
    first = row.full_depth_episode
    # Checks are every fifth episode: the policy may have followed the path since the check before.
    return row.solved_episode is not None and (first is None or first - mastery.PERIOD >= row.solved_episode)


def report(rows: Sequence[RunRow]) -> Findings:
    """Lucky solves by size, agent and preset."""
    seeds = sorted({row.seed for row in rows})
    runs = {
        (size, method): select(rows, [_cell(size, *method, seed) for seed in seeds])
        for size in SIZES
        for method in METHODS
    }
    every = [row for of_cell in runs.values() for row in of_cell]
    lines = [[str(size), *(_share(runs[size, method]) for method in METHODS)] for size in SIZES]
    body = [
        "![Share of lucky solves](luck.svg)",
        "Lucky solves of all solved runs. A solve is lucky if bsuite's rule held before the greedy policy of the "
        "exploiters' mean first went right on the whole diagonal.",
        wording.table(["size", *(f"{agent.upper()}, {preset}" for agent, preset in METHODS)], lines),
    ]
    return Findings({"luck": _verdict(every)}, "\n\n".join(body), {"luck": lambda: _draw(runs)}, shown=every)


def _share(runs: Sequence[RunRow]) -> str:
    return f"{sum(map(is_lucky, runs))} of {analysis.solved_count(runs)}" if runs else "–"


def _verdict(rows: Sequence[RunRow]) -> Verdict:
    wanted = SEEDS * len(SIZES) * len(METHODS)
    if len(rows) < wanted:
        return Verdict("not yet enough data", f"{len(rows)} of {wanted} runs are done")
    solved = [row for row in rows if row.solved_episode is not None]
    held = sum(row.score == 1 for row in solved)
    words = f"of {len(solved)} solved runs {sum(map(is_lucky, solved))} are lucky; at the next logged episode the rule still "
    return Verdict("answered", f"{words}held in {held} of {len(solved)}")


def _draw(runs: dict[tuple[int, tuple[str, str]], list[RunRow]]) -> "drawing.Figure":
    drawn, axes = drawing.figure(7, 3.8)
    for (agent, preset), style in zip(METHODS, ("-o", "--o", "-s", "--s"), strict=True):
        solved = {n: analysis.solved_count(runs[n, (agent, preset)]) for n in SIZES}
        shares = [(n, sum(map(is_lucky, runs[n, (agent, preset)])) / count) for n, count in solved.items() if count]
        if shares:
            label = f"{agent.upper()}, {preset}"
            axes.plot(*zip(*shares, strict=True), style, color=drawing.COLOURS[agent], label=label)
    axes.set(xlabel="size N", ylabel="share of lucky solves", ylim=(-0.03, 1.03), title="Stochastic Deep Sea")
    drawing.legend(axes)
    return drawn


LUCK = Grid(
    summary="how often bsuite's rule holds too early on stochastic Deep Sea (our own question)",
    left_out="seven of ten seeds.",
    claims={"luck": "How many runs on sizes 10 to 22 meet bsuite's rule before the greedy policy reaches the chest?"},
    rules="a solve is lucky if the rule held before the greedy policy first followed the whole diagonal.",
    cells=cells, measure=measure, report=report,
)  # fmt: skip
