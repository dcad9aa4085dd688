"""The command line: `tdu train`, `tdu list`, `tdu demo`. A user's mistake is one sentence on stderr and exit code 2."""

import argparse
import functools
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from tdu import agents, demo, environments, options, runs, sweeps, track
from tdu import progress as displays
from tdu.environments import bsuite
from tdu.errors import UserError, unknown
from tdu.evaluate import evaluate
from tdu.reporting import summary
from tdu.runners import parallel
from tdu.train import plan, train

_EXAMPLES = """\
examples:
  tdu train deep_sea:size=20                        watch TDU find the one good policy in 2^20
  tdu train deep_sea:size=20 --agent bdqn --seeds 8   eight seeds, one process per core
  tdu train binary_tree:depth=100 --beta 2          any option of the agent is a flag
  tdu train bsuite:catch/0 --out runs/catch         bsuite's official environment, stepwise
  tdu train deep_sea:size=20 --out DIR --resume     go on where a run was cut off
  tdu train --agent bdqn --help                     that agent's options
  tdu list                                          agents and environments
"""


_SWEEP_EXAMPLES = """\
examples:
  tdu sweep bsuite --agent tdu                              the whole of bsuite, one process per core
  tdu sweep deep_sea --agent tdu --agent bdqn --seeds 3     all 21 sizes
  tdu sweep deep_sea:size=20 --grid beta=0,1,3 --grid prior_scale=0,3
  tdu sweep bsuite:testing --episodes 50 --engine ray       the same on Ray
  tdu score sweeps/bsuite --figures figures                 what it amounts to
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; see {self.prog} --help.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _dispatch(arguments)
    except UserError as e:
        print(f"tdu: {e}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        hints = {
            "train": "; continue with the same command and --resume",
            "sweep": "; continue with the same command",
        }
        hint = hints.get(arguments[0], "") if arguments else ""
        print(f"tdu: interrupted{hint}.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 1


def _dispatch(arguments: list[str]) -> int:
    commands = {
        "train": _train, "evaluate": _evaluate, "sweep": _sweep, "score": _score, "list": _list, "demo": _demo,
        "mnist": _mnist,
    }  # fmt: skip
    parser = _Parser(
        prog="tdu",
        description="Deep exploration in reinforcement learning: an ensemble of value functions in which explorers "
        "are paid for the disagreement of exploiters about the TD error of each transition.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=_version())
    parser.add_argument(
        "command",
        metavar="command",
        help="train (an agent on an environment), evaluate (what a run has learned), sweep (many runs), score (what a "
        "sweep amounts to), list (agents and environments), demo (TDU beside two others on one hard task), mnist (where "
        "bsuite's MNIST experiments find their data)",
    )
    if not arguments:
        parser.print_help()
        return 0
    if arguments[0].startswith("-"):
        parser.parse_args(arguments)
    if arguments[0] not in commands:
        raise unknown("command", arguments[0], commands)
    return commands[arguments[0]](arguments[1:])


def _train(arguments: list[str]) -> int:
    parsed, given = _parse_train(arguments)
    if parsed.seeds is not None:
        return _train_seeds(parsed, given, arguments)
    out = Path(parsed.out) if parsed.out else default_out(parsed.env, parsed.agent, parsed.seed)
    settings = _settings(parsed, given)
    if parsed.resume:
        settings = _with_stored(out, settings, arguments)
    parallel.use_one_core()
    shown, close = displays.display(parsed.progress, f"{settings['agent']} seed {settings['seed']}")
    try:
        run = train(
            **settings,
            out=out,
            resume=parsed.resume,
            checkpoint_seconds=parsed.checkpoint_seconds,
            progress=shown,
            compiling=_announce_compilation if parsed.progress in ("auto", "plain") else None,
            say=lambda words: print(f"tdu: {words}", file=sys.stderr),
            track=parsed.track,
        )
    finally:
        close()
    if parsed.progress != "json":
        print(displays.summary(run.result) + f" Everything is in {out}.")
    return 0


def _announce_compilation() -> None:
    print("tdu: compiling, which takes some seconds …", file=sys.stderr)


def _train_seeds(parsed: argparse.Namespace, given: dict[str, Any], arguments: list[str]) -> int:
    if parsed.seeds < 1:
        raise UserError(f"seeds must be at least 1, not {parsed.seeds}.")
    out = Path(parsed.out) if parsed.out else default_out(parsed.env, parsed.agent, None)
    plan(**_settings(parsed, given))
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file; choose another --out.")
    if not parsed.resume and out.exists() and any(out.iterdir()):
        raise UserError(f"{out} already exists; add --resume to continue it, or choose another --out.")
    shared = _without(arguments, ("--seeds", "--out", "--progress"))
    jobs = [parallel.Job(f"seed {k}", [*shared, "--seed", str(k)], out / f"seed_{k}") for k in range(parsed.seeds)]
    outcomes = displays.run_jobs(jobs, parsed.progress)
    for outcome in outcomes:
        if outcome.code == 0 and outcome.result:
            print(displays.summary(outcome.result))
        if outcome.code == 0 and outcome.words:
            print(f"{outcome.job.name}: {outcome.words}", file=sys.stderr)
    failed = [o for o in outcomes if o.code]
    for outcome in failed:
        print(f"tdu: {outcome.job.name} failed: {outcome.words or outcome.code}", file=sys.stderr)
    print(f"{len(outcomes) - len(failed)} of {len(outcomes)} runs are in {out}.")
    return max((o.code if o.code > 0 else 1 for o in failed), default=0)


def _parse_train(arguments: list[str]) -> tuple[argparse.Namespace, dict[str, Any]]:
    """The command's own arguments, and the agent's options as texts by name."""
    chooser = _Parser(add_help=False, allow_abbrev=False)
    chooser.add_argument("--agent", default="tdu")
    agent = chooser.parse_known_args(arguments)[0].agent
    entry = agents.find(agent)
    parser = _Parser(
        prog="tdu train",
        description="Train an agent on an environment.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        epilog=_EXAMPLES,
    )
    parser.add_argument("env", metavar="ENV", help="environment id, e.g. deep_sea:size=20 (see tdu list)")
    parser.add_argument("--agent", default="tdu", help=f"one of {', '.join(agents.AGENTS)} (default tdu)")
    parser.add_argument("--preset", default="paper", help="set of defaults: paper or boot_dqn (default paper)")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--seed", type=int, default=0, help="seed of everything random (default 0)")
    which.add_argument("--seeds", type=int, help="run seeds 0 … SEEDS-1, one process per core")
    parser.add_argument("--episodes", type=int, help="at most so many episodes (default: the environment's)")
    parser.add_argument("--out", metavar="DIR", help="the run's folder (default runs/…)")
    parser.add_argument("--resume", action="store_true", help="continue the run in that folder")
    parser.add_argument(
        "--no-stop", dest="stop", action="store_false", help="go on after the environment counts as solved"
    )
    parser.add_argument("--checkpoint-seconds", type=float, default=60.0, help="time between checkpoints (default 60)")
    parser.add_argument(
        "--progress", choices=("auto", "plain", "json", "none"), default="auto", help="how to show progress"
    )
    parser.add_argument("--track", choices=track.KINDS, help="log every episode there too (default: only log.csv)")
    group = parser.add_argument_group(f"options of agent {agent}")
    fields = options.describe(entry.config)
    for name, kind, default, words in fields:
        shown = ",".join(map(str, default)) if isinstance(default, tuple) else default
        how: Any = {"metavar": kind if "|" in kind else "X"}
        if kind == "true|false":
            how = {"action": argparse.BooleanOptionalAction}
        group.add_argument(
            f"--{name.replace('_', '-')}",
            dest=f"option_{name}",
            help=f"{words} (default {str(shown).lower() if isinstance(default, bool) else shown})".replace("%", "%%"),
            **how,
        )
    parsed, rest = parser.parse_known_args(arguments)
    for word in rest:
        if word.startswith("--"):
            known = [a for action in parser._actions for a in action.option_strings]
            raise unknown(f"option of tdu train with agent {agent}", word.split("=")[0], known)
    if rest:
        raise UserError(f"unexpected argument '{rest[0]}'; see tdu train --help.")
    given = {f[0]: v for f in fields if (v := getattr(parsed, f"option_{f[0]}")) is not None}
    return parsed, given


def _settings(parsed: argparse.Namespace, given: dict[str, Any]) -> dict[str, Any]:
    names = ("env", "agent", "seed", "episodes", "stop", "preset")
    return {name: getattr(parsed, name) for name in names} | given


def _without(arguments: list[str], names: tuple[str, ...]) -> list[str]:
    """The arguments without those options and their values."""
    kept, skip = [], False
    for word in arguments:
        if skip:
            skip = False
        elif word in names:
            skip = True
        elif word.split("=")[0] not in names:
            kept.append(word)
    return kept


def _with_stored(out: Path, settings: dict[str, Any], arguments: list[str]) -> dict[str, Any]:
    """Settings to resume with: what was typed, and the folder's own config for everything that was not."""
    path = out / "config.json"
    if not path.exists():
        return settings
    found = runs.read_config(out)
    typed = {word.split("=")[0] for word in arguments}
    stored = {name: found[name] for name in ("agent", "seed", "episodes") if f"--{name}" not in typed}
    if "--no-stop" not in typed:
        stored["stop"] = found["stop"]
    same_agent = settings["agent"] == found["agent"] or "agent" in stored
    if same_agent and "--preset" not in typed:
        stored |= {k: v for k, v in found["config"].items() if f"--{k.replace('_', '-')}" not in typed}
    return settings | stored


def _evaluate(arguments: list[str]) -> int:
    parser = _Parser(
        prog="tdu evaluate",
        description="Play episodes with a run's agent, greedily on the mean value over its exploiters, without learning.",
        allow_abbrev=False,
    )
    parser.add_argument("run", metavar="RUN", help="the run's folder")
    parser.add_argument("--episodes", type=int, default=200, help="how many (default 200)")
    parser.add_argument("--seed", type=int, default=0, help="of the episodes; apart from the training's (default 0)")
    parser.add_argument("--json", action="store_true", help="print it for machines")
    parsed = parser.parse_args(arguments)
    parallel.use_one_core()
    found = evaluate(parsed.run, episodes=parsed.episodes, seed=parsed.seed)
    if parsed.json:
        print(json.dumps(found))
    else:
        print(
            f"{found['agent']} seed {found['seed']} on {found['env']}: mean return {found['mean_return']:.3f} ± "
            f"{found['standard_error']:.3f} over {found['episodes']} episodes "
            f"({found['min_return']:.3f} to {found['max_return']:.3f})."
        )
    return 0


def _sweep(arguments: list[str]) -> int:
    parser = _Parser(
        prog="tdu sweep",
        description="Many runs in one folder: every environment with every agent, every value of the grid and every seed. "
        "Starting it again continues what is missing or was cut off.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        epilog=_SWEEP_EXAMPLES,
    )
    parser.add_argument(
        "targets", nargs="+", metavar="TARGET",
        help="an environment id; a bsuite experiment (deep_sea: all its settings); bsuite: all 468; bsuite:testing or "
        "bsuite:TAG: a part of it",
    )  # fmt: skip
    parser.add_argument("--agent", action="append", help="an agent; may be given several times (default tdu)")
    parser.add_argument("--preset", default="paper", help="set of defaults: paper or boot_dqn (default paper)")
    parser.add_argument("--seeds", type=int, default=1, help="seeds 0 … SEEDS-1 of everything (default 1)")
    parser.add_argument(
        "--grid",
        action="append",
        default=[],
        metavar="NAME=V,V",
        help="values of an option; may be given several times",
    )
    parser.add_argument("--paper-grid", action="store_true", help="the grid of the paper's table 3 for each agent")
    parser.add_argument("--episodes", type=int, help="at most so many episodes (default: each environment's)")
    parser.add_argument("--no-stop", dest="stop", action="store_false", help="go on after an environment is solved")
    parser.add_argument("--out", type=Path, metavar="DIR", help="the sweep's folder (default sweeps/…)")
    parser.add_argument("--engine", choices=("local", "ray"), default="local", help="where it runs (default local)")
    parser.add_argument("--address", help="of a Ray cluster; without it one is started on this machine")
    parser.add_argument("--workers", type=int, help="runs at a time (default: one per core)")
    parser.add_argument(
        "--progress", choices=("auto", "plain", "none"), default="auto", help="how to show progress (default auto)"
    )
    parsed = parser.parse_args(arguments)
    if parsed.address and parsed.engine != "ray":
        raise UserError("--address is a Ray cluster's; add --engine ray.")
    if parsed.workers is not None:
        options.whole_number("workers", parsed.workers, 1, 10**6)
    if parsed.grid and parsed.paper_grid:
        raise UserError("--grid and --paper-grid are two grids; give one of them.")
    cells: list[sweeps.Cell] = []
    for agent in parsed.agent or ["tdu"]:
        agents.find(agent)
        grid = agents.GRIDS[agent] if parsed.paper_grid else sweeps.parse_grid(parsed.grid)
        cells += sweeps.plan(
            parsed.targets, [agent], seeds=parsed.seeds, grid=dict(grid), preset=parsed.preset,
            episodes=parsed.episodes, stop=parsed.stop,
        )  # fmt: skip
    out = parsed.out or Path("sweeps") / re.sub(r"[^A-Za-z0-9=.,_]+", "-", parsed.targets[0])
    jobs = sweeps.missing(cells, out)
    if len(jobs) < len(cells):
        print(f"tdu: {len(cells) - len(jobs)} of {len(cells)} runs are there already.", file=sys.stderr)
    engine: displays.Engine = parallel.run_all
    if parsed.engine == "ray" and jobs:
        from tdu.runners import distributed

        engine = functools.partial(distributed.run_all, address=parsed.address)
    runs.make_folder(out)
    outcomes = displays.run_jobs(jobs, parsed.progress, workers=parsed.workers, engine=engine)
    failed = [o for o in outcomes if o.code]
    for outcome in failed:
        print(f"tdu: {outcome.job.name} failed: {outcome.words.removeprefix('tdu: ') or outcome.code}", file=sys.stderr)
    print(f"{len(cells) - len(failed)} of {len(cells)} runs are in {out}; see tdu score {out}.")
    return 2 if failed else 0


def _score(arguments: list[str]) -> int:
    parser = _Parser(
        prog="tdu score",
        description="What the runs in a sweep's folder amount to; bsuite's official scores where its ids were run.",
        allow_abbrev=False,
    )
    parser.add_argument("folder", metavar="DIR", type=Path, help="the sweep's folder")
    parser.add_argument("--json", action="store_true", help="print it for machines")
    parser.add_argument("--published", action="store_true", help="with the scores that others have published beside it")
    parser.add_argument("--figures", type=Path, metavar="DIR", help="draw bsuite's radar and bars there")
    parser.add_argument(
        "--bsuite-csv", type=Path, metavar="DIR", help="write bsuite's own logs there, for its csv_load"
    )
    parsed = parser.parse_args(arguments)
    found = summary.summarise(parsed.folder)
    print(json.dumps(found, indent=1) if parsed.json else summary.as_text(found, parsed.published))
    if parsed.figures:
        for path in summary.write_figures(found, parsed.figures, published=parsed.published):
            print(f"tdu: drew {path}.", file=sys.stderr)
    if parsed.bsuite_csv:
        count = summary.write_bsuite_csv(parsed.folder, parsed.bsuite_csv)
        print(f"tdu: wrote {count} logs of bsuite's into {parsed.bsuite_csv}.", file=sys.stderr)
    return 0


def _mnist(arguments: list[str]) -> int:
    _Parser(prog="tdu mnist", description="Say where bsuite's MNIST experiments find their data.").parse_args(arguments)
    folder = bsuite.digits_folder()
    print(
        f"bsuite's MNIST experiments read four files from {folder}\n(or from the folder that TDU_MNIST names):\n\n  "
        + "\n  ".join(f"{'found    ' if (folder / f).is_file() else 'missing  '} {f}" for f in bsuite.MNIST_FILES)
        + "\n\nThey are the original files of MNIST (Yann LeCun et al.), still gzipped. Get them once, from any mirror of it,"
        "\nand put them there under these names."
    )
    return 0


def _list(arguments: list[str]) -> int:
    _Parser(prog="tdu list", description="List agents and environments.").parse_args(arguments)
    print("Agents (tdu train ENV --agent NAME):")
    for name, entry in agents.AGENTS.items():
        print(f"  {name:<14}{entry.summary}")
    print("\nEnvironments (tdu train ENV):")
    for name, built_in in environments.BUILT_IN.items():
        print(f"  {name:<14}{built_in.summary}")
        for field, kind, default, words in options.describe(built_in.settings):
            value = str(default).lower() if isinstance(default, bool) else default
            print(f"    {field}={value:<12} {words} ({kind})")
    print("  NAME/INDEX    a bsuite id, e.g. deep_sea/5 (our compiled twin) or cartpole/0 (official, stepwise)")
    print("  bsuite:ID     bsuite's official environment, always")
    print("  gym:ID        a Gymnasium id with discrete actions, e.g. gym:CartPole-v1")
    print("  gymnax:NAME   a gymnax environment, compiled, e.g. gymnax:Breakout-MinAtar")
    print("  python:M:F    what function F of your module M returns: a dm_env, Gymnasium or tdu environment")
    return 0


def _demo(arguments: list[str]) -> int:
    parser = _Parser(prog="tdu demo", description=demo.__doc__, allow_abbrev=False)
    parser.add_argument("--out", default="demo", help="folder for the runs, the picture and the table (default demo)")
    parser.add_argument("--size", type=int, default=demo.SIZE, help=f"size of the sea (default {demo.SIZE})")
    parser.add_argument(
        "--episodes", type=int, default=demo.EPISODES, help=f"episodes for each agent (default {demo.EPISODES})"
    )
    parser.add_argument("--seed", type=int, default=demo.SEED, help=f"seed of every agent (default {demo.SEED})")
    parsed = parser.parse_args(arguments)
    return demo.run(Path(parsed.out), size=parsed.size, episodes=parsed.episodes, seed=parsed.seed)


def default_out(env: str, agent: str, seed: int | None) -> Path:
    """Where a run goes when no folder is named."""
    name = re.sub(r"[^A-Za-z0-9=.,_]+", "-", env)
    return Path("runs") / (f"{name}-{agent}" + ("" if seed is None else f"-seed{seed}"))


def _version() -> str:
    import tdu

    return f"tdu {tdu.__version__}"
