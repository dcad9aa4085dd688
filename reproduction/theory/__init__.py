"""The paper's theory on MDPs with a known posterior: Lemma 1 (a), Theorem 1 (b), Theorem 2 (c), the agents' networks (d).

Each part writes a table; only missing tables are computed. The page and its figures are made from the tables alone.
timing.json has the time of each part when it was last computed, and of all parts if they were computed together.
"""

import csv
import io
import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from reproduction import drawing, origin
from reproduction.theory import agents, figures, statements
from reproduction.theory import page as pages
from reproduction.theory.agents import Training
from reproduction.theory.statements import Advance, TableRow, Workload
from tdu import files
from tdu.errors import UserError, tell, unknown, writing
from tdu.run.processes import use_one_core
from tdu.run.progress import clock


class TheoryPreset(NamedTuple):
    """How much is computed in all parts."""

    sizes: Workload
    training: Training


PRESETS = {
    "laptop": TheoryPreset(
        Workload(
            seeds=5, discounts=(0.5, 0.9, 0.99), transitions=(30, 300), lemma_samples=4000,
            layer_seeds=8, layers=(2, 4, 6), pairs=(*range(1, 25), *range(26, 41, 2)), iterations=400,
            samples=1500, members=200, networks=20, network_steps=600,
        ),
        Training(seeds=5, checkpoints=(200, 400, 800, 1600), samples=500, options={}),
    ),
    "smoke": TheoryPreset(
        Workload(
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
"""The committed tables are of `laptop`; `smoke` is a short check that everything runs."""

TheoryPart = Callable[[TheoryPreset, Advance], Iterator[TableRow]]


def _agents(task: str) -> TheoryPart:
    return lambda preset, progress: agents.rows(task, preset.training, progress)


PARTS: dict[str, TheoryPart] = {
    "lemma1": lambda preset, progress: statements.lemma1(preset.sizes, progress),
    "theorem1": lambda preset, progress: statements.theorem1(preset.sizes, progress),
    "theorem2": lambda preset, progress: statements.theorem2(preset.sizes, progress),
    **{f"agents_{task}": _agents(task) for task in agents.TASKS},
}


def reproduce(out: Path, *, preset: str = "laptop", say: Callable[[str], None] = tell) -> Path:
    """Computes the tables that are missing in `out` and makes the page; returns its path."""
    if preset == "paper":  # the paper has no such tables
        preset = "laptop"
    if preset not in PRESETS:
        raise unknown("preset", preset, PRESETS)
    use_one_core()  # JAX's results depend on the number of cores
    out = Path(out)
    whole = _Stopwatch()
    took = {}
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        _check_settings(out / "settings.json", preset)
        for part, rows in PARTS.items():
            path = out / f"{part}.csv"
            if path.exists():
                say(f"{part}: {path} exists and is kept.")
                continue
            watch = _Stopwatch(part, say)
            write(list(rows(PRESETS[preset], watch)), path)
            took[part] = watch.seconds()
            say(f"{part}: done in {clock(took[part]['wall'])}, {path}.")
        page = draw(out)
        if took:
            _write_timing(out / "timing.json", preset, took, whole.seconds() if len(took) == len(PARTS) else None)
    return page


def draw(out: Path) -> Path:
    """The page and its figures from the tables in `out`."""
    for name in (*(f"{part}.csv" for part in PARTS), "settings.json"):
        if not (out / name).exists():
            raise UserError(f"{out} has no {name}; compute the tables first, in an empty folder or in this one.")
    tables = {part: read(out / f"{part}.csv") for part in PARTS}
    try:
        text = pages.page(tables, json.loads((out / "settings.json").read_text()))
        with writing(out):
            drawing.save(figures.figures(tables), out)
            files.write_atomically(out / "README.md", text.encode())
    except KeyError as e:
        raise UserError(f"tables in {out} have no column {e}: another version made them; use another folder.") from e
    return out / "README.md"


def write(rows: list[TableRow], path: Path) -> None:
    """TableRows as CSV, real numbers with six digits."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)
    files.write_atomically(path, text.getvalue().encode())


def read(path: Path) -> list[TableRow]:
    """TableRows of a table, with numbers parsed."""
    with open(path, newline="") as f:
        return [{name: _number(text) for name, text in row.items()} for row in csv.DictReader(f)]


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _check_settings(path: Path, preset: str) -> None:
    """A folder has the tables of one preset, with its present settings."""
    chosen = PRESETS[preset]
    settings = {"preset": preset, "sizes": chosen.sizes._asdict(), "training": chosen.training._asdict()}
    text = json.dumps(settings, indent=1)
    if not path.exists():
        files.write_atomically(path, f"{text}\n".encode())
    elif json.loads(path.read_text()) != json.loads(text):
        raise UserError(f"{path.parent} has tables of other settings than preset {preset}; choose another folder.")


class _Stopwatch:
    """Seconds since it was made. Called with the share that is done, it prints the time left every five seconds."""

    def __init__(self, part: str = "", say: Callable[[str], None] = tell) -> None:
        self._part, self._say = part, say
        self._began = self._now()
        self._last = self._began["wall"]

    @staticmethod
    def _now() -> dict[str, float]:
        return {"wall": time.monotonic(), "processor": time.process_time()}

    def seconds(self) -> dict[str, float]:
        return {kind: round(now - self._began[kind], 1) for kind, now in self._now().items()}

    def __call__(self, share: float) -> None:
        if time.monotonic() - self._last > 5:
            self._last = time.monotonic()
            left = clock(self.seconds()["wall"] * (1 - share) / share) if share else "?"
            self._say(f"{self._part}: {share:.0%}, about {left} left")


def _write_timing(path: Path, preset: str, took: TableRow, whole: TableRow | None) -> None:
    """The time of each part. Parts that were not computed keep their time, and then there is no time of the whole."""
    before = json.loads(path.read_text())["seconds"] if path.exists() and whole is None else {}
    timing = {
        "command": f"tdu reproduce theory --preset {preset}",
        "machine": {
            "processor": origin.processor(), "cores": os.cpu_count() or 1, "cores_used": 1,
            "python": platform.python_version(),
        },
        "seconds": {part: took.get(part, before.get(part)) for part in PARTS},
        "seconds_uninterrupted": whole,
    }  # fmt: skip
    files.write_atomically(path, f"{json.dumps(timing, indent=1)}\n".encode())
