"""`tdu sweep`: many runs in one folder."""

import functools
from pathlib import Path

from tdu import agents
from tdu.cli.output import announce_compiling, tell_failed
from tdu.cli.parser import Parser, add_length, add_preset, add_watch, folder, watch_arguments, whole
from tdu.errors import UserError, tell
from tdu.options import DEFAULT_AGENT, TRACKERS, describe

_EXAMPLES = """\
examples:
  tdu sweep bsuite --agent tdu                              all of bsuite, one process per core
  tdu sweep deep_sea --agent tdu --agent bdqn --seeds 3     all 21 sizes
  tdu sweep deep_sea:size=20 --grid beta=0,1,3 --grid prior_scale=0,3
  tdu sweep bsuite:testing --episodes 50 --engine ray       the same on Ray
  tdu score sweeps/bsuite --figures figures                 its scores
"""


def _refuse(left: list[str], parser: Parser, names: list[str]) -> None:
    """Refuses unknown arguments; an agent's option is given as a grid."""
    option = left[0].removeprefix("--").partition("=")[0].replace("-", "_")
    if any(option in {name for name, *_ in describe(agents.find(agent).config)} for agent in names):
        raise UserError(f"{left[0]} is an option of the agent; in a sweep, write --grid {option}=VALUE,VALUE…")
    raise UserError(f"unexpected argument '{left[0]}'; see tdu sweep --help.")


def run(arguments: list[str]) -> int:
    parser = Parser(
        "sweep",
        "Train every agent on every environment with every value of the grid and every seed, in one folder. "
        "The same command again continues missing and interrupted runs.",
        _EXAMPLES,
    )
    add = parser.add_argument
    add(
        "targets", nargs="+", metavar="TARGET",
        help="an environment id; a bsuite experiment (deep_sea: all its settings); bsuite: all 468 settings; bsuite:testing "
        "or bsuite:TAG: a part of bsuite; atari:exploration, atari:ablation or atari:57: sets of Atari games",
    )  # fmt: skip
    add("--agent", action="append", help="an agent, or your own: python:MODULE:NAME; may be given several times")
    add_preset(parser)
    add("--seeds", type=whole("seeds", 1, 10**6), default=1, help="seeds 0 … SEEDS-1 of every run (default 1)")
    words = "values of an option; may be given several times"
    add("--grid", action="append", default=[], metavar="NAME=V,V", help=words)
    add("--paper-grid", action="store_true", help="try the values that the paper tried for each agent")
    add_length(parser, "each environment's")
    add_watch(parser)
    add("--track", choices=TRACKERS, help="also log to TensorBoard or Weights & Biases (default: only log.csv)")
    words = "begin with one setting of every experiment; a sweep that was stopped then has some of each"
    add("--spread", action="store_true", help=words)
    add("--out", type=folder, metavar="DIR", help="the sweep's folder (default sweeps/…)")
    add(
        "--engine", choices=("local", "ray"), default="local", help="run on this machine (local, the default) or on Ray"
    )
    words = "the Ray cluster's address (default: a cluster is started on this machine)"
    add("--address", action="append", help=words)
    add("--workers", type=whole("workers", 1, 10**6), help="runs at a time (default: one per core)")
    words = "how to show progress (default auto)"
    add("--progress", choices=("auto", "plain", "none"), default="auto", help=words)
    parsed, left = parser.parse_known_args(arguments)
    if left:
        _refuse(left, parser, parsed.agent or [DEFAULT_AGENT])
    from tdu.run import processes, progress, recording, sweeps, track  # imports JAX
    from tdu.run.folder import make_folder
    from tdu.run.plan import refuse_unevaluated, refuse_without_ray

    refuse_without_ray(parsed.engine, address=parsed.address)
    if parsed.address and len(parsed.address) > 1:
        raise UserError(f"a sweep runs on one cluster, not on {' and '.join(parsed.address)}; give one --address.")
    if parsed.address and parsed.workers is not None:
        raise UserError(
            "--workers is for this machine; leave it out, because the cluster at --address runs one run per core."
        )
    if parsed.grid and parsed.paper_grid:
        raise UserError("give either --grid or --paper-grid, not both.")
    track.check(parsed.track, parsed.targets)
    refuse_unevaluated(parsed.until_return, parsed.evaluate_every)
    planned: dict[str, sweeps.Cell] = {}
    for agent in dict.fromkeys(parsed.agent or [DEFAULT_AGENT]):
        agents.find(agent)
        if parsed.record or parsed.record_every:
            recording.check(agent)
        grids = agents.paper_grids(agent) if parsed.paper_grid else [sweeps.parse_grid(parsed.grid)]
        for grid in grids:
            for cell in sweeps.plan(
                parsed.targets, [agent], seeds=parsed.seeds, grid=dict(grid), preset=parsed.preset,
                episodes=parsed.episodes, steps=parsed.steps, num_envs=parsed.num_envs, until=parsed.until or "mastered",
                until_return=parsed.until_return, success_return=parsed.success_return,
            ):  # fmt: skip
                planned.setdefault(cell.config().digest(), cell)
    cells = sweeps.spread(list(planned.values())) if parsed.spread else list(planned.values())
    out = parsed.out or Path("sweeps") / sweeps.file_name(parsed.targets[0])
    jobs = sweeps.missing(cells, out)
    jobs = [job._replace(arguments=[*job.arguments, *watch_arguments(parsed)]) for job in jobs]
    if len(jobs) < len(cells):
        tell(f"{len(cells) - len(jobs)} of {len(cells)} runs are finished already.")
    engine: progress.Engine = processes.run_all
    if parsed.engine == "ray" and jobs:
        from tdu.cluster import sweep as distributed

        engine = functools.partial(distributed.run_all, address=parsed.address and parsed.address[0])
    make_folder(out)
    if parsed.engine == "local":
        announce_compiling(len(jobs), parsed.progress)
    outcomes = progress.run_jobs(jobs, parsed.progress, workers=parsed.workers, engine=engine)
    failed = tell_failed(outcomes)
    done = len(cells) - failed
    print(f"{done} of {len(cells)} runs are in {out}{f'; see tdu score {out}' if done else ''}.")
    return 1 if failed else 0
