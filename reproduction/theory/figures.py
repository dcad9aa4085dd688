"""The theory's figures, made from its tables alone."""

from typing import Any

import numpy as np

from reproduction import drawing
from reproduction.theory.agents import AGENTS, TASKS
from reproduction.theory.page import (
    TRACKS,
    TableRows,
    Tables,
    agents_of,
    correlation,
    median,
    share,
    share_outside,
    where,
)
from reproduction.theory.statements import BIAS_FAMILIES, DISTRIBUTIONS, FAMILIES, READINGS

COLOURS = ("#1f4e9c", "#d1495b", "#4d9a5f", "#e0912f", "#7a4fa3")


def figures(tables: Tables) -> dict[str, drawing.Drawing]:
    """Functions that draw lemma1, theorem1, theorem2 and agents."""
    return {
        "lemma1": lambda: _draw_lemma1(tables["lemma1"]),
        "theorem1": lambda: _draw_theorem1(tables["theorem1"]),
        "theorem2": lambda: _draw_theorem2(tables["theorem2"]),
        "agents": lambda: _draw_agents(agents_of(tables)),
    }


def _draw_lemma1(rows: TableRows) -> "drawing.Figure":
    drawn, both = drawing.figure(10, 4.2, columns=2)
    for axes, moment in zip(both, ("mean", "variance"), strict=True):
        for i, (reading, colour) in enumerate(zip(READINGS, COLOURS, strict=False)):
            by_family = [where(rows, moment=moment, reading=reading, family=family) for family in FAMILIES]
            at = np.arange(len(FAMILIES)) + (i - 1) * 0.27
            heights = [max(median(of_family, "relative_residual"), 2e-4) for of_family in by_family]
            axes.bar(at, heights, 0.25, color=colour, label=f"{reading} (0 to rounding)" if i == 2 else reading)
            if i < 2:
                errors = [median(of_family, "relative_error") for of_family in by_family]
                axes.plot(at, errors, "_", color="black", markersize=9, label="sampling error" if i else None)
        axes.set(yscale="log", ylim=(2e-4, 2), title=f"equation of the {moment}")
        axes.set_xticks(np.arange(len(FAMILIES)), [name.replace("_", " ") for name in FAMILIES])
    both[0].set_ylabel("residual of the unbiased p(θ), relative")
    return _with_legend(drawn, both[0], 4)


def _draw_theorem1(rows: TableRows) -> "drawing.Figure":
    shown = (
        "mean, Bellman", "variance, truth, symmetric", "variance, truth, covariance", "variance, truth, factorised",
        "variance, Bellman, covariance",
    )  # fmt: skip
    layers = sorted({row["n"] for row in rows})
    counts = sorted({row["pairs"] for row in rows})
    drawn, every = drawing.figure(4.2 * len(layers), 4.4, columns=len(layers), squeeze=False)
    for axes, n in zip(every.flat, layers, strict=True):
        for colour, equation in zip(COLOURS, shown, strict=True):
            medians = [median(where(rows, n=n, equation=equation, pairs=pairs), "residual") for pairs in counts]
            axes.plot(counts, np.maximum(medians, 1e-16), color=colour, marker=".", label=equation)
        for limit, words in ((n, "n"), (n * (n + 1) // 2, "n(n+1)/2"), (n * n, "n²")):
            axes.axvline(limit + 0.5, color="#999999", linewidth=0.8, linestyle="--")
            if limit <= counts[-1]:
                axes.text(limit + 0.6, 2e-16, words, rotation=90, va="bottom", color="#666666", fontsize=8)
        axes.set(yscale="log", ylim=(1e-16, 10), xlim=(0, min(counts[-1], 1.5 * n * n) + 1), title=f"n = {n}")
        axes.set_xlabel("state-action pairs N")
    every.flat[0].set_ylabel("residual of the best layer, relative")
    return _with_legend(drawn, every.flat[0], 3)


def _draw_theorem2(rows: TableRows) -> "drawing.Figure":
    drawn, (left, right) = drawing.figure(11, 4.2, columns=2)
    at = np.arange(len(DISTRIBUTIONS))
    kinds = (("inside the condition", lambda found: share(found, "inside"), -0.12), ("outside", share_outside, 0.12))
    for colour, (words, of, shift) in zip(COLOURS, kinds, strict=False):
        shares = np.array([of(where(rows, distribution=name)) for name in DISTRIBUTIONS])
        _whiskers(left, at + shift, shares, colour, words)
    names = [name.replace(", ", ",\n").replace(" with ", "\nwith ") for name in DISTRIBUTIONS]
    left.set_xticks(at, names, fontsize=8)
    left.set_ylabel("share of transitions where V[δ] is less biased")
    left.legend(frameon=False, loc="lower left", ncols=2)
    gammas = sorted({row["gamma"] for row in rows})
    cases = [(family, count) for family in BIAS_FAMILIES for count in sorted({row["transitions"] for row in rows})]
    for i, (family, count) in enumerate(cases):
        by_gamma = [where(rows, family=family, transitions=count, gamma=gamma) for gamma in gammas]
        shares = np.array([share(found, "met") if found else (np.nan,) * 3 for found in by_gamma])
        counts = len(cases) // len(BIAS_FAMILIES)
        place = np.arange(len(gammas)) + 0.09 * (i - (len(cases) - 1) / 2)
        words = f"{family.replace('_', ' ')}, {count} transitions"
        _whiskers(right, place, shares, COLOURS[i // counts], words, "os^"[i % counts % 3])
    right.set_xticks(np.arange(len(gammas)), [f"γ = {gamma:g}" for gamma in gammas])
    right.legend(frameon=False, fontsize=8, loc="lower left")
    for axes in (left, right):
        axes.axhline(0.5, color="#999999", linewidth=0.8, linestyle="--")
        axes.set_ylim(0, 1.02)
    return drawn


def _draw_agents(rows: TableRows) -> "drawing.Figure":
    drawn, grid = drawing.figure(11, 6, len(AGENTS), len(TASKS), squeeze=False)
    steps = sorted({row["steps"] for row in rows})
    at = np.arange(len(steps))
    for axes, (agent, task) in zip(grid.flat, [(a, t) for a in AGENTS for t in TASKS], strict=True):
        for i, (colour, (name, words)) in enumerate(zip(COLOURS, TRACKS, strict=False)):
            found = [correlation(where(rows, task=task, agent=agent, steps=step), f"{name}_all") for step in steps]
            axes.plot(at, [middle for middle, _, _ in found], color=colour, linewidth=1)
            _whiskers(axes, at + 0.06 * (i - 1.5), np.array(found), colour, words)
        axes.axhline(0, color="#999999", linewidth=0.8, linestyle="--")
        axes.set_ylim(-1, 1)
        axes.set_title(f"{agent}, {task.replace('_', ' ')}", fontsize=10)
        axes.set_xticks(at, [str(step) for step in steps])
    for axes in grid[-1]:
        axes.set_xlabel("environment steps")
    for axes in grid[:, 0]:
        axes.set_ylabel("rank correlation")
    return _with_legend(drawn, grid[0][0], 4)


def _whiskers(axes: Any, at: Any, found: Any, colour: str, words: str, marker: str = "o") -> None:
    around = np.abs(found[:, 1:].T - found[:, 0])
    axes.errorbar(at, found[:, 0], around, color=colour, fmt=marker, markersize=4, capsize=2, linewidth=1, label=words)


def _with_legend(drawn: Any, axes: Any, columns: int) -> Any:
    drawn.legend(*axes.get_legend_handles_labels(), frameon=False, ncols=columns, loc="outside upper center")
    return drawn
