"""`tdu check`: what is wrong with an environment."""

from tdu.cli.output import own_output
from tdu.cli.parser import Parser, whole
from tdu.errors import tell
from tdu.options import MAX_SEED


def run(arguments: list[str]) -> int:
    parser = Parser(
        "check", "Play random actions in an environment and report problems. The exit code is 2 if there are any."
    )
    add = parser.add_argument
    add("env", metavar="ENV", help="environment id, e.g. python:my_module:make or gym:CartPole-v1")
    add("--steps", type=whole("steps", 1, 10**9), default=2000, metavar="N", help="number of steps (default 2000)")
    add("--seed", type=whole("seed", 0, MAX_SEED), default=0, help="seed of the episodes (default 0)")
    parsed = parser.parse_args(arguments)
    from tdu.environments.checks import check
    from tdu.run.processes import use_one_core

    use_one_core()
    with own_output() as output:
        found = check(parsed.env, steps=parsed.steps, seed=parsed.seed)
        for fact in (*found.facts, *(f"Note: {hint}" for hint in found.hints)):
            print(fact, file=output)
        if not found.problems:
            print(f"No problem found. Train on it with: tdu train {parsed.env}", file=output)
    for problem in found.problems:
        tell(problem)
    return 2 if found.problems else 0
