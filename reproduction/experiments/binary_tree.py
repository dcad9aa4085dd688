"""Appendix C: the Binary Tree, depth × β, and the number N of explorers without priors (claim C6)."""

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from reproduction import analysis, drawing, statistics, wording
from reproduction.experiment import Findings, Grid, Measured, Verdict, Word, cell, select
from reproduction.rows import RunRow
from reproduction.statistics import Interval
from tdu.run import folder as run_folder
from tdu.run.sweeps import Cell

DEPTHS = tuple(range(10, 251, 10))
FEW_DEPTHS = (50, 100, 150, 200, 250)
BETAS = (0.0, 0.1, 0.5, 1.0, 2.0, 3.0)
FEW_BETAS = (0.0, 0.1, 1.0, 3.0)
EXPLORERS = (2, 5, 10, 15)
EXPLORER_BETAS = (0.5, 1.0)
HEADS = 20

ByDepth = dict[int, list[RunRow]]


def tree(depth: int) -> str:
    """The id of an environment."""
    return f"binary_tree:depth={depth}"


def by_beta(depth: int, seed: int, *, beta: float) -> Cell:
    """A run with priors; at β = 0 it is BDQN."""
    return cell(tree(depth), "tdu", seed, beta=beta) if beta else cell(tree(depth), "bdqn", seed)


def by_explorers(depth: int, seed: int, *, explorers: int, beta: float) -> Cell:
    """A run without priors; N of the twenty value functions explore."""
    return cell(tree(depth), "tdu", seed, beta=beta, prior_scale=0.0, explorers=explorers, exploiters=HEADS - explorers)


def cells(preset: str) -> list[Cell]:
    """All of one seed before the next; shallow trees first."""
    thin = preset == "laptop"
    wanted = []
    for seed in range(3 if thin else 5):
        for depth in FEW_DEPTHS if thin else DEPTHS:
            wanted += [by_beta(depth, seed, beta=beta) for beta in (FEW_BETAS if thin else BETAS)]
        for depth in FEW_DEPTHS[:2] if thin else DEPTHS:
            wanted += [by_explorers(depth, seed, explorers=n, beta=beta) for n in EXPLORERS for beta in EXPLORER_BETAS]
    return wanted


def measure(folder: Path, result: run_folder.RunResult) -> Measured:
    """Whether the run was solved, and how many episodes reached the last leaf."""
    bad = run_folder.read_log(folder / "log.csv")["total_bad_episodes"]
    return Measured(score=float(result.solved_episode is not None), successes=result.episodes - round(float(bad[-1])))


def report(rows: Sequence[RunRow]) -> Findings:
    """Episodes by depth and β, the test of each β against BDQN, and N × β without priors."""
    betas = {beta: _by_depth(rows, partial(by_beta, beta=beta)) for beta in BETAS}
    betas = {beta: by_depth for beta, by_depth in betas.items() if by_depth}
    explorers = {
        (n, beta): _by_depth(rows, partial(by_explorers, explorers=n, beta=beta))
        for beta in EXPLORER_BETAS
        for n in EXPLORERS
    }
    body = [
        "## Depth and β, λ = 3",
        "Solved means ten successes in a row, within at most 10,000 episodes. A dot is a run. A hollow triangle is an "
        "unsolved run.",
        "![Episodes to solve by depth](binary_tree.svg)",
        _beta_table(betas),
        _tests(betas),
    ]
    figures = {"binary_tree": lambda: _draw_betas(betas)}
    if any(explorers.values()):
        body += [
            "## How many of the twenty value functions explore, λ = 0",
            "![Episodes to solve by the number of explorers](explorers.svg)",
            _explorer_table(explorers),
        ]
        figures["explorers"] = lambda: _draw_explorers(explorers)
    return Findings({"C6": _verdict(betas, explorers)}, "\n\n".join(body), figures)


def _by_depth(rows: Sequence[RunRow], cell_of: Callable[[int, int], Cell]) -> ByDepth:
    by_depth = {depth: select(rows, [cell_of(depth, seed) for seed in range(5)]) for depth in DEPTHS}
    return {depth: runs for depth, runs in by_depth.items() if runs}


def _ratio(first: ByDepth, second: ByDepth) -> Interval:
    def episodes(runs: Sequence[RunRow]) -> list[int]:
        return [time.episode for time in analysis.solve_times(runs)]

    return statistics.ratio_of_medians([(episodes(first[d]), episodes(second[d])) for d in first if d in second])


def _beta_table(betas: dict[float, ByDepth]) -> str:
    header = ["depth"]
    for beta in betas:
        header += [f"β = {beta:g}" + (" (BDQN)" if beta == 0 else ""), "every seed"]
    lines = []
    for depth in sorted({d for by_depth in betas.values() for d in by_depth}):
        line = [str(depth)]
        for by_depth in betas.values():
            runs = by_depth.get(depth, [])
            line += [wording.median(runs), wording.solve_episodes(runs)]
        lines.append(line)
    return wording.table(header, lines)


def _tests(betas: dict[float, ByDepth]) -> str:
    lines = []
    bdqn = betas.get(0.0, {})
    for beta, by_depth in betas.items():
        shared = [depth for depth in by_depth if depth in bdqn]
        if beta and shared:
            test = analysis.logrank(by_depth, bdqn)
            ratios = [f"{analysis.middle(by_depth[d]) / analysis.middle(bdqn[d]):.2f} ({d})" for d in shared]
            mean = wording.interval(_ratio(by_depth, bdqn))
            lines.append([f"{beta:g}", ", ".join(ratios), mean, f"{test.z:+.2f}", wording.p_value(test.p)])
    words = (
        "Each β against BDQN. The ratio is TDU's median episodes over BDQN's at each depth. The mean is their geometric mean "
        "with Student's interval over depths; it is wide if the ratio depends on the depth. z and p are of the log-rank test "
        "stratified by depth, by permutation within depths; z above 0 means sooner than BDQN."
    )
    return words + "\n\n" + wording.table(["β", "ratio (depth)", "mean (95 %)", "z", "p"], lines)


def _explorer_table(explorers: dict[tuple[int, float], ByDepth]) -> str:
    lines = [
        [str(n), f"{beta:g}", str(depth), wording.median(runs), wording.solve_episodes(runs)]
        for (n, beta), by_depth in explorers.items()
        for depth, runs in by_depth.items()
    ]
    return wording.table(["N", "β", "depth", "median", "every seed"], lines)


def _verdict(betas: dict[float, ByDepth], explorers: dict[tuple[int, float], ByDepth]) -> Verdict:
    lacking = [f"{b:g}" for b in FEW_BETAS if any(len(betas.get(b, {}).get(d, ())) < 3 for d in FEW_DEPTHS)]
    if lacking:
        return Verdict("not yet enough data", f"β {', '.join(lacking)} lack three seeds at five depths")
    few = {beta: {d: betas[beta][d] for d in FEW_DEPTHS} for beta in FEW_BETAS}
    test = analysis.logrank(few[1.0], few[0.0])
    beats = analysis.sooner(test)
    ratios = [_ratio(few[b], few[0.0]).estimate for b in FEW_BETAS[1:]]
    monotone = sum(later <= earlier for earlier, later in itertools.pairwise([1.0, *ratios]))
    words = (
        f"at β = 1 TDU needs {ratios[1]:.2f} of BDQN's episodes ({wording.p_value(test.p)}); with β = 0.1, 1, 3 the ratio is "
        + ", ".join(f"{r:.2f}" for r in ratios)
    )
    depths = [d for d in DEPTHS if all(len(explorers[n, 1.0].get(d, ())) >= 3 for n in EXPLORERS)]
    falls = None
    if depths:
        by_n = [{d: explorers[n, 1.0][d] for d in depths} for n in EXPLORERS]
        means = [math.exp(float(np.mean([math.log(analysis.middle(runs)) for runs in of_n.values()]))) for of_n in by_n]
        most = analysis.logrank(by_n[-1], by_n[0])
        falls = analysis.sooner(most)
        words += (
            f"; without priors N = 2 … 15 take {', '.join(f'{x:.0f}' for x in means)} episodes at β = 1 "
            f"(N = 15 against 2: {wording.p_value(most.p)})"
        )
    if beats and monotone >= 2 and falls:
        return Verdict("reproduced", words)
    word: Word = "not reproduced" if beats is False else "inconclusive"
    return Verdict("partly reproduced" if beats else word, words)


_COLOURS = {
    0.0: drawing.COLOURS["bdqn"],
    0.1: "#9bc4a8",
    0.5: "#74b08a",
    1.0: "#0b6e4f",
    2.0: "#7d8f1f",
    3.0: "#d08a1d",
}


def _draw_betas(betas: dict[float, ByDepth]) -> "drawing.Figure":
    drawn, axes = drawing.figure(7.5, 4.4)
    for i, (beta, by_depth) in enumerate(betas.items()):
        shift = 2.0 * (i - (len(betas) - 1) / 2)
        name = "BDQN (β = 0)" if beta == 0 else f"TDU, β = {beta:g}"
        for depth, runs in by_depth.items():
            drawing.runs(axes, depth + shift, analysis.solve_times(runs), colour=_COLOURS[beta])
        medians = [analysis.middle(runs) for runs in by_depth.values()]
        axes.plot([d + shift for d in by_depth], medians, color=_COLOURS[beta], linewidth=1.5, label=name)
    axes.set(xlabel="depth", ylabel="episodes to solve", yscale="log", title="Binary Tree, λ = 3")
    drawing.legend(axes)
    return drawn


def _draw_explorers(explorers: dict[tuple[int, float], ByDepth]) -> "drawing.Figure":
    drawn, axes = drawing.figure(7.5, 4)
    depths = sorted({depth for by_depth in explorers.values() for depth in by_depth})
    for i, (depth, beta) in enumerate((d, b) for d in depths for b in EXPLORER_BETAS):
        colour = ("#9bc4a8", "#0b6e4f", "#e3bd83", "#b5651d")[i % 4]
        places = {n + 0.2 * (i - 1.5): explorers[n, beta][depth] for n in EXPLORERS if depth in explorers[n, beta]}
        for place, runs in places.items():
            drawing.runs(axes, place, analysis.solve_times(runs), colour=colour)
        medians = [analysis.middle(runs) for runs in places.values()]
        axes.plot(list(places), medians, color=colour, label=f"depth {depth}, β = {beta:g}")
    axes.set(xlabel="explorers N of 20", ylabel="episodes to solve", yscale="log", title="Binary Tree without priors")
    axes.set_xticks(EXPLORERS)
    every = [row for by_depth in explorers.values() for runs in by_depth.values() for row in runs]
    if analysis.solved_count(every) < len(every):
        axes.plot([], [], "^", color="0.4", markerfacecolor="none", label="not solved (× runs)")
    drawing.plain_numbers(axes)
    drawing.legend(axes)
    return drawn


BINARY_TREE = Grid(
    summary="appendix C: Binary Tree, depth × β, and the number of explorers without priors",
    claims={"C6": "TDU beats BDQN, roughly monotone in β; more explorers N act like more β (without priors)."},
    rules="TDU with β = 1 solves sooner than BDQN (log-rank test, p < 0.05), a larger β mostly does not slow it down, and "
    "without priors 15 explorers solve sooner than 2.",
    left_out="20 of 25 depths, β 0.5 and 2, seeds 3 and 4, and of the runs without priors all but depths 50 and 100.",
    cells=cells, measure=measure, report=report,
)  # fmt: skip
