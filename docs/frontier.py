"""The moving picture at the top of README.md, from runs that have recorded.

tdu sweep deep_sea:size=16 --agent tdu --agent bdqn --agent dqn --episodes 300 --no-stop --record-every 3 --out frontier
python docs/frontier.py frontier docs/frontier.gif
"""

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from tdu import files
from tdu.reporting.collect import Shown, collect
from tdu.reporting.films import gif

PANEL, MARGIN, TITLE, FOOT, FRAMES, MILLISECONDS = 264, 14, 44, 30, 90, 90
INK, FAINT, PAPER, OUTSIDE = (28, 33, 38), (91, 100, 109), (255, 255, 255), (236, 239, 242)
STOPS = np.array([(38, 26, 92), (62, 74, 148), (33, 104, 140), (40, 160, 124), (140, 205, 80), (253, 240, 130)], float)
FONT = f"{mpl.get_data_path()}/fonts/ttf/DejaVuSans.ttf"
NAMES = {"tdu": "TDU", "bdqn": "Bootstrapped DQN", "dqn": "DQN, ε-greedy"}


def main(folder: str, out: str) -> None:
    """Draws every run of a folder side by side."""
    found = {run.config.agent: run for run in collect([Path(folder)]).runs if run.record and run.record.about["map"]}
    shown = [found[agent] for agent in NAMES if agent in found]
    last = max(run.record.snapshots[-1]["episode"] for run in shown)
    panels = [panel(run) for run in shown]
    episodes = np.unique(np.linspace(0, last, FRAMES).round().astype(int))
    frames = [np.asarray(picture(panels, int(episode), len(shown))) for episode in episodes]
    data = gif(frames, MILLISECONDS)
    files.write_atomically(Path(out), data)
    print(f"{out}: {len(frames)} frames, {len(data) / 1e6:.2f} MB")


def panel(run: Shown) -> dict:
    """What is drawn of a run: σ where at least two can disagree, else the visits since the moment before."""
    record = run.record
    about = record.about["map"]
    has_sigma = "sigma" in about["layers"]
    layer = record.maps("sigma") if has_sigma else record.maps("visits").sum(axis=1)
    layer = np.asarray(layer, float)
    positive = layer[layer > 0]
    high = np.quantile(positive, 0.999)
    low = max(positive.min(), high / (300 if has_sigma else 100))
    parts = np.where(layer > 0, np.log(np.maximum(layer, low) / low) / np.log(high / low), -1.0)
    what = "σ, the disagreement about TD errors" if has_sigma else "where it goes"
    return {
        "title": NAMES[run.config.agent], "what": what, "parts": np.clip(parts, -1, 1), "about": about,
        "episodes": np.asarray([s["episode"] for s in record.snapshots]), "paths": [s["path"] for s in record.snapshots],
    }  # fmt: skip


def picture(panels: list[dict], episode: int, count: int) -> Image.Image:
    """All panels at one episode."""
    image = Image.new("RGB", (count * PANEL + (count + 1) * MARGIN, TITLE + PANEL + FOOT), PAPER)
    pen = ImageDraw.Draw(image)
    for i, one in enumerate(panels):
        left = MARGIN + i * (PANEL + MARGIN)
        frame = int(np.searchsorted(one["episodes"], episode, side="right")) - 1
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
    """Dark is little, light is much."""
    at = part * (len(STOPS) - 1)
    i = min(int(at), len(STOPS) - 2)
    red, green, blue = STOPS[i] + (at - i) * (STOPS[i + 1] - STOPS[i])
    return round(red), round(green), round(blue)


if __name__ == "__main__":
    main(*sys.argv[1:])
