"""`tdu train`: an agent on an environment, one seed or several."""

import argparse
import sys
from pathlib import Path
from typing import Any

from tdu import agents, options, runs, sweeps, track
from tdu import progress as displays
from tdu.commands.parser import Parser, folder
from tdu.errors import UserError, unknown
from tdu.runners import parallel
from tdu.train import plan, train

EXAMPLES = """\
examples:
  tdu train deep_sea:size=20                        watch TDU find the one good policy in 2^20
  tdu train deep_sea:size=20 --agent bdqn --seeds 8   eight seeds, one process per core
  tdu train binary_tree:depth=100 --beta 2          any option of the agent is a flag
  tdu train bsuite:catch/0 --out runs/catch         bsuite's official environment, stepwise
  tdu train deep_sea:size=20 --out DIR --resume     go on where a run was cut off
  tdu train --agent bdqn --help                     that agent's options
  tdu list                                          agents and environments
"""


def run(arguments: list[str]) -> int:
    parsed, given = parse(arguments)
    if parsed.seeds is not None:
        return _train_seeds(parsed, given, arguments)
    out = parsed.out or _default_out(parsed.env, parsed.agent, given, parsed.seed)
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
    out = parsed.out or _default_out(parsed.env, parsed.agent, given, None)
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
        print(f"tdu: {outcome.job.name} failed: {outcome.reason}", file=sys.stderr)
    print(f"{len(outcomes) - len(failed)} of {len(outcomes)} runs are in {out}.")
    return max((o.code if o.code > 0 else 1 for o in failed), default=0)


def parse(arguments: list[str]) -> tuple[argparse.Namespace, dict[str, Any]]:
    """The command's own arguments, and the agent's options as texts by name."""
    chooser = Parser(add_help=False, allow_abbrev=False)
    chooser.add_argument("--agent", default="tdu")
    agent = chooser.parse_known_args(arguments)[0].agent
    entry = agents.find(agent)
    parser = Parser(
        prog="tdu train",
        description="Train an agent on an environment.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        epilog=EXAMPLES,
    )
    parser.add_argument("env", metavar="ENV", help="environment id, e.g. deep_sea:size=20 (see tdu list)")
    parser.add_argument("--agent", default="tdu", help=f"one of {', '.join(agents.AGENTS)} (default tdu)")
    parser.add_argument("--preset", default="paper", help="set of defaults: paper or boot_dqn (default paper)")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--seed", type=int, default=0, help="seed of everything random (default 0)")
    which.add_argument("--seeds", type=int, help="run seeds 0 … SEEDS-1, one process per core")
    parser.add_argument("--episodes", type=int, help="at most so many episodes (default: the environment's)")
    parser.add_argument("--out", type=folder, metavar="DIR", help="the run's folder (default runs/…)")
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
        flags = {k: k.replace("_", "-") for k in found["config"]}
        stored |= {k: v for k, v in found["config"].items() if not {f"--{flags[k]}", f"--no-{flags[k]}"} & typed}
    return settings | stored


def _default_out(env: str, agent: str, given: dict[str, Any], seed: int | None) -> Path:
    """Where a run goes when no folder is named."""
    words = [env, agent, *(f"{name}={value}" for name, value in given.items())]
    return Path("runs") / sweeps.file_name("-".join(words if seed is None else [*words, f"seed{seed}"]))
