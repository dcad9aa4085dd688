"""Our own question: why do some of TDU's runs on stochastic Deep Sea take so long? One change at a time."""

from collections.abc import Sequence
from typing import Any

from reproduction.deep_sea import measure
from reproduction.deep_sea_runs import ABOUT_LUCK, luck, sea
from reproduction.deep_sea_scores import ENSEMBLES
from reproduction.experiment import (
    EPISODES,
    Grid,
    Report,
    Verdict,
    cell,
    ended,
    every_word,
    interval_words,
    markdown,
    p_words,
    paired,
    paired_words,
)
from reproduction.rows import Row, first_of_each, identity
from tdu.report import drawing, statistics
from tdu.report.statistics import Episodes, Interval
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
"""Of p."""


def cells(preset: str) -> list[Cell]:
    """Size 30 first: the paper's settings with many seeds, then each change."""
    thin = preset == "laptop"
    wanted = []
    for size in SIZES:
        env = sea(size, stochastic=True)
        wanted += [cell(env, agent, seed) for seed in range(SEEDS) for agent in ENSEMBLES]
        for seed in range(CHANGED_SEEDS if thin else SEEDS):
            for changes in CHANGES.values():
                wanted += [cell(env, agent, seed, **changes) for agent in (ENSEMBLES[:1] if thin else ENSEMBLES)]
    return wanted


def report(rows: Sequence[Row]) -> Report:
    """Distributions at the paper's settings, and each change against them."""
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
    details += [ABOUT_LUCK, _failures(rows)]
    figures = {"forgetting": lambda: _draw(groups)}
    return Report({"tail": _verdict(groups)}, "\n\n".join(filter(None, body)), figures, "\n\n".join(details))


Groups = dict[str, list[Row]]
TDU, BDQN, REPLAY = "TDU, the paper's settings", "BDQN, the paper's settings", "TDU, replay 100,000"


def _groups(rows: Sequence[Row], size: int) -> Groups:
    """Runs by what was changed; only those of the first twelve seeds."""
    found = first_of_each(rows)
    env = sea(size, stochastic=True)
    cells = {
        TDU: [cell(env, "tdu", seed) for seed in range(SEEDS)],
        BDQN: [cell(env, "bdqn", seed) for seed in range(SEEDS)],
    }
    for name, changes in CHANGES.items():
        cells[f"TDU, {name}"] = [cell(env, "tdu", seed, **changes) for seed in range(SEEDS)]
    groups = {name: [found[key] for c in mine if (key := identity(c)) in found] for name, mine in cells.items()}
    for name, changes in CHANGES.items():  # of the longer preset alone
        more = [found[key] for seed in range(SEEDS) if (key := identity(cell(env, "bdqn", seed, **changes))) in found]
        groups |= {f"BDQN, {name}": more} if more else {}
    return groups


def _table(groups: Groups) -> str:
    lines = []
    for name, mine in groups.items():
        if not mine:
            lines.append([name, "0", "–", "–", "–", "–"])
            continue
        solved = sum(e.solved for e in ended(mine))
        middle = statistics.median_interval([row.solved_episode for row in mine])
        test = (
            "–"
            if name == TDU or not groups[TDU]
            else _test_words(statistics.stratified_logrank([(ended(mine), ended(groups[TDU]))]))
        )
        lines.append(
            [
                name,
                str(len(mine)),
                f"{solved} of {len(mine)}",
                _median_words(middle, mine),
                test,
                every_word(mine, mark=luck),
            ]
        )
    header = ["setting", "seeds", "solved", "median (95 %)", f"log-rank against TDU's (bound {BOUND:g})", "every seed"]
    return markdown(header, lines)


def _median_words(middle: Interval, mine: Sequence[Row]) -> str:
    """With its interval where there are runs enough for one."""
    return (
        interval_words(middle, 0) if statistics.median_rank(len(mine)) else interval_words(middle, 0).partition(" ")[0]
    )


def _test_words(test: statistics.Comparison) -> str:
    return f"z = {test.z:+.2f}, {p_words(test.p)}"


def _both_sizes(groups: dict[int, Groups]) -> str:
    """Every setting against TDU's own, each size compared with itself, and its stuck runs."""
    lines = []
    for name in dict.fromkeys(name for mine in groups.values() for name in mine):
        mine = [ended(groups[n].get(name, ())) for n in SIZES]
        solved = [f"{sum(e.solved for e in runs)} of {len(runs)}" for runs in mine]
        test = "–" if name == TDU or not all(mine) else _test_words(_against(groups, name))
        lines.append([name, *solved, test, *(_stuck_words(runs) for runs in mine)])
    header = [
        "setting",
        *(f"size {n}, solved" for n in SIZES),
        "log-rank, both sizes",
        *(f"size {n}, stuck" for n in SIZES),
    ]
    return markdown(header, lines)


def _stuck_words(runs: Sequence[Episodes]) -> str:
    if sum(e.solved for e in runs) < 2:
        return "–"
    found = statistics.stuck_runs(runs)
    return "0" if found.p == 1 else f"{found.share:.2f}, {p_words(found.p)}"


def _replay_words(groups: dict[int, Groups]) -> str:
    """The one change that leaves seeds as they are: its pairs."""
    test = paired(*({n: groups[n][name] for n in SIZES} for name in (REPLAY, TDU)))
    if test is None:
        return ""
    return (
        "Three of the changes re-roll every seed. The larger replay does not: its run equals the original until 10,000 steps "
        f"are stored. Paired by seed, it needs {paired_words(test)}, of the original's episodes ({test.pairs} pairs)."
    )


def _against(groups: dict[int, Groups], name: str) -> statistics.Comparison:
    return statistics.stratified_logrank([(ended(groups[n].get(name, ())), ended(groups[n][TDU])) for n in SIZES])


def _failures(rows: Sequence[Row]) -> str:
    """How often the unsolved runs saw the chest."""
    lines = []
    for size in SIZES:
        for name, mine in _groups(rows, size).items():
            for row in mine:
                if row.solved_episode is None:
                    chests = "not written down" if row.successes is None else str(row.successes)
                    lines.append([name, str(size), str(row.seed), chests])
    if not lines:
        return ""
    return "Unsolved runs, and how often each reached the chest:\n\n" + markdown(
        ["setting", "size", "seed", "chests"], lines
    )


def _verdict(groups: dict[int, Groups]) -> Verdict:
    counts = {size: {name: len(mine) for name, mine in groups[size].items()} for size in SIZES}
    lacking = [
        f"{name} at {size} ({counts[size][name]} of {needed})"
        for size in SIZES
        for name in (TDU, BDQN, *(f"TDU, {change}" for change in CHANGES))
        if counts[size][name] < (needed := SEEDS if name in (TDU, BDQN) else CHANGED_SEEDS)
    ]
    if lacking:
        return Verdict("not yet enough data", f"seeds are missing of {', '.join(lacking)}")
    changed = {change: _against(groups, f"TDU, {change}") for change in CHANGES}
    sooner = [f"{change} ({_test_words(test)})" for change, test in changed.items() if test.p < BOUND and test.z > 0]
    tails = "; ".join(_tail_words(ended(groups[n][TDU]), n) for n in SIZES)
    words = f"{tails}; {' and '.join(sooner) or 'none of the four changes'} solve{'s' * (len(sooner) < 2)} sooner"
    return Verdict("answered", words)


def _tail_words(runs: Sequence[Episodes], size: int) -> str:
    solved = [e.episode for e in runs if e.solved]
    found = statistics.stuck_runs(runs)
    words = f"at size {size}, {len(solved)} of {len(runs)} runs are solved by episode {max(solved, default=0):,}"
    if len(solved) == len(runs):
        return words
    if found.p < 0.05:
        return f"{words} and {len(runs) - len(solved)} are stuck (a body plus stuck runs beats one law, {p_words(found.p)})"
    return f"{words} and one law is enough ({p_words(found.p)})"


def _draw(groups: dict[int, Groups]) -> Any:
    drawn, axes = drawing.figure(11, 4.2, columns=len(SIZES), sharey=True)
    colours = (drawing.COLOURS["tdu"], drawing.COLOURS["bdqn"], "#d08a1d", "#7a4fa3", "#c0504d", "#4aa3b5")
    for one, size in zip(axes, SIZES, strict=True):
        for colour, (name, mine) in zip(colours, groups[size].items(), strict=False):  # BDQN's changes are in the table
            if mine:
                solved = sorted(e.episode for e in ended(mine) if e.solved)
                left = [1 - i / len(mine) for i in range(len(solved) + 1)]
                one.step([1, *solved, EPISODES], [1.0, *left[1:], left[-1]], where="post", color=colour,
                         label=f"{name} ({len(mine)})")  # fmt: skip
        one.set(xlabel="episode", title=f"Stochastic Deep Sea {size}", xlim=(0, EPISODES), ylim=(0, 1.02))
    axes[0].set_ylabel("share of runs not yet solved")
    drawn.legend(*axes[0].get_legend_handles_labels(), frameon=False, fontsize=8, loc="outside lower center", ncols=3)
    return drawn


FORGETTING = Grid(
    summary="ours: why some runs on stochastic Deep Sea take so long (replay, batch, λ, double Q)",
    claims={
        "tail": "are some of TDU's runs stuck at the paper's settings, and does a larger replay, a larger "
        "batch, λ = 5 or double Q help?"
    },
    rules="a change counts if it solves sooner on both sizes together (log-rank test, p < 0.0125 for four changes). Stuck "
    "runs: a body plus stuck runs beats one Weibull law (p < 0.05).",
    cells=cells,
    left_out="six of twelve seeds of every change, and BDQN's with the same changes.",
    measure=measure,
    report=report,
)
