"""`tdu demo`: TDU beside two other agents on one hard task."""

from pathlib import Path

from tdu.cli.parser import Parser, whole
from tdu.options import MAX_EPISODES, MAX_SEED


def run(arguments: list[str]) -> int:
    parser = Parser("demo", __doc__)
    add, episodes = parser.add_argument, whole("episodes", 1, MAX_EPISODES)
    add("--out", default="demo", help="folder for the runs, the picture and the table (default demo)")
    add("--depth", type=whole("depth", 2, 1000), default=100, help="depth of the tree (default 100)")
    add("--episodes", type=episodes, default=800, help="episodes for each agent (default 800)")
    add("--seed", type=whole("seed", 0, MAX_SEED), default=0, help="seed of every agent (default 0)")
    parsed = parser.parse_args(arguments)
    from tdu import demo  # imports JAX

    return demo.run(Path(parsed.out), depth=parsed.depth, episodes=parsed.episodes, seed=parsed.seed)
