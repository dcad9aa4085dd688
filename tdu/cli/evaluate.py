"""`tdu evaluate`: what a run has learned."""

import json

from tdu.cli.output import own_output
from tdu.cli.parser import Parser, folder, whole
from tdu.errors import tell
from tdu.run import processes as parallel
from tdu.run.evaluate import EPISODES, evaluate
from tdu.run.plan import LARGEST_SEED
from tdu.run.progress import return_words


def run(arguments: list[str]) -> int:
    parser = Parser(
        prog="tdu evaluate",
        description="Play episodes with a run's agent, greedily on the mean value over its exploiters, without learning.",
        allow_abbrev=False,
    )
    parser.add_argument("run", metavar="RUN", type=folder, help="the run's folder")
    parser.add_argument(
        "--episodes",
        type=whole("episodes", 1, 10**6),
        default=EPISODES,
        metavar="N",
        help=f"how many (default {EPISODES})",
    )
    parser.add_argument(
        "--seed", type=whole("seed", 0, LARGEST_SEED), default=0, metavar="N",
        help="of the episodes; apart from the training's (default 0)",
    )  # fmt: skip
    parser.add_argument("--best", action="store_true", help="the agent that did best in the run's --evaluate-every")
    parser.add_argument(
        "--explorers",
        action="store_true",
        help="act on the explorers' mean value (agents with a memory only), as the paper's ablation does",
    )
    parser.add_argument("--json", action="store_true", help="print it for machines")
    parsed = parser.parse_args(arguments)
    parallel.use_one_core()
    with own_output() as output:
        words = f"playing {parsed.episodes} episodes, after some seconds of compiling …"
        played = evaluate(
            parsed.run, episodes=parsed.episodes, seed=parsed.seed, best=parsed.best, explorers=parsed.explorers,
            on_loaded=None if parsed.json else lambda: tell(words),
        )  # fmt: skip
        if parsed.json:
            print(json.dumps(played), file=output)
        else:
            whose = ", acting on its explorers' values," if parsed.explorers else ""
            when = " at its best" if parsed.best else ""
            words = return_words(played["mean_return"], played["standard_error"], played["episodes"])
            print(
                f"{played['agent']}{when}{whose} seed {played['seed']} on {played['env']}: mean return {words} "
                f"({played['min_return']:.3f} to {played['max_return']:.3f}).",
                file=output,
            )
    return 0
