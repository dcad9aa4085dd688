"""Pictures: bsuite's radar and bars, and learning curves, as in the paper."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tdu import files
from tdu.errors import writing
from tdu.report import palette

ORDER = (
    "bandit", "mnist", "catch", "mountain_car", "cartpole",
    "bandit_noise", "mnist_noise", "catch_noise", "mountain_car_noise", "cartpole_noise",
    "bandit_scale", "mnist_scale", "catch_scale", "mountain_car_scale", "cartpole_scale",
    "deep_sea", "deep_sea_stochastic", "cartpole_swingup",
    "umbrella_length", "umbrella_distract", "discounting_chain", "memory_len", "memory_size",
)  # fmt: skip
"""Experiments from the simplest to memory, as bsuite shows them."""


def radar(scores: Mapping[str, Mapping[str, float | None]], path: Path) -> None:
    """A polygon for each agent over the tags' mean scores."""
    tags = sorted({tag for by_tag in scores.values() for tag in by_tag})
    angles = np.linspace(0, 2 * np.pi, len(tags), endpoint=False)
    figure = _figure(7.5, 6.5)
    axes = figure.subplots(subplot_kw={"polar": True})
    for i, (colour, (agent, by_tag)) in enumerate(zip(_colours(scores), scores.items(), strict=True)):
        values = [max(by_tag.get(tag) or 0.0, 0.02) for tag in tags]
        width = 2.2 + 1.2 * min(len(scores) - 1 - i, 3)  # the first are wider, so that equal ones are visible
        axes.plot([*angles, angles[0]], [*values, values[0]], color=colour, linewidth=width, label=agent)
        axes.fill(angles, values, color=colour, alpha=0.08)
    axes.set_ylim(0, 1)
    axes.set_yticks([0.25, 0.5, 0.75, 1.0], [".25", ".5", ".75", "1"], color="#666666")
    axes.set_xticks(angles, [tag.replace("_", " ") for tag in tags])
    axes.tick_params(axis="x", pad=8)
    for text, angle in zip(axes.get_xticklabels(), angles, strict=True):
        across = np.cos(angle)
        text.set_horizontalalignment("center" if abs(across) < 0.1 else "left" if across > 0 else "right")
    rows = _legend(figure, scores, "lower center")
    figure.subplots_adjust(bottom=0.12 + 0.04 * rows, top=0.92)
    save(figure, path)


def bars(
    scores: Mapping[str, Mapping[str, float | None]], labels: Mapping[str, str], path: Path, faint: Sequence[str] = ()
) -> None:
    """A bar for each agent and each experiment that `labels` has a name for; those of `faint` agents in pale colours."""
    experiments = [name for name in ORDER if name in labels]
    width = 0.8 / max(len(scores), 1)
    figure = _figure(min(max(8.0, 0.7 * len(experiments) + 2), 17.0), 5.0)
    axes = figure.subplots()
    for i, (colour, (agent, by_name)) in enumerate(zip(_colours(scores), scores.items(), strict=True)):
        at = np.arange(len(experiments)) + (i - (len(scores) - 1) / 2) * width
        heights = np.array([by_name.get(name) for name in experiments], float)  # NaN for None
        axes.bar(at, heights, width, color=colour, label=agent, alpha=0.45 if agent in faint else 1.0)
    axes.axhline(1, color="#999999", linewidth=0.8, linestyle="--")
    axes.set_xticks(np.arange(len(experiments)), [labels[n] for n in experiments], rotation=40, ha="right")
    axes.set_ylim(0, 1.05)
    axes.set_ylabel("bsuite score (of the settings run)" if any("(" in x for x in labels.values()) else "bsuite score")
    axes.spines[["top", "right"]].set_visible(False)
    rows = _legend(figure, scores, "upper center")
    figure.tight_layout(rect=(0, 0, 1, 0.99 - 0.05 * rows))
    save(figure, path)


Curves = dict[str, tuple[np.ndarray, ...]]  # x, middle, low and high for each agent


def curves(
    panels: Mapping[str, Curves], lines: Mapping[str, Mapping[str, float]], path: Path, *, xlabel: str, ylabel: str
) -> None:
    """A panel each with a curve (x, middle, low, high) for every agent, and dashed lines for the levels of others."""
    columns = min(max(len(panels), 1), 4)
    rows = math.ceil(max(len(panels), 1) / columns)
    figure = _figure(max(4.2 * columns, 6.0), 3.2 * rows + 0.6)
    grid = grid_of(figure, len(panels), rows, columns)
    agents = list(dict.fromkeys(agent for drawn in panels.values() for agent in drawn))
    others = list(dict.fromkeys(name for drawn in lines.values() for name in drawn))
    colours = dict(zip(agents, _colours(agents), strict=True))
    handles: dict[str, Artist] = {}
    for axes, (title, drawn) in zip(grid, panels.items(), strict=True):
        for agent, (x, middle, low, high) in drawn.items():
            marker = "." if len(x) < 2 else ""
            (handles[agent],) = axes.plot(x, middle, color=colours[agent], linewidth=1.8, marker=marker)
            axes.fill_between(x, low, high, color=colours[agent], alpha=0.15, linewidth=0)
        for name, level in lines.get(title, {}).items():
            style = _DASHES[others.index(name) % len(_DASHES)]
            handles[name] = axes.axhline(level, color="#777777", linewidth=0.9, linestyle=style)
        axes.set_title(title.replace("_", " "), fontsize=10)
        axes.set(xlabel=xlabel, ylabel=ylabel)
    order = {name: handles[name] for name in (*agents, *others) if name in handles}
    rows = _legend(figure, order, "upper center", order.values())
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.28 * rows / figure.get_figheight()))
    save(figure, path)


def grid_of(figure: Figure, count: int, rows: int, columns: int) -> list[Axes]:
    """Panels without a frame above and on the right; those of the grid beyond `count` are hidden."""
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for i, panel in enumerate(panels):
        panel.spines[["top", "right"]].set_visible(False)
        panel.set_visible(i < count)
    return panels[:count]


_DASHES = ("--", ":", "-.", (0, (1, 3)))


def is_ours(path: Path) -> bool:
    """Whether a picture was drawn here."""
    try:
        data = files.read_bytes(path, _MAX_BYTES)
    except OSError:
        return False
    return any(data.startswith(start) and sign in data for start, sign in _SIGNED)


_MAX_BYTES = 2**26
_SIGNED = (
    (b"\x89PNG", b"Software\x00tdu"), (b"%PDF", b"/Creator (tdu)"), (b"<?xml", b"<dc:title>tdu</dc:title>"),
)  # fmt: skip
"""The beginning of a file of each kind, and what the metadata say in those drawn here."""
_METADATA = {".svg": "Creator", ".pdf": "Creator", ".png": "Software"}


def save(figure: Figure, path: Path, dpi: int = 120) -> None:
    """Writes a figure that `is_ours` recognises."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=dpi, metadata={_METADATA[path.suffix]: "tdu"})


def _legend(
    figure: Figure,
    names: Collection[str],
    place: Literal["upper center", "lower center"],
    handles: Iterable[Artist] | None = None,
) -> int:
    """The legend, in as many columns as the figure is wide enough for; how many rows it has."""
    columns = max(1, min(len(names), int(figure.get_figwidth() / (0.75 + 0.095 * max(map(len, names), default=0)))))
    which = {} if handles is None else {"handles": [*handles], "labels": [*names]}
    figure.legend(frameon=False, ncols=columns, loc=place, **which)
    return math.ceil(len(names) / columns)


def _colours(agents: Iterable[str]) -> list[str]:
    return [palette.COLOURS[name].light for name in palette.assign(agents).values()]


def _figure(width: float, height: float) -> Figure:
    mpl.rcdefaults()  # bsuite's own analysis restyles every figure when it is imported
    return Figure(figsize=(width, height))
