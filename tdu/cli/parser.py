"""What every command reads its arguments with: a mistake is a `UserError`, one sentence."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, get_args

from tdu import agents
from tdu.errors import UserError
from tdu.options import whole_number
from tdu.run.plan import MOST_ENVS, MOST_EPISODES, MOST_STEPS
from tdu.run.runners.mastery import Until


class _Refused(Exception):
    """A sentence of ours about an argument. argparse would put its own words around a ValueError's."""


def folder(text: str) -> Path:
    """The type of an argument that names a folder."""
    if not text.strip():
        raise argparse.ArgumentTypeError("an empty name is no folder")
    return Path(text)


def whole(name: str, low: int, high: int) -> Callable[[str], int]:
    """The type of an argument that is a whole number."""

    def parse(text: str) -> int:
        try:
            return whole_number(name, _int_or_text(text), low, high)
        except UserError as e:
            raise _Refused(str(e)) from None

    return parse


def number(name: str) -> Callable[[str], float]:
    """The type of an argument that is any number; its range is checked where it is used."""

    def parse(text: str) -> float:
        try:
            return float(text)
        except ValueError:
            raise _Refused(f"{name} must be a number, not {text!r}.") from None

    return parse


def _int_or_text(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:
        return text


def add_length(parser: argparse.ArgumentParser, default: str) -> None:
    """The arguments that say how long a run is, and over how many environments."""
    parser.add_argument(
        "--episodes", type=whole("episodes", 1, MOST_EPISODES), metavar="N",
        help=f"at most so many episodes (default: {default}; with --steps alone: no limit)",
    )  # fmt: skip
    parser.add_argument(
        "--steps", type=whole("steps", 1, MOST_STEPS), metavar="N", help="at most so many environment steps"
    )
    parser.add_argument(
        "--num-envs", type=whole("num_envs", 1, MOST_ENVS), metavar="N",
        help="environments side by side (default 1; of agents with a memory the preset's)",
    )  # fmt: skip
    parser.add_argument(
        "--until", choices=get_args(Until),
        help="what ends a run early: its greedy policy masters the task (default), the task counts as solved by its own "
        "rule, or nothing (budget)",
    )  # fmt: skip


def add_watching(parser: argparse.ArgumentParser) -> None:
    """The arguments that ask what the agent can do and what it knows on the way; they change nothing in the run."""
    parser.add_argument(
        "--evaluate-every", type=whole("evaluate_every", 1, MOST_EPISODES), metavar="E",
        help="play with the trained policy every E episodes, and keep the agent that did best",
    )  # fmt: skip
    parser.add_argument("--record", action="store_true", help="keep what the maps of tdu report need, in record.jsonl")
    parser.add_argument(
        "--record-every", type=whole("record_every", 1, MOST_EPISODES), metavar="E",
        help="keep it at every E episodes; the usual moments cost less than a twentieth of the time",
    )  # fmt: skip


def add_preset(parser: argparse.ArgumentParser) -> None:
    """The argument that chooses a set of defaults."""
    parser.add_argument(
        "--preset",
        help=f"set of defaults: {', '.join(agents.PRESETS)} (default: paper on Deep Sea, the tree and bsuite; for ensembles "
        f"elsewhere general); of agents with a memory: {', '.join(agents.RECURRENT_PRESETS)} (default: what fits ENV)",
    )


class Parser(argparse.ArgumentParser):
    """argparse, with our errors."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        try:
            return super().parse_known_args(args, namespace)
        except _Refused as e:
            raise UserError(str(e)) from None

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; see {self.prog} --help.")
