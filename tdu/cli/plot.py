"""`tdu plot`: the learning-curve figure of runs and sweeps."""

import sys
from pathlib import Path

from tdu.cli.parser import Parser, folder, whole
from tdu.errors import UserError
from tdu.report import collect, curves, page_data
from tdu.report.learning_figure import draw, is_ours


def run(arguments: list[str]) -> int:
    parser = Parser(
        prog="tdu plot",
        description="Learning curves of any runs or sweeps: the mean over seeds with its 95 % interval (thin where not "
        "every seed gets so far), a panel for each environment.",
        allow_abbrev=False,
    )
    parser.add_argument("folders", nargs="+", type=folder, metavar="DIR", help="runs or sweeps")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="figure.svg, .pdf or .png")
    parser.add_argument(
        "--axis", choices=tuple(curves.AXES), default="episodes", help="what lies across (default episodes)"
    )
    parser.add_argument(
        "--metric",
        choices=tuple(page_data.METRICS),
        default="episode_return",
        help="what is drawn (default episode_return; greedy_return is what --evaluate-every found)",
    )
    parser.add_argument(
        "--smooth", type=whole("smooth", 1, 10**9), metavar="N",
        help="mean of the last N episodes (default: a fiftieth of the longest run)",
    )  # fmt: skip
    parser.add_argument("--by-seed", action="store_true", help="a line for each seed in place of mean and interval")
    parsed = parser.parse_args(arguments)
    if parsed.out.exists() and not is_ours(parsed.out):
        raise UserError(f"{parsed.out} is there already and not drawn by tdu; choose another --out.")
    collected = collect.collect(parsed.folders, with_records=False)
    if not collected.runs:
        raise UserError("there are no runs in these folders to draw; tdu report shows results.")
    draw(
        collected.runs, parsed.out, axis=parsed.axis, metric=parsed.metric, window=parsed.smooth, by_seed=parsed.by_seed
    )
    print(f"Figure: {parsed.out}.")
    for name, why in collected.left_out.items():
        print(f"tdu: {name} is left out: {why}", file=sys.stderr)
    return 2 if collected.left_out else 0
