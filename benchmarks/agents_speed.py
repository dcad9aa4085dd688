"""Environment steps per second of every agent on compiled Deep Sea 20, on one core, compared with bsuite's own JAX DQN.

    python benchmarks/agents_speed.py --out results/agents_speed.json

Each agent runs in its own process with a full replay. Agents take turns for `--rounds` rounds. The table has medians.
"""

import argparse
import json
import statistics
import sys
import warnings
from pathlib import Path

import workers

SIZE = 20
SECONDS = 3.0
WARM_UP = 11_000
SINGLE = ("dqn", "qex", "cts", "rnd", "nns")
GOAL = 10_000
BSUITE = "bsuite dqn"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="where to save the numbers as JSON")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each agent (default 3)")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    if parsed.worker:
        work_bsuite() if parsed.worker == BSUITE else work(parsed.worker)
        return 0
    from tdu.agents import AGENTS

    found: dict[str, list[float]] = {}
    for _ in range(parsed.rounds):
        for name in (BSUITE, *(name for name, entry in AGENTS.items() if not entry.is_recurrent)):
            (answer,) = workers.measure(__file__, [name])
            found.setdefault(name, []).append(round(answer["steps_per_second"], 1))
            print(f"{name}: {found[name][-1]:,.0f} steps/s", file=sys.stderr)
    rates = {name: statistics.median(values) for name, values in found.items()}
    print("| agent | steps/s | ratio to bsuite's DQN |\n|---|---|---|")
    for name, rate in rates.items():
        goal = f" (goal {GOAL:,})" if name in SINGLE else ""
        print(f"| {name} | {rate:,.0f}{goal} | {rate / rates[BSUITE]:.0f}× |")
    if parsed.out:
        report = {"command": "python benchmarks/agents_speed.py", "steps_per_second": rates, "every_measurement": found}
        parsed.out.write_text(json.dumps(report, indent=1) + "\n")
    return 0


def work(name: str) -> None:
    workers.timed(workers.compiled(name, f"deep_sea:size={SIZE}", WARM_UP), SECONDS)


def work_bsuite() -> None:
    warnings.simplefilter("ignore")
    from bsuite.baselines.jax.dqn.agent import default_agent
    from bsuite.environments.deep_sea import DeepSea

    env = DeepSea(SIZE, mapping_seed=42)
    step = workers.bsuite_loop(env, default_agent(env.observation_spec(), env.action_spec()))
    for _ in range(300):
        step()
    workers.timed(step, SECONDS)


if __name__ == "__main__":
    sys.exit(main())
