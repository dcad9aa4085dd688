"""Our own question: what makes the tail of TDU's runs on stochastic seas? One change at a time, distributions compared."""

from collections.abc import Sequence
from typing import Any

from tdu.experiments.deep_sea import measure
from tdu.experiments.experiment import (
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
)
from tdu.experiments.rows import Row, first_of_each, identity
from tdu.experiments.sea_scores import ENSEMBLES
from tdu.experiments.seas import ABOUT_LUCK, luck, sea
from tdu.reporting import drawing, statistics
from tdu.reporting.statistics import Episodes, Interval
from tdu.sweeps import Cell

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
    body = []
    for size in SIZES:
        body += [f"## Stochastic Deep Sea {size}", _table(groups[size])]
    body.insert(1, "![Share of runs not yet solved](forgetting.svg)")
    body += ["## Both sizes", _both_sizes(groups), ABOUT_LUCK, _failures(rows)]
    return Report({"tail": _verdict(groups)}, "\n\n".join(body), {"forgetting": lambda: _draw(groups)})


Groups = dict[str, list[Row]]
TDU, BDQN = "TDU, the paper's settings", "BDQN, the paper's settings"


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
    """Every setting against TDU's own, each size compared with itself, and the shape of its tail."""
    lines = []
    for name in dict.fromkeys(name for mine in groups.values() for name in mine):
        mine = [ended(groups[n].get(name, ())) for n in SIZES]
        solved = sum(e.solved for runs in mine for e in runs)
        test = "–" if name == TDU or not all(mine) else _test_words(_against(groups, name))
        shapes = [_shape_words(strata) for strata in (mine, *([runs] for runs in mine))]
        lines.append([name, f"{solved} of {sum(map(len, mine))}", test, *shapes])
    words = (
        "Each size compared with itself; z above 0: sooner than TDU at the paper's settings. The shape is of Weibull's law, "
        "one for both sizes and of each alone (maximum likelihood, unsolved runs censored, likelihood-ratio interval): 1 is "
        "a search without memory, below 1 the tail is heavy."
    )
    header = ["setting", "solved", f"log-rank against TDU's (bound {BOUND:g})", "shape (95 %)"]
    header += [f"size {n} alone" for n in SIZES]
    return words + "\n\n" + markdown(header, lines)


def _shape_words(strata: Sequence[Sequence[Episodes]]) -> str:
    enough = sum(e.solved for runs in strata for e in runs) > 1
    return interval_words(statistics.waiting_shape(strata)) if enough else "–"


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
    sooner, later = list[str](), list[str]()
    for name in (f"TDU, {change}" for change in CHANGES):
        test = _against(groups, name)
        if test.p < BOUND:
            (sooner if test.z > 0 else later).append(f"{name} ({_test_words(test)})")
    unsolved = {(name, n): sum(not e.solved for e in ended(groups[n][name])) for name in (TDU, BDQN) for n in SIZES}
    tails = ", ".join(f"{unsolved[TDU, n]} of {SEEDS} unsolved at size {n} (BDQN {unsolved[BDQN, n]})" for n in SIZES)
    shape = statistics.waiting_shape([ended(groups[n][TDU]) for n in SIZES])
    heavy = "heavy" if shape.high < 1 else "not heavy" if shape.low > 1 else "as that of a search without memory"
    words = f"TDU's tail is {heavy} (shape {interval_words(shape)}): it leaves {tails}, and against BDQN has "
    against_bdqn = _against(groups, BDQN)
    words += _test_words(against_bdqn._replace(z=-against_bdqn.z))
    words += f"; sooner than it solve: {', '.join(sooner) or 'none of the changes'}"
    return Verdict("answered", words + (f"; later: {', '.join(later)}" if later else ""))


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
    summary="ours: what makes the tail on stochastic seas (replay, batch, λ, double Q)",
    claims={
        "tail": "a question of ours: is the tail of TDU's runs heavy at the paper's settings, and does a larger "
        "replay, a larger batch, λ = 5 or double Q cut it?"
    },
    rules="it is answered with twelve seeds of TDU and BDQN at the paper's settings and six of each change, sizes 30 "
    f"and 40. A change counts if the log-rank test stratified by size has p < {BOUND:g} (0.05, Bonferroni's for "
    "four changes; z and p by permutation within sizes) "
    "against the paper's settings. A change re-rolls the dice of every seed, so distributions are compared and not "
    "seeds. The tail is heavy if the whole interval of the shape of Weibull's law lies below 1, and is not if it lies above "
    "(of 18 November 2026, when all runs were there; until then the unsolved runs were counted).",
    cells=cells,
    left_out="six of twelve seeds of every change, and BDQN's with the same changes.",
    measure=measure,
    report=report,
)
