"""When TDU and BDQN solve Deep Sea and the Binary Tree: the numbers behind docs/results.md.

    python -m tdu.experiments.core --runs runs/core --out results/core.csv
    python -m tdu.experiments.core --only-table --markdown

Every run is a `tdu train` in a folder of its own; starting the command again continues what is missing or was cut off.
The table holds what has finished so far.
"""

import argparse
import csv
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tdu import checkpoints
from tdu.progress import run_jobs
from tdu.runners.parallel import Job
from tdu.runs import read_json

EPISODES = 10_000
"""Runs are censored here, as in bsuite."""

AGENTS = ("tdu", "bdqn")


class Setting(NamedTuple):
    """One line of the table: an environment and a set of defaults, with how many seeds."""

    env: str
    preset: str
    seeds: int


SETTINGS = (
    *(Setting(f"deep_sea:size={n}", "paper", 3) for n in (10, 20, 30)),
    *(Setting(f"binary_tree:depth={n}", "paper", 3) for n in (50, 100)),
    *(Setting(f"deep_sea:size={n},stochastic=true", "paper", 5) for n in (20, 30)),
    *(Setting(f"deep_sea:size={n},stochastic=true", "boot_dqn", 5) for n in (20, 30)),
    *(Setting(f"deep_sea:size={n}", "paper", 3) for n in (40, 50)),
)

COLUMNS = ("env", "preset", "agent", "seed", "solved_episode", "episodes", "steps", "seconds", "steps_per_second")


def jobs(folder: Path) -> Iterator[Job]:
    """One job per run, in the order in which they are done."""
    for setting in SETTINGS:
        for agent in AGENTS:
            for seed in range(setting.seeds):
                name = f"{setting.env} {setting.preset} {agent} {seed}"
                arguments = [setting.env, "--agent", agent, "--preset", setting.preset, "--seed", str(seed)]
                arguments += ["--episodes", str(EPISODES), "--resume"]
                yield Job(name, arguments, folder / name.replace(" ", "-").replace(":", "-"))


def table(folder: Path) -> list[dict[str, Any]]:
    """A row per finished run."""
    rows = []
    for job in jobs(folder):
        path = job.out / "result.json"
        if path.exists():
            result = read_json(path)
            preset = job.name.split()[1]
            rows.append({name: (result | {"preset": preset})[name] for name in COLUMNS})
    return rows


def write_table(rows: list[dict[str, Any]], path: Path) -> None:
    """The table as CSV; an unsolved run has an empty `solved_episode`."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    checkpoints.write_atomically(path, text.getvalue().encode())


def markdown(rows: list[dict[str, Any]]) -> str:
    """Median and every value of the episode that solved it, a line per setting and agent; `>E` is unsolved after E."""
    lines = ["| environment | preset | agent | median | every seed |", "|---|---|---|---|---|"]
    for setting in SETTINGS:
        for agent in AGENTS:
            mine = [r for r in rows if (r["env"], r["preset"], r["agent"]) == (setting.env, setting.preset, agent)]
            if mine:
                words = [str(r["solved_episode"] or f">{r['episodes']}") for r in mine]
                median = sorted(mine, key=lambda r: r["solved_episode"] or 10**9)[(len(mine) - 1) // 2]
                middle = median["solved_episode"] or f">{median['episodes']}"
                missing = setting.seeds - len(mine)
                note = f" ({missing} of {setting.seeds} runs missing)" if missing else ""
                cells = [f"`{setting.env}`", setting.preset, agent, str(middle), ", ".join(words) + note]
                lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> int:
    """Runs what is missing and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("runs/core"), help="folder of the runs")
    parser.add_argument("--out", type=Path, default=Path("results/core.csv"), help="the table")
    parser.add_argument("--workers", type=int, help="processes at a time (default: one per core)")
    parser.add_argument("--only-table", action="store_true", help="run nothing, write the table of what is there")
    parser.add_argument("--markdown", action="store_true", help="print the table for people too")
    parsed = parser.parse_args()
    missing = [job for job in jobs(parsed.runs) if not (job.out / "result.json").exists()]
    outcomes = [] if parsed.only_table else run_jobs(missing, "auto", workers=parsed.workers)
    rows = table(parsed.runs)
    if rows or not parsed.only_table:
        write_table(rows, parsed.out)
    elif parsed.out.exists():  # no runs here: read the committed table instead of replacing it
        with open(parsed.out, newline="") as f:
            rows = [r | {"solved_episode": int(r["solved_episode"] or 0) or None} for r in csv.DictReader(f)]
    if parsed.markdown:
        print(markdown(rows))
    failed = [o for o in outcomes if o.code]
    for outcome in failed:
        print(f"{outcome.job.name} failed: {outcome.words}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
