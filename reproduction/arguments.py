"""The arguments of `tdu reproduce`. Importing this file does not import JAX, so that `--help` starts quickly."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from tdu.cli.parser import Parser, folder, number, whole

PRESETS = {"laptop": "a smaller grid", "paper": "the grid as published"}

SCRATCH = Path("runs") / "reproduce"
RESULTS = Path("results")

_EXAMPLES = """\
examples:
  tdu reproduce                               lists the experiments, what is done and how long the rest may take
  tdu reproduce deep_sea --hours 2            makes missing runs for two hours
  tdu reproduce deep_sea --preset paper       the grid as published
  tdu reproduce deep_sea --agent cts --agent rnd  only the missing runs of these agents
  tdu reproduce bsuite --env 'bandit*'        only those on environments that match
  tdu reproduce all                           everything, the most valuable runs first (make evidence)
  tdu reproduce deep_sea --pages              tables, figures and verdict from the existing rows; no training
"""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The arguments of `tdu reproduce`."""
    parser = Parser(
        "reproduce",
        "Makes the paper's figures from the rows in results/NAME/runs.csv. Only runs without a row are made. "
        "After an interruption the same command continues.",
        _EXAMPLES,
    )
    presets = " or ".join(f"{name}: {words}" for name, words in PRESETS.items())
    add, default = parser.add_argument, f"(default {SCRATCH})"
    add("names", nargs="*", metavar="NAME", help="an experiment of the list that tdu reproduce shows, or all")
    add("--preset", default="laptop", help=f"{presets} (default laptop)")
    add("--agent", action="append", metavar="AGENT", help="only runs of this agent; can be repeated")
    add(
        "--env",
        action="append",
        metavar="PATTERN",
        help="only runs on environments that match; * and ?; can be repeated",
    )
    add("--hours", type=number("hours"), metavar="H", help="stop after H hours; nothing is lost")
    add("--jobs", type=whole("jobs", 1, 10**6), default=1, help="parallel runs (default 1)")
    add("--engine", choices=("local", "ray"), default="local", help="where runs are made (default local)")
    add("--address", help="address of a Ray cluster; without it one is started on this machine")
    add("--pages", action="store_true", help="no training: only the pages, from the existing rows")
    add("--results", type=folder, metavar="DIR", default=RESULTS, help="rows and pages (default results)")
    add("--runs", type=folder, metavar="DIR", default=SCRATCH, help=f"folders of the runs {default}")
    add("--progress", choices=("auto", "plain", "none"), default="auto", help="how to show progress (default auto)")
    return parser.parse_args(arguments)
