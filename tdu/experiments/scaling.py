"""Our own: how the episodes that TDU and BDQN need grow with the size of the deterministic sea."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tdu.experiments.deep_sea import ENSEMBLES, SIZES, group, measure, sea
from tdu.experiments.experiment import (
    Grid,
    Report,
    Verdict,
    cell,
    ended,
    every_word,
    interval_words,
    markdown,
)
from tdu.experiments.rows import Row
from tdu.reporting import drawing, statistics
from tdu.reporting.statistics import Interval
from tdu.sweeps import Cell

LARGE = (60, 80, 100)
LIMIT = 30_000
"""Episodes on them: bsuite's 10,000 would cut off what is asked."""
SMALLEST = 12
"""Of the fit."""
TICKS = (10, 20, 30, 40, 60, 80, 100)


def cells(preset: str) -> list[Cell]:
    """The large seas, and those of the other experiments that the exponent is fitted to."""
    thin = preset == "laptop"
    wanted = []
    for seed in range(2 if thin else 5):
        wanted += [cell(sea(n, stochastic=False), agent, seed) for n in SIZES for agent in ENSEMBLES]
        wanted += [
            cell(sea(n, stochastic=False), agent, seed, episodes=LIMIT)
            for n in LARGE
            for agent in (ENSEMBLES[:1] if thin else ENSEMBLES)
        ]
    return wanted


def report(rows: Sequence[Row]) -> Report:
    """Episodes against size on logarithmic axes, with the fitted exponents."""
    found = {
        agent: group(rows, agent, stochastic=False) | group(rows, agent, stochastic=False, sizes=LARGE, limit=LIMIT)
        for agent in ENSEMBLES
    }
    fits = {agent: fit(by_size) for agent, by_size in found.items()}
    lines = []
    for agent, fitted in fits.items():
        if fitted is not None:
            by_size = {n: mine for n, mine in found[agent].items() if n >= SMALLEST}
            unsolved = sum(not e.solved for mine in by_size.values() for e in ended(mine))
            sizes = f"{min(by_size)}–{max(by_size)}"
            count = str(sum(map(len, by_size.values())))
            lines.append([agent, sizes, count, str(unsolved), f"{fitted[0]:.3f}", interval_words(fitted[1])])
    large = [
        [agent, str(n), statistics.median_words([r.solved_episode for r in mine], LIMIT), every_word(mine)]
        for agent, by_size in found.items()
        for n, mine in by_size.items()
        if n in LARGE
    ]
    body = [
        "## Episodes = c · N^b",
        f"Least squares on logarithms over all runs from size {SMALLEST} on (below, bsuite's rule is met by luck), "
        "with the bootstrap interval over runs. Unsolved runs enter at their last episode, which makes b too small. "
        "DP-DQN, published: 5.33 · N^1.45, with optimism that knows the sea.",
        markdown(["agent", "sizes", "runs", "unsolved", "c", "b (95 %)"], lines),
        "![Episodes against size](scaling.svg)",
        "## The large seas",
        markdown(["agent", "size", "median", "every seed"], large) if large else "None was run yet.",
    ]
    return Report({"exponent": _verdict(found, fits)}, "\n\n".join(body), {"scaling": lambda: _draw(found, fits)})


Fit = tuple[float, Interval]


def fit(by_size: Mapping[int, Sequence[Row]]) -> Fit | None:
    """c and b, where there are at least three sizes."""
    runs = [(n, e.episode) for n, mine in by_size.items() if n >= SMALLEST for e in ended(mine)]
    if len({n for n, _ in runs}) < 3:
        return None
    return statistics.power_law([n for n, _ in runs], [episode for _, episode in runs])


def _verdict(found: Mapping[str, Mapping[int, Sequence[Row]]], fits: Mapping[str, Fit | None]) -> Verdict:
    fitted = fits["tdu"]
    counts = {n: len(found["tdu"].get(n, ())) for n in LARGE}
    words = "" if fitted is None else f"TDU's exponent is {interval_words(fitted[1])}"
    if fitted is None or min(counts.values()) < 2:
        have = ", ".join(f"{count} at {n}" for n, count in counts.items())
        return Verdict(
            "not yet enough data",
            f"of two seeds at 60, 80 and 100 there are: {have}" + (f"; so far {words}" * bool(words)),
        )
    mine = [(n, e) for n, rows in found["tdu"].items() if n >= SMALLEST for e in ended(rows)]
    unsolved = sum(not e.solved for _, e in mine)
    return Verdict(
        "answered", f"{words} over sizes {SMALLEST} to {max(LARGE)}; {unsolved} of {len(mine)} runs were not solved"
    )


def _draw(found: Mapping[str, Mapping[int, Sequence[Row]]], fits: Mapping[str, Fit | None]) -> Any:
    drawn, axes = drawing.figure(7, 4.8)
    for shift, agent in zip((0.985, 1.015), ENSEMBLES, strict=True):
        colour, fitted = drawing.COLOURS[agent], fits[agent]
        for n, mine in found[agent].items():
            drawing.runs(axes, n * shift, ended(mine), colour=colour)
        if fitted is not None:
            largest = max(found[agent])
            words = f"{agent.upper()}: {fitted[0]:.2g} · N^{fitted[1].estimate:.2f} (sizes {SMALLEST} to {largest})"
            for ends, style in (((SMALLEST, largest), "-"), ((largest, max(LARGE)), ":")):
                at = np.array(ends, float)
                label = words if style == "-" else None
                axes.plot(at, fitted[0] * at ** fitted[1].estimate, style, color=colour, label=label)
    at = np.array([SMALLEST, 50])
    axes.plot(at, 5.33 * at**1.45, "--", color="0.5", label="DP-DQN, published: 5.33 · N^1.45")
    axes.set(xlabel="size N", ylabel="episodes to solve", xscale="log", yscale="log", title="Deterministic Deep Sea")
    axes.set_xticks(TICKS, [str(n) for n in TICKS])
    axes.set_xticks([], minor=True)
    axes.legend(frameon=False, fontsize=9)
    return drawn


SCALING = Grid(
    summary="ours: sizes 60, 80, 100, and the exponent of episodes against size",
    claims={"exponent": "a question of ours: with which power of the size do TDU's episodes grow?"},
    rules="it is answered with two seeds of TDU at each of 60, 80 and 100.",
    cells=cells,
    left_out="nothing published; the longer preset has five seeds, and BDQN on the large seas.",
    measure=measure,
    report=report,
)
