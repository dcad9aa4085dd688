"""The theory's figures, from its tables and nothing else: the same tables give the same bytes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from reproduction.theory.agents import AGENTS, TASKS
from reproduction.theory.page import TRACKS, Rows, Tables, agents_of, correlation, median, share, share_outside, where
from reproduction.theory.statements import BIAS_FAMILIES, DISTRIBUTIONS, FAMILIES, READINGS

COLOURS = ("#1f4e9c", "#d1495b", "#4d9a5f", "#e0912f", "#7a4fa3")


def figures(tables: Tables, out: Path) -> None:
    """lemma1, theorem1, theorem2 and agents, each as SVG and PNG."""
    _draw_lemma1(tables["lemma1"], out)
    _draw_theorem1(tables["theorem1"], out)
    _draw_theorem2(tables["theorem2"], out)
    _draw_agents(agents_of(tables), out)


def _draw_lemma1(rows: Rows, out: Path) -> None:
    with _figure(out / "lemma1", 1, 2, (10.0, 4.0)) as (figure, ((left, right),)):
        for axes, moment in ((left, "mean"), (right, "variance")):
            for i, (reading, colour) in enumerate(zip(READINGS, COLOURS, strict=False)):
                mine = [where(rows, moment=moment, reading=reading, family=family) for family in FAMILIES]
                at = np.arange(len(FAMILIES)) + (i - 1) * 0.27
                heights = [max(median(one, "relative_residual"), 2e-4) for one in mine]
                axes.bar(at, heights, 0.25, color=colour, label=f"{reading} (0 to rounding)" if i == 2 else reading)
                if i < 2:
                    errors = [median(one, "relative_error") for one in mine]
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
                medians = [median(where(rows, n=n, equation=equation, pairs=pairs), "residual") for pairs in counts]
                axes.plot(counts, np.maximum(medians, 1e-16), color=colour, marker=".", label=equation)
            for limit, words in ((n, "n"), (n * (n + 1) // 2, "n(n+1)/2"), (n * n, "n²")):
                axes.axvline(limit + 0.5, color="#999999", linewidth=0.8, linestyle="--")
                if limit <= counts[-1]:
                    axes.text(limit + 0.6, 2e-16, words, rotation=90, va="bottom", color="#666666", fontsize=8)
            axes.set_yscale("log")
            axes.set_ylim(1e-16, 10)
            axes.set_xlim(0, min(counts[-1], 1.5 * n * n) + 1)
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
        left.legend(frameon=False, loc="lower left", ncols=2)
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
                    _whiskers(axes, np.arange(len(steps)) + 0.06 * (i - 1.5), found, colour, words)
                axes.axhline(0, color="#999999", linewidth=0.8, linestyle="--")
                axes.set_ylim(-1, 1)
                axes.set_title(f"{agent}, {task.replace('_', ' ')}", fontsize=10)
                axes.set_xticks(np.arange(len(steps)), [str(s) for s in steps])
        for axes in grid[-1]:
            axes.set_xlabel("environment steps")
        for line in grid:
            line[0].set_ylabel("rank correlation")
        _legend(figure, grid[0][0], 4)


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
