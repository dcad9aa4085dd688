"""Ours: how often bsuite's rule is met on small stochastic Deep Sea before the agent knows the way."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from reproduction.deep_sea_runs import sea
from reproduction.deep_sea_scores import ENSEMBLES
from reproduction.experiment import Grid, Measured, Report, Verdict, cell, markdown
from reproduction.rows import Row, first_of_each, identity
from tdu.environments.deep_sea import solved_rule
from tdu.report import drawing
from tdu.report.bsuite_scores import logged_from
from tdu.run import folder as runs
from tdu.run.runners import mastery
from tdu.run.sweeps import Cell

SIZES = tuple(range(10, 23, 2))
EPISODES = 2000
SEEDS = 3
PRESETS = ("paper", "listing")


def cells(preset: str) -> list[Cell]:
    """Every run; the longer preset has more seeds."""
    return [
        _cell(size, agent, its_preset, seed)
        for seed in range(SEEDS if preset == "laptop" else 10)
        for size in SIZES
        for agent in ENSEMBLES
        for its_preset in PRESETS
    ]


def _cell(size: int, agent: str, preset: str, seed: int) -> Cell:
    return cell(sea(size, stochastic=True), agent, seed, preset=preset, episodes=EPISODES, until="budget")


def measure(folder: Path, result: runs.RunResult) -> Measured:
    """Score 1 if bsuite's rule still holds at the next episode that bsuite logs, and when the policy first knew the way."""
    log = runs.read_log(folder / "log.csv")
    holds = np.asarray(solved_rule(stochastic=True)(log["total_bad_episodes"], log["episode"], 0))
    still = result.solved_episode is not None and bool(holds[logged_from(result.solved_episode) - 1])
    checks = log["episode"][log["greedy_depth"] == result.optimal_depth]
    first = int(checks[0]) if len(checks) else None
    return Measured(score=float(still), successes=round(float(log["denoised_return"][-1])), full_depth_episode=first)


def is_lucky(row: Row) -> bool:
    """Whether the rule held before the greedy policy first followed the whole optimal path."""
    known = row.full_depth_episode
    # A check is made at every fifth episode: what is known at the next check may have been known before.
    return row.solved_episode is not None and (known is None or known - mastery.PERIOD >= row.solved_episode)


def report(rows: Sequence[Row]) -> Report:
    """Lucky solves by size, agent and preset."""
    known = first_of_each(rows)
    seeds = sorted({key[4] for key in known})
    found = {
        (size, agent, preset): [
            known[key] for seed in seeds if (key := identity(_cell(size, agent, preset, seed))) in known
        ]
        for size in SIZES
        for agent in ENSEMBLES
        for preset in PRESETS
    }
    every = [row for mine in found.values() for row in mine]
    methods = [(agent, preset) for agent in ENSEMBLES for preset in PRESETS]
    lines = []
    for size in SIZES:
        words = [str(size)]
        for agent, preset in methods:
            mine = found[size, agent, preset]
            lucky, solved = sum(map(is_lucky, mine)), sum(row.solved_episode is not None for row in mine)
            words.append(f"{lucky} of {solved}" if mine else "–")
        lines.append(words)
    header = ["size", *(f"{agent.upper()}, {preset}" for agent, preset in methods)]
    body = [
        "![Share of lucky solves](luck.svg)",
        "Lucky solves of all solved runs. A run is solved by luck if bsuite's rule held before the greedy policy of the "
        "exploiters' mean first went right on the whole diagonal.",
        markdown(header, lines),
    ]
    return Report({"luck": _verdict(every)}, "\n\n".join(body), {"luck": lambda: _draw(found)}, shown=every)


def _verdict(rows: Sequence[Row]) -> Verdict:
    wanted = SEEDS * len(SIZES) * len(ENSEMBLES) * len(PRESETS)
    if len(rows) < wanted:
        return Verdict("not yet enough data", f"of {wanted} runs there are {len(rows)}")
    solved = [row for row in rows if row.solved_episode is not None]
    lucky = [row for row in solved if is_lucky(row)]
    held = sum(row.score == 1 for row in solved)
    words = f"of {len(solved)} solved runs {len(lucky)} were solved by luck; at the next logged episode the rule still held "
    return Verdict("answered", words + f"in {held} of {len(solved)}")


def _draw(found: dict[tuple[int, str, str], list[Row]]) -> Any:
    drawn, axes = drawing.figure(7, 3.8)
    for (agent, preset), style in zip(
        [(a, p) for a in ENSEMBLES for p in PRESETS], ("-o", "--o", "-s", "--s"), strict=True
    ):
        solved = {n: [row for row in found[n, agent, preset] if row.solved_episode is not None] for n in SIZES}
        shares = [(n, sum(map(is_lucky, mine)) / len(mine)) for n, mine in solved.items() if mine]
        if shares:
            axes.plot(
                *zip(*shares, strict=True), style, color=drawing.COLOURS[agent], label=f"{agent.upper()}, {preset}"
            )
    axes.set(xlabel="size N", ylabel="share of lucky solves", ylim=(-0.03, 1.03), title="Stochastic Deep Sea")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=9)
    return drawn


LUCK = Grid(
    summary="ours: how often bsuite's rule is met by luck on stochastic Deep Sea",
    claims={"luck": "How many runs on sizes 10 to 22 meet bsuite's rule before the agent knows the way?"},
    rules="a run is solved by luck if the rule held before the greedy policy first followed the whole diagonal "
    "(results/RULES.md).",
    cells=cells,
    left_out="seven of ten seeds.",
    measure=measure,
    report=report,
)
