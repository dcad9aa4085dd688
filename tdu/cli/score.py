"""`tdu score`: what a sweep amounts to."""

import json
import sys

from tdu.cli.parser import Parser, folder
from tdu.report import summary


def run(arguments: list[str]) -> int:
    parser = Parser(
        prog="tdu score",
        description="What the runs in a sweep's folder amount to; bsuite's official scores where its ids "
        "were run, human-normalised scores and analyses of variance where Atari's games were.",
        allow_abbrev=False,
    )
    parser.add_argument("folder", metavar="DIR", type=folder, help="the sweep's folder")
    parser.add_argument("--json", action="store_true", help="print it for machines")
    parser.add_argument("--published", action="store_true", help="with the scores that others have published beside it")
    parser.add_argument(
        "--figures", type=folder, metavar="DIR", help="draw bsuite's radar and bars and Atari's learning curves there"
    )
    parser.add_argument(
        "--bsuite-csv", type=folder, metavar="DIR", help="write bsuite's own logs there, for its csv_load"
    )
    parsed = parser.parse_args(arguments)
    scores = summary.summarise(parsed.folder)
    print(json.dumps(scores, indent=1) if parsed.json else summary.as_text(scores, parsed.published))
    if parsed.figures:
        for path in summary.write_figures(scores, parsed.figures, published=parsed.published):
            print(f"tdu: drew {path}.", file=sys.stderr)
    if parsed.bsuite_csv:
        count = summary.write_bsuite_csv(parsed.folder, parsed.bsuite_csv)
        print(f"tdu: wrote {count} logs of bsuite's into {parsed.bsuite_csv}.", file=sys.stderr)
    for name, reason in scores["damaged"].items():
        print(f"tdu: {name} is left out: {reason.rstrip('.')}; move its folder away and run it again.", file=sys.stderr)
    return 2 if scores["damaged"] else 0
