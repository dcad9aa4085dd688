"""`tdu plot`: the learning-curve figure of runs and sweeps."""

from pathlib import Path

from tdu.cli.parser import Parser, folder, whole
from tdu.errors import UserError, tell, unknown


def run(arguments: list[str]) -> int:
    parser = Parser(
        "plot",
        "Draw learning curves of runs or sweeps, one panel per environment. A curve is the mean over seeds, with its 95 % "
        "interval from three seeds on. It ends where the first seed ends; a seed that reached its goal keeps its last value.",
    )
    add = parser.add_argument
    add("folders", nargs="+", type=folder, metavar="DIR", help="runs or sweeps")
    add("--out", type=Path, required=True, metavar="FILE", help="figure.svg, .pdf or .png")
    add("--axis", help="the x axis: episodes, steps or seconds (default: steps for a budget of steps, else episodes)")
    words = (
        "the y axis: a column of the log (episode_return, bonus, loss, largest_q …), or greedy_return for the evaluations "
        "of runs with --evaluate-every (default episode_return)"
    )
    add("--metric", default="episode_return", help=words)
    words = "average over the last N episodes (default: 2 %% of the longest run)"
    add("--smooth", type=whole("smooth", 1, 10**9), metavar="N", help=words)
    add("--by-seed", action="store_true", help="draw a line for each seed instead of mean and interval")
    parsed = parser.parse_args(arguments)
    from tdu.report import collect, curves, page_data  # imports JAX
    from tdu.report.figures import is_ours
    from tdu.report.learning_figure import draw

    for kind, name, known in (("axis", parsed.axis, curves.AXES), ("metric", parsed.metric, page_data.METRICS)):
        if name is not None and name not in known:
            raise unknown(kind, name, known)
    if parsed.out.exists() and not is_ours(parsed.out):
        raise UserError(f"{parsed.out} exists and was not drawn by tdu; choose another --out.")
    collected = collect.collect(parsed.folders, with_records=False)
    if not collected.runs:
        raise UserError(
            "there are no runs in these folders; give folders of runs or sweeps (tdu report shows folders of results)."
        )
    how = {"metric": parsed.metric, "window": parsed.smooth, "by_seed": parsed.by_seed}
    draw(collected.runs, parsed.out, axis=parsed.axis, **how)
    print(f"Figure: {parsed.out}.")
    for name, why in collected.left_out.items():
        tell(f"{name} is left out: {why}")
    return 2 if collected.left_out else 0
