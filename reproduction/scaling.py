"""Ours: how many episodes TDU and BDQN need on Deep Sea of sizes 10 to 120, with the preset deep and with the paper's."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from reproduction.deep_sea import measure
from reproduction.deep_sea_figures import published
from reproduction.deep_sea_runs import sea
from reproduction.deep_sea_scores import ENSEMBLES, SIZES, group, score, variant
from reproduction.experiment import Grid, Report, Verdict, cell, ended, interval_words, markdown
from reproduction.rows import Row
from tdu.report import drawing, statistics
from tdu.report.statistics import Episodes, Interval
from tdu.run.sweeps import Cell

LARGE = (60, 80, 100)
LARGEST = 120
LIMITS = {False: 10_000, True: 20_000}
"""Episodes on the large sizes with the preset deep, by whether Deep Sea is stochastic."""
PAPER_LIMIT = 30_000
"""The same with the paper's settings."""
SEEDS = 3
SMALLEST = 12
"""Size of the smallest runs in a fit: below, bsuite's rule is met by luck."""
TICKS = (10, 20, 30, 40, 60, 80, 120)
BEST_PUBLISHED = "HyperFQI + OIS"
PUBLISHED = (BEST_PUBLISHED, "16 last-layer heads + OIS", "BootDQN-OIS 16 networks")
"""In the figure. OIS is optimistic index sampling."""

BySize = Mapping[int, Sequence[Row]]


def cells(preset: str) -> list[Cell]:
    """Runs with the preset deep, TDU first, then those with the paper's settings."""
    thin = preset == "laptop"
    both = (False, True)
    wanted = [_deep("tdu", n, s, seed) for seed in range(SEEDS) for n in (*LARGE, *SIZES) for s in both]
    wanted += [_deep("tdu", LARGEST, False, 0)]
    bdqn_seeds = range(1 if thin else SEEDS)
    wanted += [_deep("bdqn", n, s, seed) for seed in bdqn_seeds for n in (*LARGE, *SIZES) for s in both]
    for seed in range(2 if thin else 5):
        wanted += [cell(sea(n, stochastic=False), agent, seed) for n in SIZES for agent in ENSEMBLES]
        wanted += [
            cell(sea(n, stochastic=False), agent, seed, episodes=PAPER_LIMIT)
            for n in LARGE
            for agent in (ENSEMBLES[:1] if thin else ENSEMBLES)
        ]
    return wanted


def _deep(agent: str, size: int, stochastic: bool, seed: int) -> Cell:
    limit = LIMITS[stochastic] if size > SIZES[-1] else LIMITS[False]
    return cell(sea(size, stochastic=stochastic), agent, seed, preset="deep", episodes=limit, until="mastered")


def mastered(rows: Sequence[Row]) -> list[Episodes]:
    """When each run was mastered, or that it was not."""
    return [Episodes(row.mastered_episode or row.episodes, row.mastered_episode is not None) for row in rows]


class Found(NamedTuple):
    """Rows by size."""

    deep: Mapping[tuple[str, bool], BySize]
    """By agent and whether Deep Sea is stochastic."""
    paper: Mapping[str, BySize]
    """Deterministic, by agent."""

    @classmethod
    def of(cls, rows: Sequence[Row]) -> "Found":
        """The rows of this experiment."""

        def deep(agent: str, stochastic: bool) -> BySize:
            sizes = (*LARGE, LARGEST)
            large = group(rows, agent, stochastic=stochastic, preset="deep", sizes=sizes, limit=LIMITS[stochastic])
            return group(rows, agent, stochastic=stochastic, preset="deep") | large

        def paper(agent: str) -> BySize:
            large = group(rows, agent, stochastic=False, sizes=LARGE, limit=PAPER_LIMIT)
            return group(rows, agent, stochastic=False) | large

        return cls({(a, s): deep(a, s) for a in ENSEMBLES for s in (False, True)}, {a: paper(a) for a in ENSEMBLES})

    def times(self) -> dict[str, dict[int, list[Episodes]]]:
        """Episodes of every method by size: to mastery with the preset deep, to bsuite's rule with the paper's."""
        found = {}
        for (agent, stochastic), by_size in self.deep.items():
            found[f"{agent} deep, {variant(stochastic)}"] = {n: mastered(mine) for n, mine in by_size.items()}
        for agent, by_size in self.paper.items():
            found[f"{agent} paper, deterministic"] = {n: ended(mine) for n, mine in by_size.items()}
        return found


class Law(NamedTuple):
    """Episodes = factor · size^exponent, of the sizes from `SMALLEST` to `largest`."""

    largest: int
    factor: float
    exponent: Interval

    def at(self, size: float) -> float:
        """What is expected."""
        return float(self.factor * size**self.exponent.estimate)


def law(by_size: Mapping[int, Sequence[Episodes]]) -> Law | None:
    """The law of the sizes up to which every run ends, where there are at least three."""
    failed = [n for n, mine in by_size.items() if n >= SMALLEST and not all(e.solved for e in mine)]
    runs = [(n, e) for n, mine in by_size.items() if SMALLEST <= n < min(failed, default=math.inf) for e in mine]
    if len({n for n, _ in runs}) < 3:
        return None
    return Law(max(n for n, _ in runs), *statistics.power_law([n for n, _ in runs], [e for _, e in runs]))


def report(rows: Sequence[Row]) -> Report:
    """Episodes and time by size, the exponents, and the verdicts on the preset deep."""
    found = Found.of(rows)
    times = found.times()
    laws = {name: law(by_size) for name, by_size in times.items()}
    lines = [
        [name, f"{SMALLEST}–{fitted.largest}", f"{fitted.factor:.3f}", interval_words(fitted.exponent)]
        for name, fitted in laws.items()
        if fitted is not None
    ]
    body = [
        "![Episodes against size](scaling.svg)",
        "The preset `deep` counts episodes until Deep Sea is mastered: the greedy policy of the exploiters' mean goes right "
        "on the whole diagonal at 20 checks in a row, 5 episodes apart. `paper` counts episodes until bsuite's rule holds. "
        "The published curves are mean episodes until the greedy return is at least 0.99 (HyperFQI, camera-ready figures). "
        "Nothing is published for stochastic Deep Sea above size 50.",
        "## Preset deep, by size",
        _by_size(found),
        "## Episodes = c · N^b",
        "Fitted to the sizes up to which every run ends, by maximum likelihood on logarithms; bootstrap intervals over runs.",
        markdown(["method", "sizes", "c", "b (95 %)"], lines) if lines else "There are too few runs.",
    ]
    verdicts = {
        "suite": _suite(found),
        "large": _large(found),
        "published": _against_published(found),
        "exponent": _exponent(laws),
    }
    return Report(verdicts, "\n\n".join(body), {"scaling": lambda: _draw(times, laws)})


def _by_size(found: Found) -> str:
    best = dict(published()[BEST_PUBLISHED])
    lines = []
    for n in (*SIZES, *LARGE, LARGEST):
        cells_of_size = [str(n)]
        for stochastic in (False, True):
            for agent in ENSEMBLES:
                mine = found.deep[agent, stochastic].get(n, ())
                words = [f"{e.episode:,}" if e.solved else f">{e.episode:,}" for e in mastered(mine)]
                cells_of_size.append(", ".join(words) or "–")
            seconds = [row.seconds for row in found.deep["tdu", stochastic].get(n, ()) if row.seconds is not None]
            cells_of_size.append(f"{sum(seconds) / len(seconds):,.0f} s" if seconds else "–")
            if not stochastic:
                cells_of_size.append(f"{best[n]:,}" if n in best else "–")
        lines.append(cells_of_size)
    header = ["size", "TDU", "BDQN", "time of TDU", f"best published ({BEST_PUBLISHED})"]
    header += ["stochastic: TDU", "stochastic: BDQN", "time of TDU"]
    note = (
        "Episode of mastery of every seed, in order; a > is a run that was not mastered. Time is the mean of one core."
    )
    return f"{note}\n\n{markdown(header, lines)}"


def _suite(found: Found) -> Verdict:
    both = {s: found.deep["tdu", s] for s in (False, True)}
    rows = [row for by_size in both.values() for n in SIZES for row in by_size.get(n, ())[:SEEDS]]
    wanted = SEEDS * len(SIZES) * len(both)
    ends = sum(e.solved for e in mastered(rows))
    scores = {s: score(by_size, SIZES).official for s, by_size in both.items()}
    words = f"{ends} of {len(rows)} runs are mastered; bsuite's official score is "
    words += " and ".join(f"{interval_words(scores[s])} {variant(s)}" for s in both)
    if len(rows) < wanted:
        return Verdict("not yet enough data", f"of {wanted} runs there are {len(rows)}")
    holds = ends == wanted and all(found_score.estimate == 1 for found_score in scores.values())
    return Verdict("reached" if holds else "not reached", words)


def _large(found: Found) -> Verdict:
    words, whole, holds = [], True, True
    for s in (False, True):
        for n in LARGE:
            ends = mastered(found.deep["tdu", s].get(n, ()))
            whole &= len(ends) >= SEEDS
            holds &= all(e.solved for e in ends)
            words.append(f"{sum(e.solved for e in ends)} of {len(ends)} at {variant(s)} {n}")
    if not whole:
        return Verdict("not yet enough data", "mastered are " + ", ".join(words))
    return Verdict("reached" if holds else "not reached", "mastered are " + ", ".join(words))


def _against_published(found: Found) -> Verdict:
    ends = mastered(found.deep["tdu", False].get(LARGE[-1], ()))
    if len(ends) < SEEDS:
        return Verdict("not yet enough data", f"of {SEEDS} runs at size {LARGE[-1]} there are {len(ends)}")
    if not all(e.solved for e in ends):
        return Verdict("not reached", f"{sum(not e.solved for e in ends)} of {len(ends)} runs are not mastered")
    mean = statistics.mean_interval([e.episode for e in ends])
    others = ", ".join(f"{method} {dict(published()[method])[LARGE[-1]]:,}" for method in PUBLISHED[:2])
    words = f"TDU masters deterministic size {LARGE[-1]} at episode {interval_words(mean, 0)} on average; published: {others}"
    return Verdict("reached" if mean.estimate < dict(published()[BEST_PUBLISHED])[LARGE[-1]] else "not reached", words)


def _exponent(laws: Mapping[str, Law | None]) -> Verdict:
    known = {name: fitted for name, fitted in laws.items() if fitted is not None}
    words = "; ".join(f"{name}: {interval_words(f.exponent)} up to size {f.largest}" for name, f in known.items())
    return Verdict("answered" if known else "not yet enough data", words or "there are no runs")


def _draw(times: Mapping[str, Mapping[int, Sequence[Episodes]]], laws: Mapping[str, Law | None]) -> Any:
    drawn, both = drawing.figure(11, 4.8, 1, 2, sharey=True)
    for axes, stochastic in zip(both, (False, True), strict=True):
        kind = variant(stochastic)
        for shift, agent in zip((0.985, 1.015), ENSEMBLES, strict=True):
            name, colour = f"{agent} deep, {kind}", drawing.COLOURS[agent]
            for n, ends in times[name].items():
                drawing.runs(axes, n * shift, ends, colour=colour)
            fitted = laws[name]
            if fitted is not None:
                label = f"{agent.upper()}, deep: {fitted.factor:.2g} · N^{fitted.exponent.estimate:.2f}"
                line = (SMALLEST, fitted.largest)
                axes.plot(line, [fitted.at(n) for n in line], color=colour, label=label)
        if not stochastic:
            for n, ends in times["tdu paper, deterministic"].items():
                drawing.runs(axes, n, ends, colour="0.65", label="TDU, paper's settings" if n == SIZES[0] else None)
            for method, style in zip(PUBLISHED, ("--", "-.", ":"), strict=True):
                axes.plot(*zip(*published()[method], strict=True), style, color="0.35", label=f"{method} (published)")
        axes.set(xlabel="size N", xscale="log", yscale="log", title=f"{kind.capitalize()} Deep Sea")
        axes.set_xticks(TICKS, [str(n) for n in TICKS])
        axes.set_xticks([], minor=True)
        drawing.plain_numbers(axes)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False, fontsize=8)
    both[0].set_ylabel("episodes")
    return drawn


SCALING = Grid(
    summary="ours: Deep Sea from size 10 to 120, with the preset deep",
    claims={
        "suite": "TDU with the preset deep masters all 21 deterministic and all 21 stochastic sizes from 10 to 50 on three "
        "of three seeds within 10,000 episodes, and bsuite's official score is 1.00 on both.",
        "large": "The same on sizes 60, 80 and 100: deterministic within 10,000 episodes, stochastic within 20,000.",
        "published": "TDU needs fewer episodes on deterministic size 100 than any published method (2,889).",
        "exponent": "With which power of the size do the episodes grow?",
    },
    rules="every run of the first two claims has to be mastered; the third compares means (results/RULES.md).",
    cells=cells,
    left_out="two of three seeds of BDQN with the preset deep, and three of five seeds with the paper's settings.",
    measure=measure,
    report=report,
)
