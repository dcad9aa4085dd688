"""The animation of docs/gallery.md, from recorded runs.

tdu sweep deep_sea:size=16 --agent tdu --agent bdqn --agent dqn --episodes 300 --until budget --record-every 3 --out frontier
python docs/frontier.py frontier docs/frontier.gif
"""

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from tdu import files
from tdu.report.collect import StoredRun, collect
from tdu.report.films import gif

PANEL, MARGIN, TITLE, FOOT, STEP, MILLISECONDS = 264, 14, 44, 30, 3, 90
INK, FAINT, PAPER, OUTSIDE = (28, 33, 38), (91, 100, 109), (255, 255, 255), (236, 239, 242)
STOPS = np.array([(38, 26, 92), (62, 74, 148), (33, 104, 140), (40, 160, 124), (140, 205, 80), (253, 240, 130)], float)
FONT = f"{mpl.get_data_path()}/fonts/ttf/DejaVuSans.ttf"
NAMES = {"tdu": "TDU", "bdqn": "Bootstrapped DQN", "dqn": "DQN, ε-greedy"}


def main(folder: str, out: str) -> None:
    """Draws every run of a folder side by side."""
    found = {run.config.agent: run for run in collect([Path(folder)]).runs if run.record and run.record.about["map"]}
    shown = [found[agent] for agent in NAMES if agent in found]
    last = max(run.record.snapshots[-1]["episode"] for run in shown)
    episodes = np.arange(0, last + 1, STEP)
    panels = [panel(run, episodes) for run in shown]
    frames = [np.asarray(picture(panels, i, int(episode))) for i, episode in enumerate(episodes)]
    data = gif(frames, MILLISECONDS)
    files.write_atomically(Path(out), data)
    print(f"{out}: {len(frames)} frames, {len(data) / 1e6:.2f} MB")


def panel(run: StoredRun, episodes: np.ndarray) -> dict:
    """The map of a run in every frame: σ, or the visits since the last frame for an agent with one value function."""
    record = run.record
    about = record.about["map"]
    at = np.searchsorted([s["episode"] for s in record.snapshots], episodes, side="right") - 1
    has_sigma = "sigma" in about["layers"]
    if has_sigma:
        layer = np.asarray(record.maps("sigma"), float)[at]
    else:
        so_far = np.cumsum(record.maps("visits").sum(axis=1, dtype=float), axis=0)[at]
        layer = np.diff(so_far, axis=0, prepend=0)
    positive = layer[layer > 0]
    high = np.quantile(positive, 0.999)
    low = max(positive.min(), high / (300 if has_sigma else 100))
    parts = np.where(layer > 0, np.log(np.maximum(layer, low) / low) / np.log(high / low), -1.0)
    what = "σ, the disagreement about TD errors" if has_sigma else "where it goes"
    return {
        "title": NAMES[run.config.agent], "what": what, "parts": np.clip(parts, -1, 1), "about": about,
        "paths": [record.snapshots[i]["path"] for i in at],
    }  # fmt: skip


def picture(panels: list[dict], frame: int, episode: int) -> Image.Image:
    """All panels at one episode."""
    count = len(panels)
    image = Image.new("RGB", (count * PANEL + (count + 1) * MARGIN, TITLE + PANEL + FOOT), PAPER)
    pen = ImageDraw.Draw(image)
    for i, one in enumerate(panels):
        left = MARGIN + i * (PANEL + MARGIN)
        about = one["about"]
        size = PANEL / about["columns"]
        pen.text((left, 4), one["title"], INK, font=ImageFont.truetype(FONT, 16))
        pen.text((left, 25), one["what"], FAINT, font=ImageFont.truetype(FONT, 12))
        pen.rectangle((left, TITLE, left + PANEL, TITLE + PANEL), OUTSIDE)

        def middle(
            cell: int, left: int = left, size: float = size, columns: int = about["columns"]
        ) -> tuple[float, float]:
            return left + (cell % columns + 0.5) * size, TITLE + (cell // columns + 0.5) * size

        for cell, part in zip(about["cells"], one["parts"][frame], strict=True):
            x, y = middle(cell)
            box = (x - size / 2, y - size / 2, x + size / 2 - 1, y + size / 2 - 1)
            pen.rectangle(box, shade(part) if part >= 0 else PAPER)
        path = [middle(about["cells"][s]) for s in one["paths"][frame]]
        if len(path) > 1:
            pen.line(path, (0, 0, 0), 5, joint="curve")
            pen.line(path, (255, 255, 255), 2, joint="curve")
        x, y = middle(about["goal"])
        pen.ellipse((x - 6, y - 6, x + 6, y + 6), (255, 255, 255), (0, 0, 0), 2)
        pen.ellipse((x - 2, y - 2, x + 2, y + 2), (0, 0, 0))
    pen.text((MARGIN, TITLE + PANEL + 7), f"episode {episode}", INK, font=ImageFont.truetype(FONT, 14))
    words = "light: much, dark: little; white line: the greedy path; ring: the chest"
    pen.text((MARGIN + 130, TITLE + PANEL + 8), words, FAINT, font=ImageFont.truetype(FONT, 12))
    return image


def shade(part: float) -> tuple[int, int, int]:
    """Colours from dark (small) to light (large)."""
    at = part * (len(STOPS) - 1)
    i = min(int(at), len(STOPS) - 2)
    red, green, blue = STOPS[i] + (at - i) * (STOPS[i + 1] - STOPS[i])
    return round(red), round(green), round(blue)


if __name__ == "__main__":
    main(*sys.argv[1:])
