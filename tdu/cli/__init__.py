"""The command line. A user's mistake is one sentence on stderr and exit code 2."""

import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

import tdu
from tdu.cli.output import discard, lasting_streams
from tdu.cli.parser import Parser
from tdu.errors import UserError, on_command_line, tell, unknown
from tdu.interrupts import exit_with, heeded

_COMMANDS = {
    "train": "train an agent on an environment",
    "check": "find what is wrong with an environment",
    "evaluate": "evaluate a run's agent",
    "sweep": "train many runs into one folder",
    "score": "show the scores of a sweep",
    "report": "make a web page of runs and sweeps",
    "plot": "draw learning curves of runs and sweeps",
    "watch": "show a run's agent as a film or as text",
    "reproduce": "make the paper's figures, from finished and new runs",
    "list": "list agents and environments",
    "demo": "compare TDU with two other agents on one hard task",
    "mnist": "show where bsuite's MNIST experiments look for their data",
}

_FILES = {"list": "listing"}  # A module called list would hide the built-in one here

_HINTS = {
    "train": "; continue with the same command and --resume",
    "sweep": "; continue with the same command",
    "reproduce": "; continue with the same command",
}

_EXAMPLES = """\
examples:
  tdu train deep_sea:size=20                        TDU finds the one good policy in 2^20
  tdu train deep_sea:size=20 --agent bdqn --seeds 8   eight seeds, one process per core
  tdu train --help                                  more examples
  tdu list                                          agents and environments
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code."""
    words = [*(sys.argv[1:] if arguments is None else arguments)]
    with lasting_streams(), on_command_line(), heeded():
        return _exit_code(words)


def run_and_exit() -> NoReturn:
    """The command of this process: `tdu` and `python -m tdu`."""
    exit_with(main())


def _exit_code(words: list[str]) -> int:
    try:
        return _dispatch(words)
    except UserError as e:
        if os.environ.get("TDU_TRACEBACK"):
            traceback.print_exc()
        tell(str(e))
        return 2
    except OSError as e:
        if isinstance(e, BrokenPipeError):
            discard(1)
            return 1
        if e.filename is None:
            raise
        if os.environ.get("TDU_TRACEBACK"):
            traceback.print_exc()
        tell(f"{e.filename}: {e.strerror}.")
        return 2
    except RuntimeError as e:
        if type(e).__name__ != "JaxRuntimeError" or "RESOURCE_EXHAUSTED" not in str(e):
            raise
        tell("there is not enough memory; try smaller networks or a smaller replay.")
        return 2
    except KeyboardInterrupt:
        tell(f"interrupted{_HINTS.get(words[0], '') if words else ''}.")
        return 130


def _dispatch(words: Sequence[str]) -> int:
    if words and words[0] in _COMMANDS:
        command = importlib.import_module(f"tdu.cli.{_FILES.get(words[0], words[0])}")
        return int(command.run([*words[1:]]))
    parser = Parser(
        "",
        "Deep exploration in reinforcement learning. TDU trains an ensemble of value functions. Exploiters learn from the "
        "reward. Explorers also get a bonus, which is large where the exploiters disagree about the TD error.",
        _EXAMPLES,
    )
    parser.usage = "tdu COMMAND …"
    parser.add_argument("--version", action="version", version=f"tdu {tdu.__version__}")
    group = parser.add_argument_group("commands (each has its own --help)")
    for name, summary in _COMMANDS.items():
        group.add_argument(name, nargs="?", help=summary)
    if words and not words[0].startswith("-"):
        raise unknown("command", words[0], _COMMANDS)
    parser.parse_args(words)
    parser.print_help()
    return 0
