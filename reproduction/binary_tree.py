"""Appendix C: the Binary Tree, depth × β, and the number N of explorers without priors (claim C6)."""

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from reproduction.experiment import (
    EPISODES,
    Grid,
    Measured,
    Report,
    Verdict,
    Word,
    against,
    cell,
    ended,
    every_word,
    interval_words,
    markdown,
    middle,
    p_words,
    sooner,
)
from reproduction.rows import Identity, Row, first_of_each, identity
from tdu.report import drawing, statistics
from tdu.report.statistics import Interval
from tdu.run import folder as runs
from tdu.run.sweeps import Cell

DEPTHS = tuple(range(10, 251, 10))
FEW_DEPTHS = (50, 100, 150, 200, 250)
BETAS = (0.0, 0.1, 0.5, 1.0, 2.0, 3.0)
FEW_BETAS = (0.0, 0.1, 1.0, 3.0)
EXPLORERS = (2, 5, 10, 15)
HEADS = 20


def tree(depth: int) -> str:
    """The id of a tree."""
    return f"binary_tree:depth={depth}"


def by_beta(depth: int, seed: int, *, beta: float) -> Cell:
    """With priors; without β it is BDQN."""
    return cell(tree(depth), "tdu", seed, beta=beta) if beta else cell(tree(depth), "bdqn", seed)


def by_explorers(depth: int, seed: int, *, explorers: int, beta: float) -> Cell:
    """N of the twenty value functions explore; no priors."""
    return cell(tree(depth), "tdu", seed, beta=beta, prior_scale=0.0, explorers=explorers, exploiters=HEADS - explorers)


def cells(preset: str) -> list[Cell]:
    """All of one seed before the next; shallow trees first."""
    thin = preset == "laptop"
    wanted = []
    for seed in range(3 if thin else 5):
        for depth in FEW_DEPTHS if thin else DEPTHS:
            wanted += [by_beta(depth, seed, beta=beta) for beta in (FEW_BETAS if thin else BETAS)]
        for depth in FEW_DEPTHS[:2] if thin else DEPTHS:
            wanted += [by_explorers(depth, seed, explorers=n, beta=beta) for n in EXPLORERS for beta in (0.5, 1.0)]
    return wanted


def measure(folder: Path, result: runs.RunResult) -> Measured:
    """Whether it was solved, and how many episodes reached the last leaf."""
    bad = runs.read_log(folder / "log.csv")["total_bad_episodes"]
    return Measured(score=float(result.solved_episode is not None), successes=result.episodes - round(float(bad[-1])))


def report(rows: Sequence[Row]) -> Report:
    """Episodes by depth and β, the test of each β against BDQN, and N × β without priors."""
    found = first_of_each(rows)
    betas = {beta: _by_depth(found, partial(by_beta, beta=beta)) for beta in BETAS}
    betas = {beta: by_depth for beta, by_depth in betas.items() if by_depth}
    numbers = {
        (n, beta): _by_depth(found, partial(by_explorers, explorers=n, beta=beta))
        for beta in (0.5, 1.0)
        for n in EXPLORERS
    }
    body = [
        "## Depth and β, λ = 3",
        "Solved means ten successes in a row; at most 10,000 episodes. Every run is a dot, a hollow triangle is "
        "unsolved.",
        "![Episodes to solve by depth](binary_tree.svg)",
        _beta_table(betas),
        _tests(betas),
    ]
    figures = {"binary_tree": lambda: _draw_betas(betas)}
    if any(numbers.values()):
        body += [
            "## How many of the twenty value functions explore, λ = 0",
            "![Episodes to solve by the number of explorers](explorers.svg)",
            _explorer_table(numbers),
        ]
        figures["explorers"] = lambda: _draw_explorers(numbers)
    return Report({"C6": _verdict(betas, numbers)}, "\n\n".join(body), figures)


ByDepth = dict[int, list[Row]]


def _by_depth(found: dict[Identity, Row], cell_of: Callable[[int, int], Cell]) -> ByDepth:
    by_depth = {d: [found[key] for seed in range(5) if (key := identity(cell_of(d, seed))) in found] for d in DEPTHS}
    return {depth: mine for depth, mine in by_depth.items() if mine}


def _ratio(first: ByDepth, second: ByDepth) -> Interval:
    shared = [d for d in first if d in second]
    pairs = [([e.episode for e in ended(first[d])], [e.episode for e in ended(second[d])]) for d in shared]
    return statistics.ratio_of_medians(pairs)


def _beta_table(betas: dict[float, ByDepth]) -> str:
    header = ["depth"]
    for beta in betas:
        header += [f"β = {beta:g}" + (" (BDQN)" if beta == 0 else ""), "every seed"]
    lines = []
    for depth in sorted({d for by_depth in betas.values() for d in by_depth}):
        cells = [str(depth)]
        for by_depth in betas.values():
            mine = by_depth.get(depth, [])
            cells += [
                statistics.median_words([r.solved_episode for r in mine], EPISODES) if mine else "–",
                every_word(mine),
            ]
        lines.append(cells)
    return markdown(header, lines)


def _tests(betas: dict[float, ByDepth]) -> str:
    lines = []
    for beta, by_depth in betas.items():
        if beta and any(d in betas.get(0.0, {}) for d in by_depth):
            test = against(by_depth, betas[0.0])
            ratio = interval_words(_ratio(by_depth, betas[0.0]))
            shared = {d: middle(mine) / middle(betas[0.0][d]) for d, mine in by_depth.items() if d in betas[0.0]}
            shares = ", ".join(f"{share:.2f} ({d})" for d, share in shared.items())
            lines.append([f"{beta:g}", shares, ratio, f"{test.z:+.2f}", p_words(test.p)])
    words = (
        "Each β against BDQN, depth by depth: episodes as a share of BDQN's (at every depth the ratio of medians; their "
        "geometric mean with Student's interval over depths, which is wide where the share depends on the depth) and the "
        "log-rank test stratified by depth (z above 0: solved sooner than by BDQN; z and p by permutation within depths)."
    )
    return words + "\n\n" + markdown(["β", "ratio (depth)", "mean (95 %)", "z", "p"], lines)


def _explorer_table(numbers: dict[tuple[int, float], ByDepth]) -> str:
    lines = []
    for (n, beta), by_depth in numbers.items():
        for depth, mine in by_depth.items():
            median = statistics.median_words([r.solved_episode for r in mine], EPISODES)
            lines.append([str(n), f"{beta:g}", str(depth), median, every_word(mine)])
    return markdown(["N", "β", "depth", "median", "every seed"], lines)


def _verdict(betas: dict[float, ByDepth], numbers: dict[tuple[int, float], ByDepth]) -> Verdict:
    lacking = [b for b in FEW_BETAS if any(len(betas.get(b, {}).get(d, ())) < 3 for d in FEW_DEPTHS)]
    if lacking:
        return Verdict(
            "not yet enough data",
            f"three seeds at five depths are not there for β {', '.join(f'{b:g}' for b in lacking)}",
        )
    few = {beta: {d: betas[beta][d] for d in FEW_DEPTHS} for beta in FEW_BETAS}
    beats = against(few[1.0], few[0.0])
    ratios = [_ratio(few[b], few[0.0]).estimate for b in FEW_BETAS[1:]]
    monotone = sum(later <= earlier for earlier, later in itertools.pairwise([1.0, *ratios]))
    words = (
        f"at β = 1 TDU needs {ratios[1]:.2f} of BDQN's episodes ({p_words(beats.p)}); with β = 0.1, 1, 3 the share is "
        + ", ".join(f"{r:.2f}" for r in ratios)
    )
    depths = [d for d in DEPTHS if all(len(numbers[n, 1.0].get(d, ())) >= 3 for n in EXPLORERS)]
    falls = None
    if depths:
        by_n = [math.exp(float(np.mean([math.log(middle(numbers[n, 1.0][d])) for d in depths]))) for n in EXPLORERS]
        most, least = ({d: numbers[n, 1.0][d] for d in depths} for n in (EXPLORERS[-1], EXPLORERS[0]))
        test = against(most, least)
        falls = sooner(test)
        words += (
            f"; without priors N = 2 … 15 take {', '.join(f'{x:.0f}' for x in by_n)} episodes at β = 1 "
            f"({p_words(test.p)} of N = 15 against 2)"
        )
    if sooner(beats) and monotone >= 2 and falls:
        return Verdict("reproduced", words)
    word: Word = "not reproduced" if sooner(beats) is False else "inconclusive"
    return Verdict("partly reproduced" if sooner(beats) else word, words)


def _draw_betas(betas: dict[float, ByDepth]) -> Any:
    drawn, axes = drawing.figure(7.5, 4.4)
    colours = {
        0.0: drawing.COLOURS["bdqn"],
        0.1: "#9bc4a8",
        0.5: "#74b08a",
        1.0: "#0b6e4f",
        2.0: "#7d8f1f",
        3.0: "#d08a1d",
    }
    for i, (beta, by_depth) in enumerate(betas.items()):
        shift = 2.0 * (i - (len(betas) - 1) / 2)
        name = "BDQN (β = 0)" if beta == 0 else f"TDU, β = {beta:g}"
        for depth, mine in by_depth.items():
            drawing.runs(axes, depth + shift, ended(mine), colour=colours[beta])
        medians = [middle(mine) for mine in by_depth.values()]
        axes.plot([d + shift for d in by_depth], medians, color=colours[beta], linewidth=1.5, label=name)
    axes.set(xlabel="depth", ylabel="episodes to solve", yscale="log", title="Binary Tree, λ = 3")
    if betas:
        axes.legend(frameon=False, fontsize=9)
    return drawn


def _draw_explorers(numbers: dict[tuple[int, float], ByDepth]) -> Any:
    drawn, axes = drawing.figure(7.5, 4)
    depths = sorted({depth for by_depth in numbers.values() for depth in by_depth})
    for i, (depth, beta) in enumerate((d, b) for d in depths for b in (0.5, 1.0)):
        colour = ("#9bc4a8", "#0b6e4f", "#e3bd83", "#b5651d")[i % 4]
        at = [n for n in EXPLORERS if depth in numbers[n, beta]]
        for n in at:
            drawing.runs(axes, n + 0.2 * (i - 1.5), ended(numbers[n, beta][depth]), colour=colour)
        medians = [middle(numbers[n, beta][depth]) for n in at]
        axes.plot([n + 0.2 * (i - 1.5) for n in at], medians, color=colour, label=f"depth {depth}, β = {beta:g}")
    axes.set(xlabel="explorers N of 20", ylabel="episodes to solve", yscale="log", title="Binary Tree without priors")
    axes.set_xticks(EXPLORERS)
    if any(not e.solved for by_depth in numbers.values() for mine in by_depth.values() for e in ended(mine)):
        axes.plot([], [], "^", color="0.4", markerfacecolor="none", label="not solved (× runs)")
    drawing.plain_numbers(axes)
    if depths:
        axes.legend(frameon=False, fontsize=9)
    return drawn


BINARY_TREE = Grid(
    summary="appendix C: Binary Tree, depth × β, and the number of explorers without priors",
    claims={"C6": "TDU beats BDQN, roughly monotone in β; more explorers N act like more β (without priors)."},
    rules="TDU with β = 1 solves sooner than BDQN (log-rank test, p < 0.05), a larger β mostly does not slow it down, and "
    "without priors 15 explorers solve sooner than 2.",
    cells=cells,
    left_out="20 of 25 depths, β 0.5 and 2, seeds 3 and 4, and of the runs without priors all but depths 50 and 100.",
    measure=measure,
    report=report,
)
