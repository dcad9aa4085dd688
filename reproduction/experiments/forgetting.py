"""Ours: why some of TDU's runs on stochastic Deep Sea take so long. One setting is changed at a time."""

from collections.abc import Sequence
from typing import Any

from reproduction import analysis, drawing, statistics, wording
from reproduction.deep_sea_runs import ABOUT_LUCK, ENSEMBLES, deep_sea_id, luck, measure
from reproduction.experiment import EPISODES, Findings, Grid, Verdict, cell, select
from reproduction.rows import RunRow
from reproduction.statistics import Comparison, Episodes
from tdu.run.sweeps import Cell

SIZES = (30, 40)
SEEDS = 12
CHANGED_SEEDS = 6
CHANGES: dict[str, dict[str, Any]] = {
    "replay 100,000": {"replay_capacity": 100_000},
    "λ = 5": {"prior_scale": 5.0},
    "double Q": {"bootstrap": "double"},
    "batch 128": {"batch_size": 128},
}
BOUND = 0.05 / len(CHANGES)
"""For p, with Bonferroni's correction."""
TDU, BDQN, REPLAY = "TDU, the paper's settings", "BDQN, the paper's settings", "TDU, replay 100,000"

RunGroups = dict[str, list[RunRow]]
"""Runs by setting."""


def cells(preset: str) -> list[Cell]:
    """Size 30 first: the paper's settings with many seeds, then each change."""
    thin = preset == "laptop"
    wanted = []
    for size in SIZES:
        env = deep_sea_id(size, stochastic=True)
        wanted += [cell(env, agent, seed) for seed in range(SEEDS) for agent in ENSEMBLES]
        for seed in range(CHANGED_SEEDS if thin else SEEDS):
            for changes in CHANGES.values():
                wanted += [cell(env, agent, seed, **changes) for agent in (ENSEMBLES[:1] if thin else ENSEMBLES)]
    return wanted


def report(rows: Sequence[RunRow]) -> Findings:
    """Distributions with the paper's settings, and each change against them."""
    groups = {size: _groups(rows, size) for size in SIZES}
    body = [
        "![Share of runs not yet solved](forgetting.svg)",
        "z above 0 means sooner than TDU with the paper's settings; unsolved runs are censored. *Stuck*: the share of runs "
        "that the mixture takes as never solved, and p against one Weibull law.",
        _both_sizes(groups),
        _replay_words(groups),
    ]
    details = []
    for size in SIZES:
        details += [f"### Stochastic Deep Sea {size}", _table(groups[size])]
    details += [ABOUT_LUCK, _failures(groups)]
    figures = {"forgetting": lambda: _draw(groups)}
    return Findings({"tail": _verdict(groups)}, "\n\n".join(filter(None, body)), figures, "\n\n".join(details))


def _groups(rows: Sequence[RunRow], size: int) -> RunGroups:
    """Runs of the first twelve seeds by setting; BDQN's changes only if they were run."""
    env = deep_sea_id(size, stochastic=True)

    def runs(agent: str, changes: dict[str, Any]) -> list[RunRow]:
        return select(rows, [cell(env, agent, seed, **changes) for seed in range(SEEDS)])

    groups = {TDU: runs("tdu", {}), BDQN: runs("bdqn", {})}
    groups |= {f"TDU, {name}": runs("tdu", changes) for name, changes in CHANGES.items()}
    more = {f"BDQN, {name}": runs("bdqn", changes) for name, changes in CHANGES.items()}
    return groups | {name: found for name, found in more.items() if found}


def _solved(runs: Sequence[RunRow]) -> str:
    return f"{analysis.solved_count(runs)} of {len(runs)}"


def _table(groups: RunGroups) -> str:
    lines = []
    for name, runs in groups.items():
        if not runs:
            lines.append([name, "0", "–", "–", "–", "–"])
            continue
        median = wording.interval(statistics.median_interval([row.solved_episode for row in runs]), 0)
        if not statistics.median_rank(len(runs)):
            median = median.partition(" ")[0]  # too few runs for an interval
        test = "–"
        if name != TDU and groups[TDU]:
            test = wording.z_and_p(analysis.logrank({0: runs}, {0: groups[TDU]}))
        line = [name, str(len(runs)), _solved(runs), median, test, wording.solve_episodes(runs, mark=luck)]
        lines.append(line)
    header = ["setting", "seeds", "solved", "median (95 %)", f"log-rank against TDU's (bound {BOUND:g})", "every seed"]
    return wording.table(header, lines)


def _both_sizes(groups: dict[int, RunGroups]) -> str:
    """Every setting against TDU's own, stratified by size, and its stuck runs."""
    lines = []
    for name in dict.fromkeys(name for of_size in groups.values() for name in of_size):
        runs = [groups[n].get(name, []) for n in SIZES]
        test = "–" if name == TDU or not all(runs) else wording.z_and_p(_against_tdu(groups, name))
        lines.append([name, *map(_solved, runs), test, *(_stuck_words(analysis.solve_times(rows)) for rows in runs)])
    solved, stuck = ([f"size {n}, {word}" for n in SIZES] for word in ("solved", "stuck"))
    return wording.table(["setting", *solved, "log-rank, both sizes", *stuck], lines)


def _stuck_words(times: Sequence[Episodes]) -> str:
    if sum(time.solved for time in times) < 2:
        return "–"
    found = statistics.stuck_runs(times)
    return "0" if found.p == 1 else f"{found.share:.2f}, {wording.p_value(found.p)}"


def _replay_words(groups: dict[int, RunGroups]) -> str:
    """The paired test of the only change that keeps the beginning of each seed's run."""
    replay, original = ({n: groups[n][name] for n in SIZES} for name in (REPLAY, TDU))
    test = analysis.paired(replay, original)
    if test is None:
        return ""
    return (
        "With three of the changes every seed gives another run. The larger replay is different: its run equals the original "
        f"until 10,000 steps are stored. Paired by seed, it needs {wording.interval(test.ratio)}, {wording.p_value(test.p)}, "
        f"of the original's episodes ({test.pairs} pairs)."
    )


def _against_tdu(groups: dict[int, RunGroups], name: str) -> Comparison:
    return analysis.logrank(*({n: groups[n][which] for n in SIZES if groups[n].get(name)} for which in (name, TDU)))


def _failures(groups: dict[int, RunGroups]) -> str:
    """How often the unsolved runs reached the chest."""
    lines = [
        [name, str(size), str(row.seed), "not recorded" if row.successes is None else str(row.successes)]
        for size in SIZES
        for name, runs in groups[size].items()
        for row in runs
        if row.solved_episode is None
    ]
    words = "Unsolved runs, and how often each reached the chest:\n\n"
    return words + wording.table(["setting", "size", "seed", "chests"], lines) if lines else ""


def _verdict(groups: dict[int, RunGroups]) -> Verdict:
    needed = {TDU: SEEDS, BDQN: SEEDS} | {f"TDU, {change}": CHANGED_SEEDS for change in CHANGES}
    lacking = [
        f"{name} at {size} ({len(groups[size][name])} of {seeds})"
        for size in SIZES
        for name, seeds in needed.items()
        if len(groups[size][name]) < seeds
    ]
    if lacking:
        return Verdict("not yet enough data", f"seeds are missing of {', '.join(lacking)}")
    tests = {change: _against_tdu(groups, f"TDU, {change}") for change in CHANGES}
    helps = [f"{change} ({wording.z_and_p(test)})" for change, test in tests.items() if test.p < BOUND and test.z > 0]
    tails = "; ".join(_tail_words(analysis.solve_times(groups[n][TDU]), n) for n in SIZES)
    words = f"{tails}; {' and '.join(helps) or 'none of the four changes'} solve{'s' * (len(helps) < 2)} sooner"
    return Verdict("answered", words)


def _tail_words(times: Sequence[Episodes], size: int) -> str:
    solved = [time.episode for time in times if time.solved]
    words = f"at size {size}, {len(solved)} of {len(times)} runs are solved by episode {max(solved, default=0):,}"
    if len(solved) == len(times):
        return words
    p = statistics.stuck_runs(times).p
    if p < 0.05:
        fit = f"a mixture with stuck runs fits better than one Weibull law, {wording.p_value(p)}"
        return f"{words} and {len(times) - len(solved)} are stuck ({fit})"
    return f"{words} and one Weibull law fits as well ({wording.p_value(p)})"


_COLOURS = (drawing.COLOURS["tdu"], drawing.COLOURS["bdqn"], "#d08a1d", "#7a4fa3", "#c0504d", "#4aa3b5")


def _draw(groups: dict[int, RunGroups]) -> "drawing.Figure":
    drawn, axes = drawing.figure(11, 4.2, columns=len(SIZES), sharey=True)
    for one, size in zip(axes, SIZES, strict=True):
        for colour, (name, runs) in zip(
            _COLOURS, groups[size].items(), strict=False
        ):  # BDQN's changes are in the table
            if runs:
                solved = sorted(time.episode for time in analysis.solve_times(runs) if time.solved)
                left = [1 - i / len(runs) for i in range(len(solved) + 1)]
                one.step([1, *solved, EPISODES], [1.0, *left[1:], left[-1]], where="post", color=colour,
                         label=f"{name} ({len(runs)})")  # fmt: skip
        one.set(xlabel="episode", title=f"Stochastic Deep Sea {size}", xlim=(0, EPISODES), ylim=(0, 1.02))
    axes[0].set_ylabel("share of runs not yet solved")
    drawn.legend(*axes[0].get_legend_handles_labels(), frameon=False, fontsize=8, loc="outside lower center", ncols=3)
    return drawn


FORGETTING = Grid(
    summary="why some runs on stochastic Deep Sea take so long (replay, batch, λ, double Q) (our own question)",
    claims={
        "tail": "are some of TDU's runs stuck at the paper's settings, and does a larger replay, a larger "
        "batch, λ = 5 or double Q help?"
    },
    rules="a change counts if it solves sooner on both sizes together (log-rank test, p < 0.0125 for four changes). Stuck "
    "runs: a mixture with stuck runs fits better than one Weibull law (p < 0.05).",
    left_out="six of twelve seeds of every change, and BDQN's with the same changes.",
    cells=cells, measure=measure, report=report,
)  # fmt: skip
