"""The command line. A user's mistake is one sentence on stderr and exit code 2."""

import argparse
import os
import sys
import traceback
from collections.abc import Sequence

import jax

import tdu
from tdu.cli import demo, evaluate, listing, mnist, plot, report, reproduce, score, sweep, train, watch
from tdu.cli.parser import Parser
from tdu.errors import UserError, unknown

_COMMANDS = {
    "train": (train.run, "an agent on an environment"),
    "evaluate": (evaluate.run, "what a run has learned"),
    "sweep": (sweep.run, "many runs in one folder"),
    "score": (score.run, "what a sweep amounts to"),
    "report": (report.run, "a page that shows runs and sweeps"),
    "plot": (plot.run, "the learning curves of runs and sweeps as a figure"),
    "watch": (watch.run, "what a run has learned, as a film or as text"),
    "reproduce": (reproduce.run, "the paper's figures, from finished runs and those that are missing"),
    "list": (listing.run, "agents and environments"),
    "demo": (demo.run, "TDU beside two others on one hard task"),
    "mnist": (mnist.run, "where bsuite's MNIST experiments find their data"),
}
_HINTS = {
    "train": "; continue with the same command and --resume",
    "sweep": "; continue with the same command",
    "reproduce": "; continue with the same command",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code."""
    words = [*(sys.argv[1:] if arguments is None else arguments)]
    try:
        return _dispatch(words)
    except UserError as e:
        if os.environ.get("TDU_TRACEBACK"):
            traceback.print_exc()
        print(f"tdu: {e}", file=sys.stderr)
        return 2
    except jax.errors.JaxRuntimeError as e:
        if "RESOURCE_EXHAUSTED" not in str(e):
            raise
        print("tdu: there is not enough memory for that; try smaller networks or a smaller replay.", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"tdu: interrupted{_HINTS.get(words[0], '') if words else ''}.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 1


def _dispatch(words: Sequence[str]) -> int:
    if words and words[0] in _COMMANDS:
        return _COMMANDS[words[0]][0]([*words[1:]])
    parser = Parser(
        prog="tdu",
        usage="tdu COMMAND …",
        description="Deep exploration in reinforcement learning: an ensemble of value functions in which explorers "
        "are paid for the disagreement of exploiters about the TD error of each transition.",
        epilog=train.EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"tdu {tdu.__version__}")
    group = parser.add_argument_group("commands (each has a --help of its own)")
    for name, (_, summary) in _COMMANDS.items():
        group.add_argument(name, nargs="?", help=summary)
    if words and not words[0].startswith("-"):
        raise unknown("command", words[0], _COMMANDS)
    parser.parse_args(words)
    parser.print_help()
    return 0
