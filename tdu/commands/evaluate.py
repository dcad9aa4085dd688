"""`tdu evaluate`: what a run has learned."""

import json

from tdu.commands.parser import Parser, folder
from tdu.evaluate import evaluate
from tdu.runners import parallel


def run(arguments: list[str]) -> int:
    parser = Parser(
        prog="tdu evaluate",
        description="Play episodes with a run's agent, greedily on the mean value over its exploiters, without learning.",
        allow_abbrev=False,
    )
    parser.add_argument("run", metavar="RUN", type=folder, help="the run's folder")
    parser.add_argument("--episodes", type=int, default=200, help="how many (default 200)")
    parser.add_argument("--seed", type=int, default=0, help="of the episodes; apart from the training's (default 0)")
    parser.add_argument("--json", action="store_true", help="print it for machines")
    parsed = parser.parse_args(arguments)
    parallel.use_one_core()
    found = evaluate(parsed.run, episodes=parsed.episodes, seed=parsed.seed)
    if parsed.json:
        print(json.dumps(found))
    else:
        print(
            f"{found['agent']} seed {found['seed']} on {found['env']}: mean return {found['mean_return']:.3f} ± "
            f"{found['standard_error']:.3f} over {found['episodes']} episodes "
            f"({found['min_return']:.3f} to {found['max_return']:.3f})."
        )
    return 0
