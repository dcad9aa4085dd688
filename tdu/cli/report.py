"""`tdu report`: one page of runs, sweeps and results."""

import time
from pathlib import Path

from tdu.cli.parser import Parser, folder
from tdu.errors import tell


def run(arguments: list[str]) -> int:
    parser = Parser(
        "report",
        "One self-contained HTML page: results, learning curves, acting heads, configurations and tables; maps of "
        "exploration for runs trained with --record; the film of each run that has a film.gif (tdu watch).",
    )
    add, several = parser.add_argument, "a run, a sweep, or a folder of results/; several may be given"
    add("folders", nargs="+", type=folder, metavar="DIR", help=several)
    add("--out", type=Path, metavar="FILE", help="the page (default: report.html in the first folder)")
    add("--title", help="the page's title")
    parsed = parser.parse_args(arguments)
    from tdu.report import page  # imports JAX

    began = time.perf_counter()
    out = parsed.out or parsed.folders[0] / "report.html"
    left_out = page.save(parsed.folders, out, parsed.title)
    size, seconds = out.stat().st_size / 1e6, time.perf_counter() - began
    print(f"Page: {out} ({size:.1f} MB, {seconds:.1f} s). Open it in a browser; it needs no network.")
    for name, why in left_out.items():
        tell(f"{name} is left out: {why}")
    return 2 if left_out else 0
