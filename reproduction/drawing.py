"""Figures that are the same bytes whenever they are drawn from the same numbers: no dates, no random ids."""

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reproduction.statistics import Episodes
from tdu import files
from tdu.errors import writing

COLOURS = {"tdu": "#0b6e4f", "bdqn": "#3b6fb6"}
GREYS = ("#8a8a8a", "#b08a3e", "#a05a8a", "#5aa0a0")

if TYPE_CHECKING:  # matplotlib is imported only to draw
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Figure

Drawing = Callable[[], "Figure"]


def figure(width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> "tuple[Figure, Any]":
    """A figure outside pyplot, and its axes."""
    from matplotlib.figure import Figure

    new = Figure(figsize=(width, height), layout="constrained")
    axes = new.subplots(rows, columns, **options)
    for one in axes.flat if hasattr(axes, "flat") else [axes]:
        if "top" in one.spines:  # polar axes have none
            one.spines[["top", "right"]].set_visible(False)
    return new, axes


def save(drawings: Mapping[str, Drawing], folder: Path) -> list[Path]:
    """Draws each figure as SVG and PNG, with matplotlib's default settings."""
    import matplotlib as mpl

    paths = []
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams["svg.hashsalt"] = "tdu"
        for name, draw in drawings.items():
            drawn = draw()
            for kind, metadata in (("svg", {"Date": None, "Creator": "tdu"}), ("png", {"Software": "tdu"})):
                path, data = folder / f"{name}.{kind}", io.BytesIO()
                drawn.savefig(data, format=kind, dpi=130, metadata=metadata)
                text = (
                    b"\n".join(line.rstrip() for line in data.getvalue().split(b"\n"))
                    if kind == "svg"
                    else data.getvalue()
                )
                with writing(path):
                    files.write_atomically(path, text)
                paths.append(path)
    return paths


def runs(
    axes: "Axes", at: float, group: Sequence[Episodes], *, colour: str, label: str | None = None, above: float = 5
) -> None:
    """Runs at one place: dots for solved ones, a hollow triangle for unsolved ones.

    If several are unsolved, their number is `above` the triangle, in points.
    """
    solved = [e.episode for e in group if e.solved]
    unsolved = [e.episode for e in group if not e.solved]
    axes.plot([at] * len(solved), solved, "o", color=colour, markersize=4.2, alpha=0.75, label=label, markeredgewidth=0)
    axes.plot([at] * len(unsolved), unsolved, "^", color=colour, markersize=6, markerfacecolor="none")
    if len(unsolved) > 1:
        where: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "fontsize": 6, "color": colour}
        axes.annotate(f"×{len(unsolved)}", (at, max(unsolved)), (0, above), **where)


def legend(axes: "Axes", size: float = 9, **options: Any) -> None:
    """A legend without a frame, if anything has a label."""
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=size, **options)


def plain_numbers(axes: "Axes") -> None:
    """Ticks of a short logarithmic axis at 1, 2 and 5 times a power of ten, as plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
