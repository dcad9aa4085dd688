"""`tdu plot`: a figure of learning curves with a panel for each environment and a line with its interval for each agent."""

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tdu.errors import UserError
from tdu.report import curves, figures, page_data, palette
from tdu.report.collect import StoredRun, budget_axis, groups

KINDS = (".svg", ".pdf", ".png")
_DASHES: tuple[str | tuple[int, tuple[int, ...]], ...]
_DASHES = ("-", "--", ":", "-.", (0, (5, 1)), (0, (1, 1)), (0, (3, 1, 1, 1)), (0, (8, 2)))


def draw(
    shown: Sequence[StoredRun],
    path: Path,
    *,
    axis: str | None = None,
    metric: str,
    window: int | None = None,
    by_seed: bool = False,
) -> None:
    """Draws the figure. The default axis is the budget's unit; the default window is a fiftieth of the longest run."""
    if path.suffix not in KINDS:
        raise UserError(f"{path} must end with {', '.join(KINDS[:-1])} or {KINDS[-1]}.")
    every = {key: [page_data.drawn_seed(r) for r in seeds if r.has_episodes] for key, seeds in groups(shown).items()}
    drawn_seeds = {key: having for key, some in every.items() if (having := [s for s in some if metric in s.log])}
    if not drawn_seeds:
        if metric == page_data.GREEDY:
            raise UserError(f"no run here has evaluations for {metric}; train with --evaluate-every.")
        words = page_data.METRICS[metric]
        raise UserError(f"these runs have no finished episode with a value of {words}; there is nothing to draw.")
    environments = list(dict.fromkeys(env for env, _ in drawn_seeds))
    colours = palette.assign(agent for _, agent in drawn_seeds)
    columns = min(len(environments), 3)
    rows = math.ceil(len(environments) / columns)
    figure = Figure(figsize=(1.2 + 4.6 * columns, 0.6 + 3.2 * rows), layout="constrained")
    panels = figures.grid_of(figure, len(environments), rows, columns)
    for env, panel in zip(environments, panels, strict=True):
        here = axis or budget_axis([run for run in shown if run.config.env == env])
        at, drawn, within = _curves({a: own for (e, a), own in drawn_seeds.items() if e == env}, metric, here, window)
        for agent, own in drawn.items():
            _line(panel, at, own, agent, colours[agent], within, by_seed)
        ends = curves.limits([own.kept for own in drawn.values()], within)
        if ends is not None and ends[0] < ends[1]:
            margin = 0.04 * (ends[1] - ends[0])
            panel.set_ylim(ends[0] - margin, ends[1] + margin)
        panel.set(title=textwrap.shorten(env, 80), xlabel=here, ylabel=page_data.METRICS[metric])
        panel.title.set_fontsize(10)
    entries: dict[str, Artist] = {}
    for panel in panels:
        for handle, name in zip(*panel.get_legend_handles_labels(), strict=True):
            entries.setdefault(name, handle)
    names, handles = list(entries), list(entries.values())
    letters = int((figure.get_figwidth() - 0.8) / _LETTER)
    beside = max(1, min(3, len(names), letters // (max(map(len, names)) + 6)))
    wrapped = [textwrap.fill(name, max(letters, 20)) for name in names]
    figure.legend(handles, wrapped, frameon=False, loc="outside lower center", ncols=beside)
    figures.save(figure, path, dpi=150)


_LETTER = 0.085  # Width of a letter in inches, to keep the legend inside the figure


def _curves(
    groups_here: dict[str, list[curves.Seed]], metric: str, axis: str, window: int | None
) -> tuple[np.ndarray, dict[str, curves.Curves], curves.Bounds]:
    """The places of a panel, the curves of each agent's seeds there, and the bounds of their intervals."""
    every = [seed.log for seeds in groups_here.values() for seed in seeds]
    at = curves.grid(every, axis)
    smoothed = 1 if metric in page_data.UNSMOOTHED else window or curves.usual_window(every)
    drawn = {a: curves.of_group(seeds, metric, axis, at, smoothed) for a, seeds in groups_here.items()}
    return at, drawn, curves.bounds(log[metric] for log in every)


def _line(
    panel: Axes, at: np.ndarray, drawn: curves.Curves, agent: str, colour_of: str, within: curves.Bounds, by_seed: bool
) -> None:
    colour = palette.COLOURS[colour_of].light
    dash = _DASHES[list(palette.COLOURS).index(colour_of) % len(_DASHES)]
    if by_seed:
        for i, one in enumerate(drawn.own):
            panel.plot(at, one, color=colour, linestyle=dash, linewidth=1, alpha=0.7, label=agent if i == 0 else None)
        return
    if 1 < len(drawn.own) < curves.FEWEST:
        panel.plot(at, drawn.own.T, color=colour, linewidth=0.8, alpha=0.45)
    band = curves.band(drawn.kept, within)
    seeds = f" ({len(drawn.own)} seeds)" if len(drawn.own) > 1 else ""
    marker = "o" if np.isfinite(band.mean).sum() == 1 else ""  # a line of one point is invisible
    panel.plot(at, band.mean, color=colour, linestyle=dash, marker=marker, linewidth=1.8, label=agent + seeds)
    if np.isfinite(band.low).any():
        panel.fill_between(at, band.low, band.high, color=colour, alpha=0.18, linewidth=0)
