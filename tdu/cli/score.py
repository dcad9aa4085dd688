"""`tdu score`: the results of a sweep."""

import json

from tdu.cli.parser import Parser, folder, number
from tdu.errors import printable, tell


def run(arguments: list[str]) -> int:
    parser = Parser(
        "score",
        "Results of the runs in a folder: return of the trained policies, bsuite's official scores, and for Atari "
        "human-normalised scores and analyses of variance.",
    )
    add = parser.add_argument
    add("folder", metavar="DIR", type=folder, help="the sweep's folder")
    add("--json", action="store_true", help="print JSON")
    add("--published", action="store_true", help="add published scores of other agents")
    words = "folder for figures: bsuite's radar and bars, Atari's learning curves"
    add("--figures", type=folder, metavar="DIR", help=words)
    add("--bsuite-csv", type=folder, metavar="DIR", help="folder for logs in bsuite's format, for its csv_load")
    words = "also report the step at which evaluations first returned R"
    add("--target", type=number("target"), metavar="R", help=words)
    parsed = parser.parse_args(arguments)
    from tdu.report import summary  # imports JAX

    scores = summary.summarise(parsed.folder, parsed.target)
    print(json.dumps(scores, indent=1) if parsed.json else printable(summary.as_text(scores, parsed.published)))
    if parsed.figures:
        for path in summary.write_figures(scores, parsed.figures, published=parsed.published):
            tell(f"drew {path}.")
    if parsed.bsuite_csv:
        count = summary.write_bsuite_csv(parsed.folder, parsed.bsuite_csv)
        tell(f"wrote {count} logs in bsuite's format to {parsed.bsuite_csv}.")
    for name, reason in scores["damaged"].items():
        tell(f"{name} is left out: {reason.rstrip('.')}; move its folder away and run it again.")
    return 2 if scores["damaged"] else 0
