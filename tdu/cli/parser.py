"""The argument parser of every command: a mistake is a `UserError` in one sentence."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, get_args

from tdu.errors import UserError
from tdu.options import MAX_ENVS, MAX_EPISODES, MAX_STEPS, Until, parsed_number, whole_number


class _Refused(Exception):
    """A message about an argument. argparse would add its own text to a ValueError."""


class Parser(argparse.ArgumentParser):
    """argparse for one command, whose errors are `UserError`."""

    def __init__(
        self, command: str, description: str | None = None, examples: str | None = None, add_help: bool = True
    ) -> None:
        layout = argparse.RawDescriptionHelpFormatter if examples else argparse.HelpFormatter
        super().__init__(
            f"tdu {command}".strip(), description=description, epilog=examples, formatter_class=layout,
            add_help=add_help, allow_abbrev=False,
        )  # fmt: skip

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        try:
            return super().parse_known_args(args, namespace)
        except _Refused as e:
            raise UserError(str(e)) from None

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; see {self.prog} --help.")


def folder(text: str) -> Path:
    """The type of a folder argument."""
    if not text.strip():
        raise argparse.ArgumentTypeError("the folder's name must not be empty")
    return Path(text)


def whole(name: str, low: int, high: int) -> Callable[[str], int]:
    """The type of a whole-number argument."""

    def parse(text: str) -> int:
        try:
            return whole_number(name, parsed_number(text), low, high)
        except UserError as e:
            raise _Refused(str(e)) from None

    return parse


def number(name: str) -> Callable[[str], float]:
    """The type of a number argument; its range is checked where it is used."""

    def parse(text: str) -> float:
        try:
            return float(text)
        except ValueError:
            raise _Refused(f"{name} must be a number, not {text!r}.") from None

    return parse


def add_trust(parser: argparse.ArgumentParser) -> None:
    """Adds the argument that allows to import what a run's folder names."""
    words = (
        "allow tdu to import the module that a run or config file names (python:MODULE:NAME, gym:MODULE:NAME); "
        "this runs the module's code"
    )
    parser.add_argument("--trust", action="store_true", help=words)


def add_env(parser: argparse.ArgumentParser) -> None:
    """Adds the argument that names a run's environment again, and `add_trust`'s."""
    parser.add_argument(
        "--env",
        help="the environment of the episodes (default: the run's), for example one that renders. "
        "A python:MODULE:NAME typed here is imported without --trust",
    )
    add_trust(parser)


def add_own_agent(parser: argparse.ArgumentParser) -> None:
    words = "an agent of your own: python:MODULE:NAME (default: the one that the run names)"
    parser.add_argument("--agent", help=words)


def add_success(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--success-return", type=number("success_return"), metavar="X",
        help="an evaluation episode with at least this return is a success (default: the environment's "
        "info['is_success'], if it has one)",
    )  # fmt: skip


def add_preset(parser: argparse.ArgumentParser) -> None:
    from tdu import agents

    parser.add_argument(
        "--preset",
        help=f"set of defaults. Ensembles: {', '.join(agents.PRESETS)} (default: paper on Deep Sea, the Binary Tree and "
        f"bsuite, general elsewhere). Recurrent agents: {', '.join(agents.RECURRENT_PRESETS)} (default: depends on ENV)",
    )


def add_length(parser: argparse.ArgumentParser, default: str) -> None:
    """Adds arguments for the length of a run and its number of environments."""
    add = parser.add_argument
    words = f"maximum number of episodes (default: {default}; with --steps alone: no limit)"
    add("--episodes", type=whole("episodes", 1, MAX_EPISODES), metavar="N", help=words)
    add("--steps", type=whole("steps", 1, MAX_STEPS), metavar="N", help="maximum number of environment steps")
    words = "number of parallel environments (default 1; recurrent agents: set by the preset)"
    add("--num-envs", type=whole("num_envs", 1, MAX_ENVS), metavar="N", help=words)
    add(
        "--until", choices=get_args(Until),
        help="when a run ends early: when its greedy policy has mastered the task (mastered, the default), when the "
        "environment's rule counts the task as solved (solved), or never (budget)",
    )  # fmt: skip
    words = "end a run when an evaluation reaches this mean return (needs --evaluate-every)"
    add("--until-return", type=number("until_return"), metavar="X", help=words)


def add_watch(parser: argparse.ArgumentParser) -> None:
    """Adds arguments for evaluations and recordings, which do not change the run."""
    words = "evaluate the greedy policy every E episodes, and keep the best agent"
    parser.add_argument("--evaluate-every", type=whole("evaluate_every", 1, MAX_EPISODES), metavar="E", help=words)
    add_success(parser)
    words = "store snapshots for the maps of tdu report, in record.jsonl"
    parser.add_argument("--record", action="store_true", help=words)
    words = "store a snapshot every E episodes (default: a schedule that takes less than 5 %% of the time)"
    parser.add_argument("--record-every", type=whole("record_every", 1, MAX_EPISODES), metavar="E", help=words)


def watch_arguments(parsed: argparse.Namespace) -> list[str]:
    """Arguments of `tdu train` that do not define the run, for the process of a job."""
    arguments = ["--record"] if parsed.record else []
    for name in ("record_every", "evaluate_every", "evaluation_episodes", "checkpoint_seconds", "track"):
        if (value := getattr(parsed, name, None)) is not None:
            arguments += [f"--{name.replace('_', '-')}", str(value)]
    return arguments
