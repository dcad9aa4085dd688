"""`tdu train`: an agent on an environment, one seed or several."""

import argparse
import dataclasses
from pathlib import Path
from typing import Any

from tdu import agents, options
from tdu.cli.output import own_output
from tdu.cli.parser import Parser, add_length, add_preset, add_trust, add_watch, folder, number, whole
from tdu.errors import UserError
from tdu.options import CHECKPOINT_SECONDS, DEFAULT_AGENT, EVALUATION_EPISODES, MAX_ACTORS, MAX_SEED, TRACKERS

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
    from tdu.cli import training  # imports JAX
    from tdu.run.plan import refuse_without_ray

    refuse_without_ray(parsed.engine, actors=parsed.actors, address=parsed.address)
    if parsed.engine == "ray" and parsed.seeds is not None:
        raise UserError("--engine ray is one run with many processes; start one run for each seed (--seed).")
    with own_output() as output:
        return (training.one_run if parsed.seeds is None else training.seeds)(parsed, given, output)


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
    which.add_argument("--seed", type=whole("seed", 0, MAX_SEED), help="random seed (default 0)")
    which.add_argument("--seeds", type=whole("seeds", 1, 10**6), help="run seeds 0 … SEEDS-1, one process per core")
    add_length(parser, "the environment's")
    add("--out", type=folder, metavar="DIR", help="the run's folder (default runs/…)")
    words = "continue the run in that folder"
    add("--resume", action="store_const", const=True, default=False, help=words)
    # Sweeps start and continue runs with one command.
    add("--resume-if-there", dest="resume", action="store_const", const="if_there", help=argparse.SUPPRESS)
    add_watch(parser)
    words = (
        "maximum number of evaluation episodes; at the end of a run they take at most a tenth of its steps; 0 for "
        f"none (default {EVALUATION_EPISODES})"
    )
    add("--evaluation-episodes", type=whole("evaluation_episodes", 0, 10**6), metavar="N", help=words)
    seconds, words = number("checkpoint_seconds"), f"seconds between checkpoints (default {CHECKPOINT_SECONDS:g})"
    add("--checkpoint-seconds", type=seconds, default=CHECKPOINT_SECONDS, metavar="X", help=words)
    add("--progress", choices=("auto", "plain", "json", "none"), default="auto", help="how to show progress")
    words = "ray: actors, replay and learner are processes of a Ray cluster (recurrent agents; default local)"
    add("--engine", choices=("local", "ray"), help=words)
    words = "with --engine ray: number of actors, each with --num-envs environments (default: one per core)"
    add("--actors", type=whole("actors", 1, MAX_ACTORS), metavar="N", help=words)
    add("--address", help="the Ray cluster's address, HOST:PORT (default: a cluster is started on this machine)")
    add("--track", choices=TRACKERS, help="also log to TensorBoard or Weights & Biases (default: only log.csv)")
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
    if file is None:
        return DEFAULT_AGENT
    from tdu.run import consent  # imports JAX
    from tdu.run.folder import CONFIG, read_template

    if chosen.config or (Path(file) / CONFIG).exists():
        name = str(read_template(Path(file)).get("agent", DEFAULT_AGENT))
        consent.require(name, Path(file), trust=chosen.trust)
        return name
    return DEFAULT_AGENT
