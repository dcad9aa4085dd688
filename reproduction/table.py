"""A table of runs: settings as data in, one CSV row per finished run out.

Every run is a `tdu train` in a folder of its own, one process per core. Starting again continues what is missing or was cut
off. Rows of runs that are not in the folder are kept as they stand in the CSV.
"""

import argparse
import csv
import io
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tdu import files
from tdu.errors import UserError
from tdu.report import statistics
from tdu.run import sweeps
from tdu.run.folder import read_json, read_result
from tdu.run.progress import run_jobs
from tdu.run.stored import evaluate
from tdu.run.sweeps import Cell

Row = dict[str, Any]

COLUMNS = (
    "env", "preset", "agent", "options", "seed", "solved_episode", "evaluation", "episodes", "steps", "seconds",
    "steps_per_second",
)  # fmt: skip


class Setting(NamedTuple):
    """One line of the table for people, `seeds` rows of the CSV."""

    env: str
    agent: str
    seeds: int
    preset: str = "paper"
    options: tuple[tuple[str, Any], ...] = ()
    episodes: int = 10_000
    evaluation: int = 0
    """Episodes of the greedy policy after training; 0 for none."""

    def cell(self, seed: int) -> Cell:
        """One of its runs."""
        return Cell(self.env, self.agent, self.preset, self.options, seed=seed, episodes=self.episodes, until="solved")

    def identity(self, seed: int) -> tuple[str, ...]:
        """What tells its rows from others, as text."""
        cell = self.cell(seed)
        return (cell.env, cell.preset, cell.agent, cell.options_text, str(seed))


def every_run(settings: Sequence[Setting]) -> Iterator[tuple[Setting, int]]:
    """Settings with their seeds, in the order in which they are done."""
    for setting in settings:
        for seed in range(setting.seeds):
            yield setting, seed


def rows_of(settings: Sequence[Setting], folder: Path, known: Sequence[Row]) -> list[Row]:
    """A row per finished run in `folder`, and the known rows of the others; in the order of the settings."""
    by_identity = {tuple(r[c] for c in COLUMNS[:5]): r for r in known}
    rows = []
    for setting, seed in every_run(settings):
        identity = setting.identity(seed)
        out = setting.cell(seed).job(folder).out
        row = by_identity.get(identity)
        result = read_result(out)
        if result is not None:
            row = dict(zip(COLUMNS, identity, strict=False))
            row |= {name: getattr(result, name) for name in ("solved_episode", *COLUMNS[7:])}
            row["evaluation"] = _evaluation(out, setting.evaluation)
        if row is not None:
            rows.append(row)
    return rows


def read(path: Path) -> list[Row]:
    """The rows of a table; empty where there is none yet."""
    if not path.exists():
        return []
    with open(path, newline="") as f:
        rows: list[Row] = [{name: row.get(name) or "" for name in COLUMNS} for row in csv.DictReader(f)]
    for row in rows:
        row["solved_episode"] = int(row["solved_episode"]) if row["solved_episode"] else None
        row["evaluation"] = float(row["evaluation"]) if row["evaluation"] else None
    return rows


def write(rows: Sequence[Row], path: Path) -> None:
    """The table as CSV; an unsolved run has an empty `solved_episode`."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_atomically(path, text.getvalue().encode())


def rows_for(setting: Setting, rows: Sequence[Row]) -> list[Row]:
    """The rows of one setting."""
    identities = {setting.identity(seed) for seed in range(setting.seeds)}
    return [r for r in rows if tuple(r[c] for c in COLUMNS[:5]) in identities]


def solved_cells(setting: Setting, rows: Sequence[Row]) -> list[str]:
    """Median and every value of the episode that solved it; `>E` is unsolved after E."""
    words = [str(r["solved_episode"] or f">{r['episodes']}") for r in rows]
    longest = max(int(r["episodes"]) for r in rows)
    median = statistics.median_words([r["solved_episode"] or None for r in rows], longest)
    missing = setting.seeds - len(rows)
    note = f" ({missing} of {setting.seeds} runs missing)" if missing else ""
    return [median, ", ".join(words) + note]


def solved_markdown(settings: Sequence[Setting], rows: Sequence[Row]) -> str:
    """When each setting was solved, a line each."""
    lines = ["| environment | preset | agent | median | every seed |", "|---|---|---|---|---|"]
    for setting in settings:
        mine = rows_for(setting, rows)
        if mine:
            agent = " ".join(filter(None, (setting.agent, setting.cell(0).options_text)))
            lines.append(
                f"| `{setting.env}` | {setting.preset} | {agent} | {' | '.join(solved_cells(setting, mine))} |"
            )
    return "\n".join(lines)


def main(
    settings: Sequence[Setting],
    description: str,
    default: str,
    markdown: Callable[[Sequence[Setting], Sequence[Row]], str] = solved_markdown,
) -> int:
    """The command line of an experiment: runs what is missing and writes the table."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("runs") / default, help="folder of the runs")
    parser.add_argument("--out", type=Path, default=Path("results") / f"{default}.csv", help="the table")
    parser.add_argument("--workers", type=int, help="processes at a time (default: one per core)")
    parser.add_argument("--only-table", action="store_true", help="run nothing, write the table of what is there")
    parser.add_argument("--markdown", action="store_true", help="print the table for people too")
    parsed = parser.parse_args()
    try:
        return _run(settings, parsed, markdown)
    except UserError as e:
        print(f"{parser.prog}: {e}", file=sys.stderr)
        return 2


def _run(
    settings: Sequence[Setting],
    parsed: argparse.Namespace,
    markdown: Callable[[Sequence[Setting], Sequence[Row]], str],
) -> int:
    cells = [setting.cell(seed) for setting, seed in every_run(settings)]
    missing = [] if parsed.only_table else sweeps.missing(cells, parsed.runs)
    outcomes = run_jobs(missing, "auto", workers=parsed.workers)
    rows = rows_of(settings, parsed.runs, read(parsed.out))
    write(rows, parsed.out)
    if parsed.markdown:
        print(markdown(settings, rows))
    failed = [o for o in outcomes if o.code]
    for outcome in failed:
        print(f"{outcome.job.name} failed: {outcome.stderr}", file=sys.stderr)
    return 1 if failed else 0


def _evaluation(out: Path, episodes: int) -> float | None:
    """Mean return of the run's greedy policy; computed once and kept beside the run."""
    if not episodes:
        return None
    path = out / "evaluation.json"
    if not path.exists():
        files.write_atomically(path, json.dumps(evaluate(out, episodes=episodes), indent=1).encode())
    return round(read_json(path)["mean_return"], 4)
