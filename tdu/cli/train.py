"""`tdu train`: an agent on an environment, one seed or several."""

import argparse
import contextlib
import dataclasses
import glob
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from tdu import agents, environments, options
from tdu.cli.output import own_output, tell_failed
from tdu.cli.parser import Parser, add_length, add_preset, add_trust, add_watch, folder, number, watch_arguments, whole
from tdu.errors import UserError, tell
from tdu.options import MAX_ACTORS, MAX_SEED
from tdu.run import consent, progress, sweeps, track
from tdu.run.folder import CONFIG, GreedyReturn, read_config, read_result, read_template
from tdu.run.folder.records import EVALUATION_EPISODES
from tdu.run.one_core import stay_on_one_core
from tdu.run.plan import DEFAULT_AGENT, plan, refuse_unevaluated, refuse_without_ray, resolve
from tdu.run.processes import Job, use_one_core
from tdu.run.progress import Report
from tdu.run.run import Run
from tdu.run.signals import Interrupted
from tdu.run.train import CHECKPOINT_SECONDS, train

_EXAMPLES = """\
examples:
  tdu train deep_sea:size=20                        TDU finds the one good policy in 2^20
  tdu train deep_sea:size=20 --agent bdqn --seeds 8   eight seeds, one process per core
  tdu train binary_tree:depth=100 --beta 2          every option of the agent is a flag
  tdu train catch/0 --out runs/catch                bsuite's Catch, compiled; bsuite:catch/0 is the official one
  tdu train deep_sea:size=20 --out DIR --resume     continue an interrupted run
  tdu train --config DIR/config.json --seed 5       another run with the same settings
  tdu train --agent bdqn --help                     that agent's options
  tdu list                                          agents and environments
"""


def run(arguments: list[str]) -> int:
    parsed, given = parse(arguments)
    refuse_without_ray(parsed.engine, actors=parsed.actors, address=parsed.address)
    if parsed.engine == "ray" and parsed.seeds is not None:
        raise UserError("--engine ray is one run with many processes; start one run for each seed (--seed).")
    with own_output() as output:
        return (_train_one if parsed.seeds is None else _train_seeds)(parsed, given, output)


def _train_one(parsed: argparse.Namespace, given: dict[str, Any], output: TextIO) -> int:
    if parsed.resume is True and parsed.out is not None and not parsed.out.exists():
        raise UserError(f"{parsed.out} does not exist, so there is nothing to resume; start it without --resume.")
    out = parsed.out or _default_out(parsed, given)
    settings = _settings(parsed, given)
    if parsed.resume and parsed.config is None and (out / CONFIG).exists():
        settings["config"] = out
    config = resolve(**settings).config
    use_one_core()
    announce = partial(tell, "compiling, which takes some seconds …")
    shown, close = progress.display(parsed.progress, f"{config.agent} seed {config.seed}", output)
    with contextlib.ExitStack() as at_the_end:
        at_the_end.callback(close)
        if not config.actors:
            shown = _before_first(lambda: at_the_end.callback(stay_on_one_core()), shown)
        try:
            found = train(
                **settings,
                out=out,
                resume=parsed.resume,
                checkpoint_seconds=parsed.checkpoint_seconds,
                progress=shown,
                compiling=announce if parsed.progress in ("auto", "plain") else None,
                track=parsed.track,
                address=parsed.address,
            )
        except Interrupted as e:
            tell(str(e))
            return e.exit_code
    result = read_result(out)
    if parsed.progress != "json" and result is not None:
        print(f"{progress.summary(result, _best(found, out))} Everything is in {out}.", file=output)
    return 0


def _best(run: Run, out: Path) -> tuple[GreedyReturn, int, str] | None:
    """The best evaluation during a run, its episode, and the command that evaluates that agent again."""
    if not run.evaluations:
        return None
    place = run.evaluations["greedy_return"].argmax()
    numbers = {name: column[place].item() for name, column in run.evaluations.items()}
    best = GreedyReturn(numbers["greedy_return"], numbers["standard_error"], numbers["evaluation_episodes"])
    return best, numbers["episode"], f"tdu evaluate {out} --best"


def _before_first(begin: Callable[[], object], show: Callable[[Report], None]) -> Callable[[Report], None]:
    """`show`, with `begin` called before the first report. By then the environment has started its own processes."""
    waiting = [begin]

    def shown(report: Report) -> None:
        if waiting:
            waiting.pop()()
        show(report)

    return shown


def _train_seeds(parsed: argparse.Namespace, given: dict[str, Any], output: TextIO) -> int:
    out = parsed.out or _default_out(parsed, given)
    planned = plan(**_settings(parsed, given))
    environments.close(planned.env)
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file; choose another --out.")
    if not parsed.resume and out.exists() and any(out.iterdir()):
        raise UserError(f"{out} already exists; add --resume to continue it, or choose another --out.")
    if parsed.resume is True and not out.exists():
        raise UserError(f"{out} does not exist, so there is nothing to resume; start it without --resume.")
    track.check(parsed.track, out)
    if not parsed.resume:
        refuse_unevaluated(planned.config.until_return, planned.config.evaluate_every)
    if planned.note is not None:
        tell(planned.note)
    arguments = [*watch_arguments(parsed), *(["--resume-if-there"] if parsed.resume else [])]
    settings, seeds = planned.config.to_json(), range(parsed.seeds)
    jobs = [Job(f"seed {k}", arguments, out / f"seed_{k}", settings | {"seed": k}) for k in seeds]
    outcomes = progress.run_jobs(jobs, parsed.progress)
    for outcome in outcomes:
        if outcome.code == 0 and outcome.result:
            print(progress.summary(outcome.result), file=output)
    failed = tell_failed(outcomes)
    print(f"{len(outcomes) - failed} of {len(outcomes)} runs are in {out}.", file=output)
    return 1 if failed else 0


def parse(arguments: list[str]) -> tuple[argparse.Namespace, dict[str, Any]]:
    """The command's own arguments, and the agent's options by name."""
    chooser = Parser("train", add_help=False)
    for name in ("--agent", "--config", "--out"):
        chooser.add_argument(name)
    for name in ("--resume", "--trust"):
        chooser.add_argument(name, action="store_true")
    agent = _agent_of(chooser.parse_known_args(arguments)[0])
    entry = agents.find(agent)
    parser = Parser("train", "Train an agent on an environment.", _EXAMPLES)
    add = parser.add_argument
    words = "environment id, e.g. deep_sea:size=20 (see tdu list); may also come from --config"
    add("env", metavar="ENV", nargs="?", help=words)
    add("--agent", help=f"one of {', '.join(agents.AGENTS)} (default {DEFAULT_AGENT}); or your own, python:MODULE:NAME")
    words = "a run's config.json, for every setting that is not given here"
    add("--config", type=Path, metavar="FILE", help=words)
    add_trust(parser)
    add_preset(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--seed", type=whole("seed", 0, MAX_SEED), help="seed of everything random (default 0)")
    which.add_argument("--seeds", type=whole("seeds", 1, 10**6), help="run seeds 0 … SEEDS-1, one process per core")
    add_length(parser, "the environment's")
    add("--out", type=folder, metavar="DIR", help="the run's folder (default runs/…)")
    words = "continue the run in that folder"
    add("--resume", action="store_const", const=True, default=False, help=words)
    # Sweeps start and continue runs with one command.
    add("--resume-if-there", dest="resume", action="store_const", const="if_there", help=argparse.SUPPRESS)
    add_watch(parser)
    words = (
        "maximum number of greedy episodes at the end, within a tenth of the steps trained; 0 for none "
        f"(default {EVALUATION_EPISODES})"
    )
    add("--evaluation-episodes", type=whole("evaluation_episodes", 0, 10**6), metavar="N", help=words)
    seconds, words = number("checkpoint_seconds"), f"time between checkpoints (default {CHECKPOINT_SECONDS:g})"
    add("--checkpoint-seconds", type=seconds, default=CHECKPOINT_SECONDS, metavar="X", help=words)
    add("--progress", choices=("auto", "plain", "json", "none"), default="auto", help="how to show progress")
    words = "ray: actors, replay and learner are processes of a Ray cluster (recurrent agents; default local)"
    add("--engine", choices=("local", "ray"), help=words)
    words = "with --engine ray: number of actors, each with --num-envs environments (default: one per core)"
    add("--actors", type=whole("actors", 1, MAX_ACTORS), metavar="N", help=words)
    add("--address", help="the Ray cluster's address, HOST:PORT (default: a cluster is started on this machine)")
    add("--track", choices=track.KINDS, help="also log every episode there (default: only log.csv)")
    general = dataclasses.asdict(agents.configure(agent, {}, "general")) if "general" in agents.presets(agent) else {}
    group = parser.add_argument_group(
        f"options of agent {agent}, with the paper's defaults" + (" and those of the preset general" if general else "")
    )
    fields = options.describe(entry.config)
    for name, kind, default, help_text in fields:
        shown = ",".join(map(str, default)) if isinstance(default, tuple) else str(default).lower()
        if general.get(name, default) != default:
            shown = f"{shown}; general {general[name]}"
        how: Any = {"metavar": kind if "|" in kind else "X"}
        if kind == "true|false":
            how = {"action": argparse.BooleanOptionalAction}
        group.add_argument(
            f"--{name.replace('_', '-')}",
            dest=f"option_{name}",
            help=f"{help_text} (default {shown})".replace("%", "%%"),
            **how,
        )
    parsed, rest = parser.parse_known_args(arguments)
    for argument in rest:
        if argument.startswith("--"):
            known = [a for action in parser._actions for a in action.option_strings if action.help != argparse.SUPPRESS]
            raise _not_an_option(agent, argument.split("=")[0], known)
    if rest:
        raise UserError(f"unexpected argument '{rest[0]}'; see tdu train --help.")
    given = {f[0]: v for f in fields if (v := getattr(parsed, f"option_{f[0]}")) is not None}
    return parsed, given


def _not_an_option(agent: str, option: str, known: list[str]) -> UserError:
    """The error for an option that does not exist, or that only other agents have."""
    name = option.strip("-").replace("-", "_")
    others = [other for other, entry in agents.AGENTS.items() if name in {f[0] for f in options.describe(entry.config)}]
    if others:
        return UserError(f"{option} is an option of {', '.join(others)}; agent {agent} does not have it.")
    return options.unknown_option(f"tdu train with agent {agent}", option, known)


def _agent_of(chosen: argparse.Namespace) -> str:
    """The agent whose options are parsed: the one given, that of a config file, or the default."""
    if chosen.agent is not None:
        return str(chosen.agent)
    file = chosen.config or (chosen.out if chosen.resume else None)
    if file and (chosen.config or (Path(file) / CONFIG).exists()):
        name = str(read_template(Path(file)).get("agent", DEFAULT_AGENT))
        consent.require(name, Path(file), trust=chosen.trust)
        return name
    return DEFAULT_AGENT


def _settings(parsed: argparse.Namespace, given: dict[str, Any]) -> dict[str, Any]:
    names = (
        "env", "agent", "config", "seed", "episodes", "steps", "num_envs", "until", "preset", "engine", "actors",
        "until_return", "success_return", "evaluate_every", "evaluation_episodes", "record", "record_every", "trust",
    )  # fmt: skip
    return {name: getattr(parsed, name) for name in names} | given


def _default_out(parsed: argparse.Namespace, given: dict[str, Any]) -> Path:
    """The folder of a run, or of several seeds, if none is given."""
    config = resolve(**_settings(parsed, given)).config
    name = [config.env, config.agent, *(f"{option}={value}" for option, value in given.items())]
    if parsed.seeds is None:
        name.append(f"seed{config.seed}")
    out = sweeps.run_folder(Path("runs"), "-".join(name), config)
    if not parsed.resume or out.exists():
        return out
    # The same run with other limits, if there is just one, is the run to be trained longer.
    folders = [found.parent for found in out.parent.glob(f"{glob.escape(out.name[:-8])}????????/{CONFIG}")]
    same = [found for found in folders if read_config(found).differs_only_in_limits(config)]
    return same[0] if len(same) == 1 else out
