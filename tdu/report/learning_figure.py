"""The learning-curve figure of a paper: a panel for each environment, a line with its interval for each agent."""

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tdu.errors import UserError, writing
from tdu.report import curves, page_data
from tdu.report.collect import Shown
from tdu.report.figures import COLOURS

KINDS = (".svg", ".pdf", ".png")
SOME = "thin: some seeds have ended"
_DASHES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (5, 1)), (0, (1, 1)), (0, (3, 1, 1, 1)), (0, (8, 2)))


def draw(
    shown: Sequence[Shown], path: Path, *, axis: str, metric: str, window: int | None = None, by_seed: bool = False
) -> None:
    """Draws the figure; `window` episodes are averaged, or a fiftieth of the longest run."""
    if path.suffix not in KINDS:
        raise UserError(f"{path} names no kind of figure; end it with {', '.join(KINDS)}.")
    grouped = {
        key: logs
        for key, seeds in page_data.groups(shown).items()
        if (logs := [log for run in seeds if metric in (log := page_data.drawn_log(run)) and len(log["episode"])])
    }
    if not grouped:
        if metric == page_data.GREEDY:
            raise UserError(
                f"no run here has evaluations to draw {metric} of; train with --evaluate-every to have them."
            )
        raise UserError(
            f"no episode with {page_data.METRICS[metric]} has ended in these runs, so there is nothing to draw."
        )
    from matplotlib.figure import Figure

    environments = list(dict.fromkeys(env for env, _ in grouped))
    agents = list(dict.fromkeys(agent for _, agent in grouped))
    columns = min(len(environments), 3)
    rows = math.ceil(len(environments) / columns)
    figure = Figure(figsize=(1.2 + 4.6 * columns, 0.6 + 3.2 * rows), layout="constrained")
    panels = np.ravel(np.asarray(figure.subplots(rows, columns, squeeze=False)))
    for panel in panels[len(environments) :]:
        panel.set_visible(False)
    for env, panel in zip(environments, panels, strict=False):
        mine = {agent: logs for (other, agent), logs in grouped.items() if other == env}
        every = [log for logs in mine.values() for log in logs]
        at = curves.grid(every, axis)
        its_window = 1 if metric in page_data.UNSMOOTHED else window or curves.usual_window(every)
        drawn = {
            agent: np.stack([curves.curve(log, metric, axis, at, its_window) for log in logs])
            for agent, logs in mine.items()
        }
        for agent, own in drawn.items():
            _line(panel, at, own, agent, agents.index(agent), by_seed)
        ends = curves.limits(list(drawn.values()))
        if ends is not None and ends[0] < ends[1]:
            margin = 0.04 * (ends[1] - ends[0])
            panel.set_ylim(ends[0] - margin, ends[1] + margin)
        panel.set(title=env, xlabel=axis, ylabel=page_data.METRICS[metric])
        panel.title.set_fontsize(10)
        panel.spines[["top", "right"]].set_visible(False)
    entries: dict[str, Any] = {}
    for panel in panels[: len(environments)]:
        for handle, name in zip(*panel.get_legend_handles_labels(), strict=True):
            entries.setdefault(name, handle)
    if SOME in entries:
        entries[SOME] = entries.pop(SOME)  # last
    names, handles = list(entries), list(entries.values())
    letters = int((figure.get_figwidth() - 0.8) / _LETTER)
    beside = max(1, min(3, len(names), letters // (max(map(len, names)) + 6)))
    wrapped = [textwrap.fill(name, max(letters, 20)) for name in names]
    figure.legend(handles, wrapped, frameon=False, loc="outside lower center", ncols=beside)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150, metadata={_SIGNED_AS[path.suffix]: "tdu"})


_LETTER = 0.085
"""Inches, so that a legend is not wider than its figure."""
_SIGNED_AS = {".svg": "Creator", ".pdf": "Creator", ".png": "Software"}


def is_ours(path: Path) -> bool:
    """Whether a figure was drawn here."""
    try:
        data = path.read_bytes()
    except OSError:
        return False
    return any(sign in data for sign in (b"<dc:title>tdu", b">tdu<", b"Software\x00tdu", b"/Creator (tdu)"))


def _line(panel: Any, at: np.ndarray, own: np.ndarray, agent: str, number: int, by_seed: bool) -> None:
    colour, dash = COLOURS[number % len(COLOURS)], _DASHES[number % len(_DASHES)]
    if by_seed:
        for i, one in enumerate(own):
            panel.plot(at, one, color=colour, linestyle=dash, linewidth=1, alpha=0.7, label=agent if i == 0 else None)
        return
    band = curves.band(own)
    seeds = f" ({len(own)} seeds)" if len(own) > 1 else ""
    point = "o" if np.isfinite(band.mean).sum() == 1 else ""  # a line of one point is not seen
    panel.plot(at, band.of_all(), color=colour, linestyle=dash, marker=point, linewidth=1.8, label=agent + seeds)
    some = band.of_some()
    if np.isfinite(some).any():
        panel.plot(at, some, color=colour, linestyle=dash, linewidth=0.8, alpha=0.6)
        panel.plot([], [], color="grey", linewidth=0.8, label=SOME)
    if np.isfinite(band.low).any():
        panel.fill_between(at, band.low, band.high, color=colour, alpha=0.18, linewidth=0)
