"""Figure 2: β against λ on stochastic Deep Sea, and σ over values in place of TD errors (claims C4 and C5)."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from reproduction.deep_sea import measure
from reproduction.deep_sea_runs import ABOUT_LUCK, luck, luck_words, sea
from reproduction.deep_sea_scores import SIZES
from reproduction.experiment import (
    EPISODES,
    Grid,
    Report,
    Verdict,
    against,
    cell,
    ended,
    every_word,
    faster,
    interval_words,
    judged,
    markdown,
    p_words,
    paired,
    sooner,
)
from reproduction.rows import Identity, Row, first_of_each, identity
from tdu.agents.grids import BETAS
from tdu.report import drawing, statistics
from tdu.report.statistics import Interval
from tdu.run.sweeps import Cell

FEW_SIZES = (20, 30, 40)
FEW_BETAS = (0.0, 0.1, 1.0, 3.0)
PRIORS = (0.0, 1.0, 3.0)
SEEDS = (0, 1)
PAIRED_SEEDS = range(12)
OVER_VALUES = {"QU": "qu", "Q+UCB": "q_ucb"}
"""Agents whose σ is over values."""


def ensemble(env: str, seed: int, *, beta: float, prior: float) -> Cell:
    """TDU with that β and λ; without β it is BDQN."""
    if beta == 0:
        return cell(env, "bdqn", seed, prior_scale=prior)
    return cell(env, "tdu", seed, beta=beta, prior_scale=prior)


def cells(preset: str) -> list[Cell]:
    """What the verdicts rest on first, small seas before large ones; λ = 1, on which none does, last."""
    thin = preset == "laptop"
    wanted = []
    between = []
    for seed in SEEDS:
        for size in FEW_SIZES if thin else SIZES:
            for env in [sea(size, stochastic=True)] + ([] if thin else [sea(size, stochastic=False)]):
                for beta in FEW_BETAS if thin else BETAS:
                    none, some, full = (ensemble(env, seed, beta=beta, prior=prior) for prior in PRIORS)
                    wanted += [none, full]
                    between.append(some)
                for beta in (1.0,) if thin else BETAS[1:]:
                    wanted += [cell(env, agent, seed, beta=beta) for agent in OVER_VALUES.values()]
    return wanted + paired_cells() + between


def paired_cells() -> list[Cell]:
    """What C5 pairs by size and seed: TDU with QU and with Q+UCB."""
    return [
        cell(sea(size, stochastic=True), agent, seed)
        for seed in PAIRED_SEEDS
        for size in FEW_SIZES
        for agent in (*OVER_VALUES.values(), "tdu")
    ]


class Setting(NamedTuple):
    """One cell of figure 2: what it is called and its runs by size."""

    name: str
    by_size: dict[int, list[Row]]

    @property
    def rows(self) -> list[Row]:
        """All of its runs."""
        return [row for rows in self.by_size.values() for row in rows]

    @property
    def solved(self) -> Interval:
        """Share of its runs that were solved."""
        return statistics.share(sum(e.solved for e in ended(self.rows)), len(self.rows))

    def on(self, sizes: Sequence[int]) -> "Setting":
        """The same with some of its sizes alone."""
        return Setting(self.name, {n: self.by_size[n] for n in sizes if n in self.by_size})


def report(rows: Sequence[Row]) -> Report:
    """Share solved and medians for β × λ and for QU and Q+UCB."""
    grid, others = _settings(rows)
    settings, sizes = _shown(rows, stochastic=True)
    body = [
        "![β against λ](deep_sea_grid.svg)",
        "## σ over values against TDU",
        "Runs on sizes 20, 30 and 40 with the same size and seed form a pair. The ratio is TDU's episodes over the other's. "
        "Seeds 0 and 1 were run before the rule; seeds 2 to 11 are also judged alone. The last columns use every run, paired "
        "or not; z above 0 means that TDU is sooner. They are not part of the rule.",
        _paired_table(rows),
    ]
    details = [
        f"Stochastic Deep Sea {', '.join(map(str, sizes))}, seeds 0 and 1. {ABOUT_LUCK}",
        _table(settings, sizes),
        "### Lucky solves",
        luck_words([row for s in settings for row in s.rows], rows, _verdicts),
    ]
    deterministic, sizes = _shown(rows, stochastic=False)
    if sizes:  # of the longer preset alone
        details += [f"Deterministic Deep Sea {', '.join(map(str, sizes))}", _table(deterministic, sizes)]
    figures = {"deep_sea_grid": lambda: _draw(grid, others)}
    shown = [row for setting in _paired(rows).values() for row in setting.rows]
    return Report(_verdicts(rows), "\n\n".join(body), figures, "\n\n".join(details), shown)


def _paired_table(rows: Sequence[Row]) -> str:
    lines = []
    for words, seeds in (("0–11", PAIRED_SEEDS), ("0, 1", PAIRED_SEEDS[:2]), ("2–11", PAIRED_SEEDS[2:])):
        tdu, *others = _paired(rows, seeds).values()
        for other in others:
            test = paired(tdu.by_size, other.by_size)
            if test:
                counts = [str(test.pairs), f"{test.first_faster}, {test.second_faster}"]
                unpaired = against(tdu.by_size, other.by_size)
                every = [f"{len(tdu.rows)}, {len(other.rows)}", f"z = {unpaired.z:+.2f}, {p_words(unpaired.p)}"]
                lines.append([other.name, words, *counts, interval_words(test.ratio), p_words(test.p), *every])
    header = ["other", "seeds", "pairs", "TDU faster, other faster", "ratio (95 %)", "p"]
    return markdown([*header, "all runs (TDU, other)", "log-rank over all runs"], lines)


def _settings(
    rows: Sequence[Row], *, stochastic: bool = True
) -> tuple[dict[tuple[float, float], Setting], dict[str, Setting]]:
    """By β and λ; QU and Q+UCB at β = 1 by name."""
    found = first_of_each(rows)
    grid = {
        (beta, prior): _setting(
            found, f"β = {beta:g}, λ = {prior:g}", partial(ensemble, beta=beta, prior=prior), stochastic=stochastic
        )
        for beta in BETAS
        for prior in PRIORS
    }
    grid = {key: setting for key, setting in grid.items() if key[0] in FEW_BETAS or setting.rows}
    others = {
        name: _setting(found, name, partial(cell, agent=agent), stochastic=stochastic)
        for name, agent in OVER_VALUES.items()
    }
    return grid, others


def _shown(rows: Sequence[Row], *, stochastic: bool) -> tuple[list[Setting], list[int]]:
    """Every setting that has runs, QU and Q+UCB at other β too, on the sizes that are there for this grid's sake."""
    found = first_of_each(rows)
    grid, others = _settings(rows, stochastic=stochastic)
    more = [
        _setting(found, f"{name}, β = {beta:g}", partial(cell, agent=agent, beta=beta), stochastic=stochastic)
        for name, agent in OVER_VALUES.items()
        for beta in BETAS[1:]
        if beta != 1
    ]
    elsewhere = (
        {(0.0, 3.0), (1.0, 3.0)} if stochastic else {(0.0, 3.0), (1.0, 3.0), (1.0, 1.0)}
    )  # are runs of figure 1 too
    special = [s for key, s in grid.items() if key not in elsewhere]
    sizes = [n for n in SIZES if (stochastic and n in FEW_SIZES) or any(n in s.by_size for s in special)]
    settings = [s.on(sizes) for s in (*grid.values(), *others.values(), *(s for s in more if s.rows))]
    return settings, sizes


def _verdicts(rows: Sequence[Row]) -> dict[str, Verdict]:
    grid, _ = _settings(rows)
    return {"C4": _c4(grid), "C5": _c5(rows)}


def _paired(rows: Sequence[Row], seeds: Sequence[int] = PAIRED_SEEDS) -> dict[str, Setting]:
    """TDU, QU and Q+UCB at β = 1 and λ = 3 on the sizes and seeds of C5."""
    found = first_of_each(rows)
    return {
        name: _setting(found, name, partial(cell, agent=agent), stochastic=True, seeds=seeds).on(FEW_SIZES)
        for name, agent in {"TDU": "tdu", **OVER_VALUES}.items()
    }


def _setting(
    found: dict[Identity, Row],
    name: str,
    cell_of: Callable[..., Cell],
    *,
    stochastic: bool,
    seeds: Sequence[int] = SEEDS,
) -> Setting:
    keys = {n: [identity(cell_of(sea(n, stochastic=stochastic), seed=seed)) for seed in seeds] for n in SIZES}
    by_size = {n: [found[key] for key in mine if key in found] for n, mine in keys.items()}
    return Setting(name, {n: mine for n, mine in by_size.items() if mine})


def _shared(settings: Sequence[Setting]) -> list[int]:
    """The sizes of which every setting has every seed."""
    return [n for n in SIZES if all(len(s.by_size.get(n, ())) == len(SEEDS) for s in settings)]


def _is_whole(setting: Setting) -> bool:
    return set(FEW_SIZES) <= set(_shared([setting]))


def _table(settings: Sequence[Setting], sizes: Sequence[int]) -> str:
    lines = []
    for setting in settings:
        cells = [setting.name, interval_words(setting.solved) if setting.rows else "–"]
        lines.append([*cells, *(every_word(setting.by_size.get(n, []), mark=luck) for n in sizes)])
    header = ["setting", "share solved (95 %)", *(f"size {n}: episodes, every seed" for n in sizes)]
    return markdown(header, lines)


def _c4(grid: dict[tuple[float, float], Setting]) -> Verdict:
    needed = [grid[beta, prior] for beta in FEW_BETAS for prior in (0.0, 3.0)]
    if not all(map(_is_whole, needed)):
        lacking = [s.name for s in needed if not _is_whole(s)]
        return Verdict(
            "not yet enough data", f"{len(lacking)} of {len(needed)} settings at λ = 0 and 3 are not complete"
        )
    sizes = _shared(needed)
    grid = {key: setting.on(sizes) for key, setting in grid.items()}
    full, none = [grid[b, 3.0] for b in FEW_BETAS[1:]], [grid[b, 0.0] for b in FEW_BETAS[1:]]
    best_full, best_none = (max(s.solved.estimate for s in group) for group in (full, none))
    pooled = [
        ([e for s in full for e in ended(s.by_size[n])], [e for s in none for e in ended(s.by_size[n])]) for n in sizes
    ]
    prior_helps = statistics.stratified_logrank(pooled)
    bonus_helps = statistics.stratified_trend([[ended(grid[b, 0.0].by_size[n]) for b in FEW_BETAS] for n in sizes])
    shares = ", ".join(f"{grid[b, 0.0].solved.estimate:.2f}" for b in FEW_BETAS)
    words = (
        f"with β > 0 the best share solved is {best_none:.2f} without priors and {best_full:.2f} at λ = 3 "
        f"({p_words(prior_helps.p)}), and without priors β = 0, 0.1, 1, 3 solve {shares} (trend {p_words(bonus_helps.p)})"
    )
    instrumental = False if best_none >= best_full else sooner(prior_helps)
    return Verdict(judged(instrumental, sooner(bonus_helps)), words)


def _c5(rows: Sequence[Row]) -> Verdict:
    tdu, *rest = _paired(rows).values()
    others = {setting.name: setting for setting in rest}
    tests = {name: paired(tdu.by_size, setting.by_size) for name, setting in others.items()}
    wanted = len(FEW_SIZES) * len(PAIRED_SEEDS)
    found = {name: test for name, test in tests.items() if test is not None}
    words = "TDU needs " + " and ".join(
        f"{interval_words(test.ratio)} of {name}'s episodes ({p_words(test.p)})" for name, test in found.items()
    )
    done = min((found[name].pairs if name in found else 0) for name in others)
    if done < wanted:
        so_far = f"; so far {words}" if found else ""
        return Verdict("not yet enough data", f"{done} of {wanted} pairs are there for each method{so_far}")
    return Verdict(judged(*map(faster, found.values())), words)


_NOT_RUN = 100
"""At the bottom of the figure."""


def _draw(grid: dict[tuple[float, float], Setting], others: dict[str, Setting]) -> Any:
    drawn, axes = drawing.figure(11, 4, columns=len(FEW_SIZES), sharey=True)
    colours = {0.0: "#b9b9b9", 1.0: "#7fb79a", 3.0: drawing.COLOURS["tdu"]}
    names = [*(f"{beta:g}" for beta in FEW_BETAS), *others]
    lacking = any(
        len(grid[beta, prior].on(FEW_SIZES).by_size) < len(FEW_SIZES) for beta in FEW_BETAS for prior in PRIORS
    )
    for one, size in zip(axes, FEW_SIZES, strict=True):
        for k, prior in enumerate(PRIORS):
            for i, beta in enumerate(FEW_BETAS):
                mine = grid[beta, prior].by_size.get(size, [])
                drawing.runs(one, i + 0.22 * (k - 1), ended(mine), colour=colours[prior], above=(5, 11, 17)[k])
                if not mine:
                    one.plot(i + 0.22 * (k - 1), _NOT_RUN, "x", color=colours[prior], markersize=4)
            one.plot([], [], "o", color=colours[prior], label=f"λ = {prior:g}")
        for i, setting in enumerate(others.values()):
            drawing.runs(one, len(FEW_BETAS) + i, ended(setting.by_size.get(size, [])), colour="#7a4fa3")
        one.plot([], [], "o", color="#7a4fa3", label="σ over values, λ = 3")
        one.axhline(EPISODES, color="0.7", linewidth=0.8)
        one.set_xticks(range(len(names)), names)
        one.set(title=f"size {size}", xlabel="β; σ over values, β = 1", yscale="log", xlim=(-0.6, len(names) - 0.4))
    axes[0].set(ylabel="episodes to solve", ylim=(80, 17_000))
    drawn.legend(*axes[0].get_legend_handles_labels(), frameon=False, fontsize=8, loc="outside lower center", ncols=4)
    words = "Stochastic Deep Sea: a dot is a run, a hollow triangle one or more (×) that were not solved"
    drawn.suptitle(words + (", a cross a setting not run yet" if lacking else ""), fontsize=11)
    return drawn


DEEP_SEA_GRID = Grid(
    summary="figure 2: β × λ on stochastic Deep Sea, no prior, QU and Q+UCB",
    claims={
        "C4": "priors are instrumental: without them (λ = 0) no β reaches the full score, though a larger β still "
        "helps.",
        "C5": "taking σ over values in place of TD errors is worse, as a bonus (QU) and in the policy (Q+UCB).",
    },
    rules="C4: of β > 0, λ = 3 solves more runs than λ = 0 and sooner, and without priors a larger β solves sooner (log-rank "
    "tests, p < 0.05). C5: TDU is faster than QU and than Q+UCB by the paired test.",
    cells=cells,
    left_out="18 of 21 sizes, deterministic Deep Sea, β 0.01, 0.5, 2 and 5, and every β but 1 of QU and Q+UCB.",
    measure=measure,
    report=report,
)
