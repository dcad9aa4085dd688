"""`tdu evaluate`: the evaluation return of a run's agent."""

import json

from tdu.cli.output import own_output
from tdu.cli.parser import Parser, add_env, add_own_agent, add_success, folder, whole
from tdu.errors import several, tell
from tdu.options import EPISODES, MAX_SEED


def run(arguments: list[str]) -> int:
    parser = Parser(
        "evaluate", "Evaluate a run's agent: play episodes without learning, greedily on the exploiters' mean value."
    )
    add, episodes, seed = parser.add_argument, whole("episodes", 1, 10**6), whole("seed", 0, MAX_SEED)
    add("run", metavar="RUN", type=folder, help="the run's folder")
    add("--episodes", type=episodes, default=EPISODES, metavar="N", help=f"number of episodes (default {EPISODES})")
    words = "seed of the episodes, independent of training (default 0)"
    add("--seed", type=seed, default=0, metavar="N", help=words)
    add_success(parser)
    words = "use the best agent instead of the last one (for runs with --evaluate-every)"
    add("--best", action="store_true", help=words)
    words = "act on the explorers' mean value, as in the paper's ablation (recurrent agents only)"
    add("--explorers", action="store_true", help=words)
    add_own_agent(parser)
    add_env(parser)
    add("--json", action="store_true", help="print JSON")
    parsed = parser.parse_args(arguments)
    from tdu.run.processes import use_one_core  # imports JAX
    from tdu.run.progress import length_words, return_words
    from tdu.run.stored import evaluate

    use_one_core()
    with own_output() as output:
        start = f"playing {several(parsed.episodes, 'episode')}; compiling takes some seconds …"
        played = evaluate(
            parsed.run, episodes=parsed.episodes, seed=parsed.seed, best=parsed.best, explorers=parsed.explorers,
            success_return=parsed.success_return, agent=parsed.agent, env=parsed.env, trust=parsed.trust,
            on_loaded=None if parsed.json else lambda: tell(start),
        )  # fmt: skip
        if parsed.json:
            print(json.dumps(played), file=output)
        else:
            which = ["best agent"] * parsed.best + ["explorers' mean value"] * parsed.explorers
            remark = f" ({', '.join(which)})," if which else ""
            words = return_words(played["mean_return"], played["standard_error"], played["episodes"])
            print(
                f"{played['agent']}{remark} seed {played['seed']} on {played['env']}: mean return {words} "
                f"({played['min_return']:.3f} to {played['max_return']:.3f})"
                f"{length_words(played['mean_length'], played['success_rate'])}.",
                file=output,
            )
    return 0
