"""The paper's theory, checked where the truth is known: Lemma 1 (a), Theorem 1 (b), Theorem 2 (c), the agents' networks (d).

python -m reproduction.theory --out results/theory

Each part leaves a table of rows; starting again computes only the tables that are missing. The page and its figures are made
from the tables alone. timing.json says how long each part took where it was computed last, and all of them, if at one go.
"""

import argparse
import csv
import io
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from reproduction import origin
from reproduction.theory import agents, figures, statements
from reproduction.theory import page as pages
from reproduction.theory.agents import Training
from reproduction.theory.statements import Row, Sizes, Tell
from tdu import files
from tdu.errors import UserError, tell, unknown, writing
from tdu.run.processes import use_one_core
from tdu.run.progress import clock

Say = Callable[[str], None]


class Preset(NamedTuple):
    """How much is computed in all parts."""

    sizes: Sizes
    training: Training


PRESETS = {
    "laptop": Preset(
        Sizes(
            seeds=5, discounts=(0.5, 0.9, 0.99), transitions=(30, 300), lemma_samples=4000,
            layer_seeds=8, layers=(2, 4, 6), pairs=(*range(1, 25), *range(26, 41, 2)), iterations=400,
            samples=1500, members=200, networks=20, network_steps=600,
        ),
        Training(seeds=5, checkpoints=(200, 400, 800, 1600), samples=500, options={}),
    ),
    "smoke": Preset(
        Sizes(
            seeds=2, discounts=(0.9,), transitions=(40,), lemma_samples=400,
            layer_seeds=2, layers=(2,), pairs=(1, 2, 3, 4, 5), iterations=50,
            samples=100, members=30, networks=3, network_steps=10,
        ),
        Training(
            seeds=2, checkpoints=(100, 200), samples=50,
            options={"hidden_sizes": (8,), "exploiters": 3, "batch_size": 8, "min_replay": 16},
        ),
    ),
}  # fmt: skip
"""`laptop` is what is committed; `smoke` shows that all of it runs."""

Part = Callable[[Preset, Tell], Iterator[Row]]


def _agents(task: str) -> Part:
    return lambda preset, tell: agents.rows(task, preset.training, tell)


PARTS: dict[str, Part] = {
    "lemma1": lambda preset, tell: statements.lemma1(preset.sizes, tell),
    "theorem1": lambda preset, tell: statements.theorem1(preset.sizes, tell),
    "theorem2": lambda preset, tell: statements.theorem2(preset.sizes, tell),
    **{f"agents_{task}": _agents(task) for task in agents.TASKS},
}


def reproduce(out: Path, *, preset: str = "laptop", say: Say = tell) -> Path:
    """Computes the tables that are missing in `out` and draws the page anew; the page."""
    if preset == "paper":  # which has no such tables: the same
        preset = "laptop"
    if preset not in PRESETS:
        raise unknown("preset", preset, PRESETS)
    use_one_core()  # so that what JAX computes does not depend on how many there are
    out = Path(out)
    whole = _Stopwatch()
    took = {}
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        _same_settings(out / "settings.json", preset)
        for part, rows in PARTS.items():
            path = out / f"{part}.csv"
            if path.exists():
                say(f"{part}: {path} is there and kept.")
                continue
            progress, watch = _Progress(part, say), _Stopwatch()
            write(list(rows(PRESETS[preset], progress)), path)
            took[part] = watch.seconds()
            say(f"{part}: done in {clock(progress.seconds)}, {path}.")
        page = draw(out)
        if took:
            at_one_go = whole.seconds() if len(took) == len(PARTS) else None
            _write_timing(out / "timing.json", preset, took, at_one_go)
    return page


def draw(out: Path) -> Path:
    """The page and its figures from the tables in `out`."""
    tables = {}
    for part in PARTS:
        if not (out / f"{part}.csv").exists():
            raise UserError(f"{out} has no {part}.csv; compute it first.")
        tables[part] = read(out / f"{part}.csv")
    if not (out / "settings.json").exists():
        raise UserError(f"{out} has no settings.json, which says of what its tables are; compute them anew elsewhere.")
    page = out / "README.md"
    try:
        text = pages.page(tables, json.loads((out / "settings.json").read_text()))
        with writing(out):
            figures.figures(tables, out)
            files.write_atomically(page, text.encode())
    except KeyError as e:
        raise UserError(
            f"tables in {out} have no column {e}: another version made them; compute them anew elsewhere."
        ) from e
    return page


def write(rows: list[Row], path: Path) -> None:
    """Rows as CSV, real numbers with six digits."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)
    files.write_atomically(path, text.getvalue().encode())


def read(path: Path) -> list[Row]:
    """Rows of a table, numbers as numbers."""
    with open(path, newline="") as f:
        return [{name: _number(text) for name, text in row.items()} for row in csv.DictReader(f)]


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _same_settings(path: Path, preset: str) -> None:
    """A folder holds the tables of one preset, as it is now."""
    chosen = PRESETS[preset]
    settings = {"preset": preset, "sizes": chosen.sizes._asdict(), "training": chosen.training._asdict()}
    text = json.dumps(settings, indent=1)
    if path.exists():
        if json.loads(path.read_text()) != json.loads(text):
            raise UserError(
                f"{path.parent} holds tables of other settings than preset {preset}; choose another folder."
            )
    else:
        files.write_atomically(path, f"{text}\n".encode())


class _Stopwatch:
    """Seconds since it was made, on the wall and of this process."""

    def __init__(self) -> None:
        self._began = time.monotonic(), time.process_time()

    def seconds(self) -> dict[str, float]:
        now = time.monotonic(), time.process_time()
        wall, processor = (round(after - before, 1) for after, before in zip(now, self._began, strict=True))
        return {"wall": wall, "processor": processor}


def _write_timing(path: Path, preset: str, took: Row, whole: Row | None) -> None:
    """What each part took; parts that were kept keep what is said of them, and then there is no time of the whole."""
    before = json.loads(path.read_text())["seconds"] if path.exists() and whole is None else {}
    told = {
        "command": f"tdu reproduce theory --preset {preset}",
        "machine": {
            "processor": origin.processor(), "cores": os.cpu_count() or 1, "cores_used": 1,
            "python": platform.python_version(),
        },
        "seconds": {part: took.get(part, before.get(part)) for part in PARTS},
        "seconds_of_the_whole_at_one_go": whole,
    }  # fmt: skip
    files.write_atomically(path, f"{json.dumps(told, indent=1)}\n".encode())


class _Progress:
    """A line every few seconds, with the time that is left."""

    def __init__(self, part: str, say: Say):
        self._part, self._say = part, say
        self._began = self._last = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def __call__(self, share: float) -> None:
        if time.monotonic() - self._last > 5:
            self._last = time.monotonic()
            left = clock(self.seconds * (1 - share) / share) if share else "?"
            self._say(f"{self._part}: {share:.0%}, about {left} left")


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--out", type=Path, default=Path("results") / "theory", help="folder of the tables and the page"
    )
    parser.add_argument("--preset", default="laptop", help=f"how much: {', '.join(PRESETS)}")
    parser.add_argument("--only-page", action="store_true", help="compute nothing, draw the page from the tables")
    parsed = parser.parse_args()
    try:
        print(draw(parsed.out) if parsed.only_page else reproduce(parsed.out, preset=parsed.preset))
    except UserError as e:
        print(f"{parser.prog}: {e}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
