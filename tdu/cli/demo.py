"""`tdu demo`: TDU beside two other agents on one hard task."""

from pathlib import Path

from tdu.cli.parser import Parser, whole
from tdu.options import MAX_EPISODES, MAX_SEED

_DEPTH, _EPISODES, _SEED = 100, 800, 0


def run(arguments: list[str]) -> int:
    parser = Parser(prog="tdu demo", description=__doc__, allow_abbrev=False)
    parser.add_argument("--out", default="demo", help="folder for the runs, the picture and the table (default demo)")
    parser.add_argument(
        "--depth", type=whole("depth", 2, 1000), default=_DEPTH, help=f"depth of the tree (default {_DEPTH})"
    )
    parser.add_argument(
        "--episodes",
        type=whole("episodes", 1, MAX_EPISODES),
        default=_EPISODES,
        help=f"episodes for each agent (default {_EPISODES})",
    )
    parser.add_argument(
        "--seed",
        type=whole("seed", 0, MAX_SEED),
        default=_SEED,
        help=f"seed of every agent (default {_SEED})",
    )
    parsed = parser.parse_args(arguments)
    from tdu import demo  # imports JAX

    return demo.run(Path(parsed.out), depth=parsed.depth, episodes=parsed.episodes, seed=parsed.seed)
