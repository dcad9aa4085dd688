"""Figure 2: β against λ on stochastic Deep Sea, and σ over values in place of TD errors (claims C4 and C5)."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from reproduction import analysis, drawing, statistics, wording
from reproduction.deep_sea_runs import ABOUT_LUCK, SIZES, deep_sea_cells, deep_sea_id, luck, luck_words, measure
from reproduction.experiment import EPISODES, Findings, Grid, Verdict, cell, select
from reproduction.rows import RunRow
from reproduction.statistics import Episodes, Interval
from tdu.agents.grids import BETAS
from tdu.run.sweeps import Cell

FEW_SIZES = (20, 30, 40)
FEW_BETAS = (0.0, 0.1, 1.0, 3.0)
PRIORS = (0.0, 1.0, 3.0)
SEEDS = (0, 1)
PAIRED_SEEDS = range(12)
OVER_VALUES = {"QU": "qu", "Q+UCB": "q_ucb"}
"""Agents with σ over values."""


def ensemble(env: str, seed: int, *, beta: float, prior: float) -> Cell:
    """TDU with that β and λ; at β = 0 it is BDQN."""
    if beta == 0:
        return cell(env, "bdqn", seed, prior_scale=prior)
    return cell(env, "tdu", seed, beta=beta, prior_scale=prior)


def cells(preset: str) -> list[Cell]:
    """The runs that the verdicts use first, small sizes before large ones; λ = 1, which no verdict uses, last."""
    thin = preset == "laptop"
    wanted = []
    unjudged = []
    for seed in SEEDS:
        for size in FEW_SIZES if thin else SIZES:
            for env in [deep_sea_id(size, stochastic=s) for s in ((True,) if thin else (True, False))]:
                for beta in FEW_BETAS if thin else BETAS:
                    none, one, three = (ensemble(env, seed, beta=beta, prior=prior) for prior in PRIORS)
                    wanted += [none, three]
                    unjudged.append(one)
                for beta in (1.0,) if thin else BETAS[1:]:
                    wanted += [cell(env, agent, seed, beta=beta) for agent in OVER_VALUES.values()]
    return wanted + paired_cells() + unjudged


def paired_cells() -> list[Cell]:
    """C5's pairs by size and seed: TDU with QU and with Q+UCB."""
    return deep_sea_cells([*OVER_VALUES.values(), "tdu"], PAIRED_SEEDS, sizes=FEW_SIZES, variants=[True])


class Setting(NamedTuple):
    """One cell of figure 2: its name and its runs by size."""

    name: str
    by_size: dict[int, list[RunRow]]

    @property
    def rows(self) -> list[RunRow]:
        """All runs."""
        return [row for rows in self.by_size.values() for row in rows]

    @property
    def solved(self) -> Interval:
        """Share of solved runs."""
        return statistics.share(analysis.solved_count(self.rows), len(self.rows))

    def on(self, sizes: Sequence[int]) -> "Setting":
        """The same with only these sizes."""
        return Setting(self.name, {n: self.by_size[n] for n in sizes if n in self.by_size})

    def times(self, size: int) -> list[Episodes]:
        """Episodes to solve at one size."""
        return analysis.solve_times(self.by_size.get(size, []))


BetaAndPrior = dict[tuple[float, float], Setting]


def report(rows: Sequence[RunRow]) -> Findings:
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
    if sizes:  # only with the preset paper
        details += [f"Deterministic Deep Sea {', '.join(map(str, sizes))}", _table(deterministic, sizes)]
    figures = {"deep_sea_grid": lambda: _draw(grid, others)}
    shown = [row for setting in _paired(rows).values() for row in setting.rows]
    return Findings(_verdicts(rows), "\n\n".join(body), figures, "\n\n".join(details), shown)


def _paired_table(rows: Sequence[RunRow]) -> str:
    lines = []
    for words, seeds in (("0–11", PAIRED_SEEDS), ("0, 1", PAIRED_SEEDS[:2]), ("2–11", PAIRED_SEEDS[2:])):
        tdu, *others = _paired(rows, seeds).values()
        for other in others:
            if test := analysis.paired(tdu.by_size, other.by_size):
                unpaired = wording.z_and_p(analysis.logrank(tdu.by_size, other.by_size))
                counts = f"{len(tdu.rows)}, {len(other.rows)}"
                lines.append([other.name, words, *wording.pair_test(test), counts, unpaired])
    header = ["other", "seeds", "pairs", "TDU faster, other faster", "ratio (95 %)", "p"]
    return wording.table([*header, "all runs (TDU, other)", "log-rank over all runs"], lines)


def _settings(rows: Sequence[RunRow], *, stochastic: bool = True) -> tuple[BetaAndPrior, dict[str, Setting]]:
    """By β and λ; QU and Q+UCB at β = 1 by name."""
    grid = {
        (beta, prior): _setting(
            rows, f"β = {beta:g}, λ = {prior:g}", partial(ensemble, beta=beta, prior=prior), stochastic=stochastic
        )
        for beta in BETAS
        for prior in PRIORS
    }
    grid = {key: setting for key, setting in grid.items() if key[0] in FEW_BETAS or setting.rows}
    others = {
        name: _setting(rows, name, partial(cell, agent=agent), stochastic=stochastic)
        for name, agent in OVER_VALUES.items()
    }
    return grid, others


def _shown(rows: Sequence[RunRow], *, stochastic: bool) -> tuple[list[Setting], list[int]]:
    """Every setting that has runs, also QU and Q+UCB at other β, on the sizes that were run for this grid."""
    grid, others = _settings(rows, stochastic=stochastic)
    more = [
        _setting(rows, f"{name}, β = {beta:g}", partial(cell, agent=agent, beta=beta), stochastic=stochastic)
        for name, agent in OVER_VALUES.items()
        for beta in BETAS[1:]
        if beta != 1
    ]
    in_figure_1 = {(0.0, 3.0), (1.0, 3.0)} | (set() if stochastic else {(1.0, 1.0)})
    special = [s for key, s in grid.items() if key not in in_figure_1]
    sizes = [n for n in SIZES if (stochastic and n in FEW_SIZES) or any(n in s.by_size for s in special)]
    settings = [s.on(sizes) for s in (*grid.values(), *others.values(), *(s for s in more if s.rows))]
    return settings, sizes


def _verdicts(rows: Sequence[RunRow]) -> dict[str, Verdict]:
    grid, _ = _settings(rows)
    return {"C4": _c4(grid), "C5": _c5(rows)}


def _paired(rows: Sequence[RunRow], seeds: Sequence[int] = PAIRED_SEEDS) -> dict[str, Setting]:
    """TDU, QU and Q+UCB at β = 1 and λ = 3 on the sizes and seeds of C5."""
    return {
        name: _setting(rows, name, partial(cell, agent=agent), stochastic=True, seeds=seeds).on(FEW_SIZES)
        for name, agent in {"TDU": "tdu", **OVER_VALUES}.items()
    }


def _setting(
    rows: Sequence[RunRow],
    name: str,
    cell_of: Callable[..., Cell],
    *,
    stochastic: bool,
    seeds: Sequence[int] = SEEDS,
) -> Setting:
    by_size = {
        n: select(rows, [cell_of(deep_sea_id(n, stochastic=stochastic), seed=seed) for seed in seeds]) for n in SIZES
    }
    return Setting(name, {n: runs for n, runs in by_size.items() if runs})


def _shared(settings: Sequence[Setting]) -> list[int]:
    """The sizes for which every setting has every seed."""
    return [n for n in SIZES if all(len(s.by_size.get(n, ())) == len(SEEDS) for s in settings)]


def _table(settings: Sequence[Setting], sizes: Sequence[int]) -> str:
    lines = []
    for setting in settings:
        share = wording.interval(setting.solved) if setting.rows else "–"
        episodes = [wording.solve_episodes(setting.by_size.get(n, []), mark=luck) for n in sizes]
        lines.append([setting.name, share, *episodes])
    header = ["setting", "share solved (95 %)", *(f"size {n}: episodes, every seed" for n in sizes)]
    return wording.table(header, lines)


def _c4(grid: BetaAndPrior) -> Verdict:
    needed = [grid[beta, prior] for beta in FEW_BETAS for prior in (0.0, 3.0)]
    incomplete = sum(not set(FEW_SIZES) <= set(_shared([setting])) for setting in needed)
    if incomplete:
        words = f"{incomplete} of {len(needed)} settings at λ = 0 and 3 are not complete"
        return Verdict("not yet enough data", words)
    sizes = _shared(needed)
    grid = {key: setting.on(sizes) for key, setting in grid.items()}
    with_prior, without = ([grid[b, prior] for b in FEW_BETAS[1:]] for prior in (3.0, 0.0))
    best, best_without = (max(s.solved.estimate for s in settings) for settings in (with_prior, without))
    pooled = [tuple([e for s in group for e in s.times(n)] for group in (with_prior, without)) for n in sizes]
    prior_helps = statistics.stratified_logrank([(first, second) for first, second in pooled])
    bonus_helps = statistics.stratified_trend([[grid[b, 0.0].times(n) for b in FEW_BETAS] for n in sizes])
    shares = ", ".join(f"{grid[b, 0.0].solved.estimate:.2f}" for b in FEW_BETAS)
    words = (
        f"with β > 0 the best share solved is {best_without:.2f} without priors and {best:.2f} at λ = 3 "
        f"({wording.p_value(prior_helps.p)}), and without priors β = 0, 0.1, 1, 3 solve {shares} "
        f"(trend {wording.p_value(bonus_helps.p)})"
    )
    instrumental = False if best_without >= best else analysis.sooner(prior_helps)
    return Verdict(analysis.judged(instrumental, analysis.sooner(bonus_helps)), words)


def _c5(rows: Sequence[RunRow]) -> Verdict:
    tdu, *others = _paired(rows).values()
    every = {setting.name: analysis.paired(tdu.by_size, setting.by_size) for setting in others}
    tests = {name: test for name, test in every.items() if test is not None}
    words = "TDU needs " + " and ".join(
        f"{wording.interval(test.ratio)} of {name}'s episodes ({wording.p_value(test.p)})"
        for name, test in tests.items()
    )
    wanted = len(FEW_SIZES) * len(PAIRED_SEEDS)
    done = min(tests[name].pairs if name in tests else 0 for name in every)
    if done < wanted:
        so_far = f"; so far {words}" if tests else ""
        return Verdict("not yet enough data", f"{done} of {wanted} pairs of each method are done{so_far}")
    return Verdict(analysis.judged(*map(analysis.faster, tests.values())), words)


_NOT_RUN = 100
"""At the bottom of the figure."""
_COLOURS = {0.0: "#b9b9b9", 1.0: "#7fb79a", 3.0: drawing.COLOURS["tdu"]}


def _draw(grid: BetaAndPrior, others: dict[str, Setting]) -> "drawing.Figure":
    drawn, axes = drawing.figure(11, 4, columns=len(FEW_SIZES), sharey=True)
    names = [*(f"{beta:g}" for beta in FEW_BETAS), *others]
    lacking = any(n not in grid[beta, prior].by_size for beta in FEW_BETAS for prior in PRIORS for n in FEW_SIZES)
    for one, size in zip(axes, FEW_SIZES, strict=True):
        for k, prior in enumerate(PRIORS):
            for i, beta in enumerate(FEW_BETAS):
                times = grid[beta, prior].times(size)
                drawing.runs(one, i + 0.22 * (k - 1), times, colour=_COLOURS[prior], above=(5, 11, 17)[k])
                if not times:
                    one.plot(i + 0.22 * (k - 1), _NOT_RUN, "x", color=_COLOURS[prior], markersize=4)
            one.plot([], [], "o", color=_COLOURS[prior], label=f"λ = {prior:g}")
        for i, setting in enumerate(others.values()):
            drawing.runs(one, len(FEW_BETAS) + i, setting.times(size), colour="#7a4fa3")
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
    left_out="18 of 21 sizes, deterministic Deep Sea, β 0.01, 0.5, 2 and 5, and every β but 1 of QU and Q+UCB.",
    cells=cells, measure=measure, report=report,
)  # fmt: skip
