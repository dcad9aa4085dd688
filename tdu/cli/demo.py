"""`tdu demo`: TDU beside two other agents on one hard task."""

from pathlib import Path

from tdu import demo
from tdu.cli.parser import Parser, whole
from tdu.options import MAX_EPISODES, MAX_SEED


def run(arguments: list[str]) -> int:
    parser = Parser(prog="tdu demo", description=demo.__doc__, allow_abbrev=False)
    parser.add_argument("--out", default="demo", help="folder for the runs, the picture and the table (default demo)")
    parser.add_argument(
        "--depth", type=whole("depth", 2, 1000), default=demo.DEPTH, help=f"depth of the tree (default {demo.DEPTH})"
    )
    parser.add_argument(
        "--episodes",
        type=whole("episodes", 1, MAX_EPISODES),
        default=demo.EPISODES,
        help=f"episodes for each agent (default {demo.EPISODES})",
    )
    parser.add_argument(
        "--seed",
        type=whole("seed", 0, MAX_SEED),
        default=demo.SEED,
        help=f"seed of every agent (default {demo.SEED})",
    )
    parsed = parser.parse_args(arguments)
    return demo.run(Path(parsed.out), depth=parsed.depth, episodes=parsed.episodes, seed=parsed.seed)
