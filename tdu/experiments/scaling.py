"""Our own: how the episodes that TDU and BDQN need grow with the size of the deterministic sea."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tdu.experiments.deep_sea import measure
from tdu.experiments.deep_sea_figures import published
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
from tdu.experiments.sea_scores import ENSEMBLES, SIZES, group
from tdu.experiments.seas import sea
from tdu.reporting import drawing, statistics
from tdu.reporting.statistics import Interval
from tdu.sweeps import Cell

LARGE = (60, 80, 100)
LIMIT = 30_000
"""Episodes on them: bsuite's 10,000 would cut off what is asked."""
SMALLEST = 12
"""Of the fit."""
HALFWAY = 30
"""From here on a second law is fitted."""
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
    laws = {agent: law(by_size, solved_to(by_size)) for agent, by_size in found.items()}
    lines = []
    for agent, by_size in found.items():
        upper = law(by_size, solved_to(by_size), smallest=HALFWAY)
        for fitted in dict.fromkeys((laws[agent], upper, law(by_size, max(by_size, default=0)))):
            if fitted is not None:
                ends = [e for n, mine in by_size.items() if fitted.smallest <= n <= fitted.largest for e in ended(mine)]
                unsolved = str(sum(not e.solved for e in ends))
                sizes = f"{fitted.smallest}–{fitted.largest}"
                power = interval_words(fitted.exponent)
                lines.append([agent, sizes, str(len(ends)), unsolved, f"{fitted.factor:.3f}", power])
    large = []
    for agent, by_size in found.items():
        fitted = laws[agent]
        for n, mine in by_size.items():
            if n in LARGE:
                median = statistics.median_words([r.solved_episode for r in mine], LIMIT)
                expected = "–" if fitted is None or n <= fitted.largest else f"{fitted.at(n):,.0f}"
                chests = ", ".join("–" if row.successes is None else str(row.successes) for row in mine)
                large.append([agent, str(n), median, every_word(mine), chests, expected])
    body = [
        "## Episodes = c · N^b",
        f"By maximum likelihood on logarithms, with the bootstrap interval over runs, from size {SMALLEST} on (below, "
        "bsuite's rule is met by luck). The first line of an agent is of the sizes up to which every run is solved, the "
        f"second of those from {HALFWAY} on, which tells whether one power is enough. A third has all sizes, unsolved runs "
        "as longer than they were run, where there are such: one law through a break, to be compared with the first and "
        "not to be used. DP-DQN's authors publish 5.33 · N^1.45, with optimism that knows the sea; the figure has their "
        "points.",
        markdown(["agent", "sizes", "runs", "unsolved", "c", "b (95 %)"], lines),
        "![Episodes against size](scaling.svg)",
        "## The large seas",
        "With what the law of the smaller sizes, which are all solved, expects of them."
        if large
        else "None was run yet.",
        markdown(["agent", "size", "median", "every seed", "chests of each", "expected"], large) if large else "",
    ]
    text = "\n\n".join(filter(None, body))
    return Report({"exponent": _verdict(found, laws)}, text, {"scaling": lambda: _draw(found, laws)})


class Law(NamedTuple):
    """Episodes = factor · size^exponent, of the sizes from `smallest` to `largest`."""

    smallest: int
    largest: int
    factor: float
    exponent: Interval

    def at(self, size: float) -> float:
        """What is expected."""
        return float(self.factor * size**self.exponent.estimate)


Found = Mapping[int, Sequence[Row]]
"""Runs by size."""


def solved_to(by_size: Found) -> int:
    """The largest size up to which, from `SMALLEST` on, every run is solved."""
    unsolved = [n for n, mine in by_size.items() if n >= SMALLEST and not all(e.solved for e in ended(mine))]
    return max((n for n in by_size if n < min(unsolved, default=math.inf)), default=0)


def law(by_size: Found, largest: int, smallest: int = SMALLEST) -> Law | None:
    """The law of sizes up to the largest, where there are at least three."""
    runs = [(n, e) for n, mine in by_size.items() if smallest <= n <= largest for e in ended(mine)]
    if len({n for n, _ in runs}) < 3:
        return None
    return Law(smallest, largest, *statistics.power_law([n for n, _ in runs], [e for _, e in runs]))


def _verdict(found: Mapping[str, Found], laws: Mapping[str, Law | None]) -> Verdict:
    fitted = laws["tdu"]
    counts = {n: len(found["tdu"].get(n, ())) for n in LARGE}
    if fitted is None:
        words = ""
    else:
        words = f"over sizes {SMALLEST} to {fitted.largest}, where every run is solved, TDU's exponent is "
        words += interval_words(fitted.exponent)
    if fitted is None or min(counts.values()) < 2:
        have = ", ".join(f"{count} at {n}" for n, count in counts.items())
        return Verdict(
            "not yet enough data",
            f"of two seeds at 60, 80 and 100 there are: {have}" + (f"; so far, {words}" * bool(words)),
        )
    beyond = [n for n in LARGE if n > fitted.largest]
    ends = [e for n in beyond for e in ended(found["tdu"][n])]
    if ends:
        unsolved = sum(not e.solved for e in ends)
        sizes = " and ".join(map(str, beyond))
        expected = " and ".join(f"{fitted.at(n):,.0f}" for n in beyond)
        words += f"; at sizes {sizes}, {unsolved} of {len(ends)} runs are not solved in {LIMIT:,} episodes "
        words += f"(the law expects {expected})"
        if not any(row.successes is None or row.successes for n in beyond for row in found["tdu"][n]):
            words += " and never find the chest"
    return Verdict("answered", words)


def _draw(found: Mapping[str, Found], laws: Mapping[str, Law | None]) -> Any:
    drawn, axes = drawing.figure(7, 4.8)
    for shift, agent in zip((0.985, 1.015), ENSEMBLES, strict=True):
        colour, fitted = drawing.COLOURS[agent], laws[agent]
        for n, mine in found[agent].items():
            drawing.runs(axes, n * shift, ended(mine), colour=colour)
        if fitted is not None:
            power, largest = fitted.exponent.estimate, fitted.largest
            words = f"{agent.upper()}: {fitted.factor:.2g} · N^{power:.2f} (sizes {SMALLEST} to {largest}, all solved)"
            for ends, style in (((SMALLEST, largest), "-"), ((largest, max(found[agent])), ":")):
                label = words if style == "-" else None
                axes.plot(ends, [fitted.at(n) for n in ends], style, color=colour, label=label)
    axes.plot(*zip(*published()["DP-DQN"], strict=True), "--", color="0.5", label="DP-DQN (published)")
    axes.set(xlabel="size N", ylabel="episodes to solve", xscale="log", yscale="log", title="Deterministic Deep Sea")
    axes.set_xticks(TICKS, [str(n) for n in TICKS])
    axes.set_xticks([], minor=True)
    axes.legend(frameon=False, fontsize=9)
    return drawn


SCALING = Grid(
    summary="ours: sizes 60, 80, 100, and the exponent of episodes against size",
    claims={"exponent": "with which power of the size do TDU's episodes grow?"},
    rules="it is answered with two seeds of TDU at each of 60, 80 and 100. The law uses the sizes where every run is solved.",
    cells=cells,
    left_out="three of five seeds, and BDQN on the large seas.",
    measure=measure,
    report=report,
)
