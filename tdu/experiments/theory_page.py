"""The theory's page and figures, from its tables and nothing else: the same tables give the same bytes."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tdu.experiments.theory_agents import AGENTS, TASKS
from tdu.experiments.theory_rows import BIAS_FAMILIES, DISTRIBUTIONS, FAMILIES, READINGS, Row

Rows = Sequence[Row]
Tables = dict[str, list[Row]]

COLOURS = ("#1f4e9c", "#d1495b", "#4d9a5f", "#e0912f", "#7a4fa3")
SOLVED = 1e-6
"""A relative residual below this counts as solved."""
RESAMPLES = 2000
TRACKS = (
    ("q_with_q", "σ(Q) with true σ(Q)"),
    ("td_with_td", "σ(δ) with true σ(δ)"),
    ("td_with_q", "σ(δ) with true σ(Q)"),
)


def where(rows: Rows, **fixed: Any) -> list[Row]:
    """The rows with these entries."""
    return [row for row in rows if all(row[name] == value for name, value in fixed.items())]


def interval(count: int, statistic: Callable[[Any], float]) -> tuple[float, float, float]:
    """A statistic of the rows with these indices, and the middle 95 % of it under resampling of the rows."""
    whole = statistic(np.arange(count))
    rng = np.random.default_rng(count)
    with np.errstate(invalid="ignore"):
        drawn = [statistic(rng.integers(count, size=count)) for _ in range(RESAMPLES)]
    finite = np.array(drawn)[np.isfinite(drawn)]
    low, high = np.quantile(finite, [0.025, 0.975]) if len(finite) else (np.nan, np.nan)
    return whole, float(low), float(high)


def share(rows: Rows, among: str) -> tuple[float, float, float]:
    """Share of the transitions of a kind where σ(δ) is less biased, resampled by problem."""
    less, of = (np.array([row[name] for row in rows], float) for name in (f"less_{among}", among))
    return interval(len(rows), lambda i: _ratio(less[i].sum(), of[i].sum()))


def share_outside(rows: Rows) -> tuple[float, float, float]:
    """The same outside of the condition."""
    less, of = (
        np.array([row[a] - row[b] for row in rows], float) for a, b in (("less_met", "less_inside"), ("met", "inside"))
    )
    return interval(len(rows), lambda i: _ratio(less[i].sum(), of[i].sum()))


def correlation(rows: Rows, name: str) -> tuple[float, float, float]:
    """Mean over seeds of a column, seeds resampled; seeds without a number are left out."""
    numbers = np.array([row[name] for row in rows], float)
    numbers = numbers[np.isfinite(numbers)]
    return interval(len(numbers), lambda i: float(numbers[i].mean()) if len(i) else float("nan"))


def solved_upto(rows: Rows, equation: str, n: int) -> int:
    """The largest N up to which every seed's equations are solved."""
    best = 0
    for pairs in sorted({row["pairs"] for row in rows}):
        if max(row["residual"] for row in where(rows, equation=equation, n=n, pairs=pairs)) > SOLVED:
            break
        best = pairs
    return best


def page(tables: Tables, settings: Row) -> str:
    """The page in Markdown."""
    parts = [
        "# The theory, checked",
        f"Made by `python -m tdu.experiments.theory` (preset {settings['preset']}) from the tables beside it; docs/theory.md says "
        "what is stated, what is checked and what comes of it. Intervals are the middle 95 % of a bootstrap.",
        "## Lemma 1",
        "p(θ) is the true posterior of Q_π itself, which has no bias. The Bellman equations of its moments, with the expectation "
        "over r and s' read in three ways: residual relative to the posterior's standard deviation (mean) or variance, median "
        "over problems; in brackets the share of pairs where it is surely not zero (more than five standard errors).",
        _lemma1_table(tables["lemma1"]),
        "![Lemma 1](lemma1.svg)",
        "## Theorem 1",
        "The largest number of pairs N at which the best layer of n features solves its equations on every seed: relative "
        f"residual below {SOLVED:g}. Covariances, which have no negative eigenvalue, are found by projected gradients of limited "
        "length: their numbers may be larger.",
        _theorem1_table(tables["theorem1"]),
        "![Theorem 1](theorem1.svg)",
        "## Theorem 2",
        _theorem2_words(tables["theorem2"]),
        _theorem2_table(tables["theorem2"]),
        _theorem2_grid(tables["theorem2"]),
        "![Theorem 2](theorem2.svg)",
        "## The agents' own networks",
        "Spearman's rank correlation over all state-action pairs that can be reached, mean over seeds.",
        _agents_table(_agents(tables)),
        "![Agents](agents.svg)",
    ]
    return "\n\n".join(parts) + "\n"


def figures(tables: Tables, out: Path) -> None:
    """lemma1, theorem1, theorem2 and agents, each as SVG and PNG."""
    _draw_lemma1(tables["lemma1"], out)
    _draw_theorem1(tables["theorem1"], out)
    _draw_theorem2(tables["theorem2"], out)
    _draw_agents(_agents(tables), out)


def _agents(tables: Tables) -> Rows:
    return [row for task in TASKS for row in tables[f"agents_{task}"]]


def _ratio(above: float, below: float) -> float:
    return float(above / below) if below else float("nan")


def _median(rows: Rows, name: str) -> float:
    return float(np.median([row[name] for row in rows]))


def _lines(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _between(numbers: tuple[float, float, float]) -> str:
    middle, low, high = numbers
    return "–" if np.isnan(middle) else f"{middle:.2f} ({low:.2f} … {high:.2f})"


def _lemma1_table(rows: Rows) -> str:
    body = []
    for moment in ("mean", "variance"):
        for reading in READINGS:
            cells = []
            for family in FAMILIES:
                mine = where(rows, moment=moment, reading=reading, family=family)
                surely = _ratio(sum(row["refuting_pairs"] for row in mine), sum(row["pairs"] for row in mine))
                cells.append(f"{_median(mine, 'relative_residual'):.2g} ({surely:.0%})")
            body.append([moment, reading, *cells])
    worst = max(_median(where(rows, family=family), "relative_error") for family in FAMILIES)
    table = _lines(["moment", "expectation under", *FAMILIES], body)
    return f"{table}\n\nSampling error of the same numbers: {worst:.2g} at most."


def _theorem1_table(rows: Rows) -> str:
    layers = sorted({row["n"] for row in rows})
    body = [
        [equation, *(str(solved_upto(rows, equation, n)) for n in layers)]
        for equation in dict.fromkeys(row["equation"] for row in rows)
    ]
    for name, count in (
        ("n", lambda n: n), ("n + 1", lambda n: n + 1), ("n(n + 1)/2", lambda n: n * (n + 1) // 2), ("n²", lambda n: n * n),
    ):  # fmt: skip
        body.append([f"*{name}*", *(f"*{count(n)}*" for n in layers)])
    return _lines(["equations", *(f"n = {n}" for n in layers)], body)


def _theorem2_words(rows: Rows) -> str:
    names = ("met", "inside", "in_text", "repaired", "decided")
    total = {name: sum(row[name] for row in rows) for name in names}
    of_all = {name: f"{_ratio(count, total['met']):.0%}" for name, count in total.items()}
    less = {name: _between(share(rows, name)) for name in (*names, "decided_inside")}
    agrees = all(row["less_mean"] == row["mean_inside"] for row in rows)
    sentences = (
        f"{total['met']} transitions in {len(rows)} problems.",
        f"Both identities hold to {max(row['identity_error'] for row in rows):.1g} of the values' mean square.",
        f"The mean's condition {'agrees' if agrees else 'does not agree'} with the outcome in every problem.",
        f"The variance's condition holds in {of_all['inside']} of the transitions; as the text prints it, in {of_all['in_text']}.",
        f"V[δ] is less biased in {less['met']} of all, in {less['inside']} of those inside the condition, in "
        f"{_between(share_outside(rows))} of those outside, and in {less['in_text']} of those inside the text's.",
        f"Inside the condition with terms of one sign ({total['repaired']} transitions) it is in {less['repaired']}.",
        f"The sampling error of the true variance is {_median(rows, 'sampling_error'):.2f} of the bias in the median.",
        f"Where the comparison is beyond three standard errors ({of_all['decided']}), V[δ] is less biased in {less['decided']}, "
        f"inside the condition in {less['decided_inside']}.",
    )
    return " ".join(sentences)


def _theorem2_table(rows: Rows) -> str:
    body = []
    for name in DISTRIBUTIONS:
        mine = where(rows, distribution=name)
        inside = _ratio(sum(row["inside"] for row in mine), sum(row["met"] for row in mine))
        of_sd = _ratio(sum(row["less_sd"] for row in mine), sum(row["met"] for row in mine))
        relative = [f"{_median(mine, column):.2f}" for column in ("relative_bias_q", "relative_bias_td")]
        shares = [_between(x) for x in (share(mine, "met"), share(mine, "inside"), share_outside(mine))]
        body.append([name, f"{inside:.0%}", *shares, f"{of_sd:.2f}", *relative])
    head = [
        "p(θ)",
        "inside the condition",
        "V[δ] less biased",
        "inside",
        "outside",
        "σ(δ) less biased",
        "bias of V[Q]",
        "of V[δ]",
    ]
    return _lines(head, body)


def _theorem2_grid(rows: Rows) -> str:
    body = []
    for family in BIAS_FAMILIES:
        for count in sorted({row["transitions"] for row in rows}):
            cells = []
            for gamma in sorted({row["gamma"] for row in rows}):
                mine = where(rows, family=family, transitions=count, gamma=gamma)
                cells.append(_between(share(mine, "met")) if mine else "–")
            body.append([family, str(count), *cells])
    return _lines(["family", "transitions", *(f"γ = {g}" for g in sorted({row["gamma"] for row in rows}))], body)


def _agents_table(rows: Rows) -> str:
    body = []
    for task in TASKS:
        for agent in AGENTS:
            for steps in sorted({row["steps"] for row in rows}):
                mine = where(rows, task=task, agent=agent, steps=steps)
                better = [row | {"gain": row["td_with_td_all"] - row["q_with_q_all"]} for row in mine]
                cells = [_between(correlation(mine, f"{name}_all")) for name, _ in TRACKS]
                body.append([task, agent, str(steps), *cells, _between(correlation(better, "gain"))])
    return _lines(["task", "agent", "steps", *(words for _, words in TRACKS), "second − first"], body)


def _draw_lemma1(rows: Rows, out: Path) -> None:
    with _figure(out / "lemma1", 1, 2, (10.0, 4.0)) as (figure, ((left, right),)):
        for axes, moment in ((left, "mean"), (right, "variance")):
            for i, (reading, colour) in enumerate(zip(READINGS, COLOURS, strict=False)):
                mine = [where(rows, moment=moment, reading=reading, family=family) for family in FAMILIES]
                at = np.arange(len(FAMILIES)) + (i - 1) * 0.27
                heights = [max(_median(one, "relative_residual"), 2e-4) for one in mine]
                axes.bar(at, heights, 0.25, color=colour, label=reading)
                if i < 2:
                    errors = [_median(one, "relative_error") for one in mine]
                    axes.plot(at, errors, "_", color="black", markersize=9, label="sampling error" if i else None)
            axes.set_yscale("log")
            axes.set_ylim(2e-4, 2)
            axes.set_title(f"equation of the {moment}")
            axes.set_xticks(np.arange(len(FAMILIES)), [name.replace("_", " ") for name in FAMILIES])
        left.set_ylabel("residual of the unbiased p(θ), relative")
        _legend(figure, left, 4)


def _draw_theorem1(rows: Rows, out: Path) -> None:
    shown = (
        "mean, Bellman", "variance, truth, symmetric", "variance, truth, covariance", "variance, truth, factorised",
        "variance, Bellman, covariance",
    )  # fmt: skip
    layers = sorted({row["n"] for row in rows})
    counts = sorted({row["pairs"] for row in rows})
    with _figure(out / "theorem1", 1, len(layers), (4.2 * len(layers), 4.2)) as (figure, (every,)):
        for axes, n in zip(every, layers, strict=True):
            for colour, equation in zip(COLOURS, shown, strict=True):
                medians = [_median(where(rows, n=n, equation=equation, pairs=pairs), "residual") for pairs in counts]
                axes.plot(counts, np.maximum(medians, 1e-16), color=colour, marker=".", label=equation)
            for limit, words in ((n, "n"), (n * (n + 1) // 2, "n(n+1)/2"), (n * n, "n²")):
                axes.axvline(limit + 0.5, color="#999999", linewidth=0.8, linestyle="--")
                if limit <= counts[-1]:
                    axes.text(limit + 0.6, 2e-16, words, rotation=90, va="bottom", color="#666666", fontsize=8)
            axes.set_yscale("log")
            axes.set_ylim(1e-16, 10)
            axes.set_xlim(0, counts[-1] + 1)
            axes.set_title(f"n = {n}")
            axes.set_xlabel("state-action pairs N")
        every[0].set_ylabel("residual of the best layer, relative")
        _legend(figure, every[0], 3)


def _draw_theorem2(rows: Rows, out: Path) -> None:
    with _figure(out / "theorem2", 1, 2, (11.0, 4.2)) as (figure, ((left, right),)):
        at = np.arange(len(DISTRIBUTIONS))
        kinds = (("inside the condition", lambda mine: share(mine, "inside"), -0.12), ("outside", share_outside, 0.12))
        for colour, (words, of, shift) in zip(COLOURS, kinds, strict=False):
            found = np.array([of(where(rows, distribution=name)) for name in DISTRIBUTIONS])
            _whiskers(left, at + shift, found, colour, words)
        left.set_xticks(
            at, [name.replace(", ", ",\n").replace(" with ", "\nwith ") for name in DISTRIBUTIONS], fontsize=8
        )
        left.set_ylabel("share of transitions where V[δ] is less biased")
        left.legend(frameon=False, loc="lower left")
        gammas = sorted({row["gamma"] for row in rows})
        counts = sorted({row["transitions"] for row in rows})
        for i, family in enumerate(BIAS_FAMILIES):
            for j, count in enumerate(counts):
                mine = [where(rows, family=family, transitions=count, gamma=gamma) for gamma in gammas]
                found = np.array([share(one, "met") if one else (np.nan,) * 3 for one in mine])
                shift = 0.09 * (len(counts) * i + j - (len(counts) * len(BIAS_FAMILIES) - 1) / 2)
                marker = "os^"[j % 3]
                words = f"{family.replace('_', ' ')}, {count} transitions"
                _whiskers(right, np.arange(len(gammas)) + shift, found, COLOURS[i], words, marker)
        right.set_xticks(np.arange(len(gammas)), [f"γ = {gamma:g}" for gamma in gammas])
        right.legend(frameon=False, fontsize=8, loc="lower left")
        for axes in (left, right):
            axes.axhline(0.5, color="#999999", linewidth=0.8, linestyle="--")
            axes.set_ylim(0, 1.02)
        figure.tight_layout()


def _draw_agents(rows: Rows, out: Path) -> None:
    with _figure(out / "agents", len(AGENTS), len(TASKS), (11.0, 6.0)) as (figure, grid):
        steps = sorted({row["steps"] for row in rows})
        for line, agent in zip(grid, AGENTS, strict=True):
            for axes, task in zip(line, TASKS, strict=True):
                for i, (colour, (name, words)) in enumerate(zip(COLOURS, TRACKS, strict=False)):
                    found = np.array(
                        [correlation(where(rows, task=task, agent=agent, steps=s), f"{name}_all") for s in steps]
                    )
                    axes.plot(np.arange(len(steps)), found[:, 0], color=colour, linewidth=1)
                    _whiskers(axes, np.arange(len(steps)) + 0.06 * (i - 1), found, colour, words)
                axes.axhline(0, color="#999999", linewidth=0.8, linestyle="--")
                axes.set_ylim(-1, 1)
                axes.set_title(f"{agent}, {task.replace('_', ' ')}", fontsize=10)
                axes.set_xticks(np.arange(len(steps)), [str(s) for s in steps])
        for axes in grid[-1]:
            axes.set_xlabel("environment steps")
        for line in grid:
            line[0].set_ylabel("rank correlation")
        _legend(figure, grid[0][0], 3)


def _whiskers(axes: Any, at: Any, found: Any, colour: str, words: str, marker: str = "o") -> None:
    around = np.abs(found[:, 1:].T - found[:, 0])
    axes.errorbar(at, found[:, 0], around, color=colour, fmt=marker, markersize=4, capsize=2, linewidth=1, label=words)


def _legend(figure: Any, axes: Any, columns: int) -> None:
    handles, words = axes.get_legend_handles_labels()
    rows = -(-len(words) // columns)
    figure.legend(handles, words, frameon=False, ncols=columns, loc="upper center")
    figure.tight_layout(rect=(0, 0, 1, 0.97 - 0.055 * rows))


@contextmanager
def _figure(path: Path, rows: int, columns: int, size: tuple[float, float]) -> Iterator[tuple[Any, Any]]:
    """An empty figure that is saved as SVG and PNG, the same bytes every time: fixed ids, no date."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams["svg.hashsalt"] = "tdu"
        figure = Figure(figsize=size)
        FigureCanvasAgg(figure)
        grid = figure.subplots(rows, columns, squeeze=False)
        for axes in grid.flat:
            axes.spines[["top", "right"]].set_visible(False)
        yield figure, grid
        figure.savefig(path.with_suffix(".svg"), metadata={"Date": None, "Creator": "tdu"})
        figure.savefig(path.with_suffix(".png"), dpi=100, metadata={"Software": "tdu"})
