"""Learning steps per second on images: heads on a shared network, separate networks, and DQN, with the preset general.

    python benchmarks/heads_images.py --out results/heads_images.json

MinAtar is compiled (gymnax). MiniGrid is stepped from Python, and its image becomes a vector. Key and door has an image for
convolutions. Contenders are warmed up once and take turns for `--rounds` rounds, on one core each.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import workers

SECONDS = 4.0
WARM_UP = 600
ENVS = {
    "MinAtar Breakout": "gymnax:Breakout-MinAtar",
    "key and door 8, image": "key_door:size=8,limit=80,observation=image",
    "MiniGrid Empty 8x8": "gym:MiniGrid-Empty-8x8-v0",
}
AGENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "tdu, heads": ("tdu", {"ensemble": "heads"}),
    "tdu, networks": ("tdu", {}),
    "dqn": ("dqn", {}),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="where to save the numbers as JSON")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each (default 3)")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    if parsed.worker:
        work(ENVS[parsed.worker[0]], *AGENTS[parsed.worker[1]])
        return 0
    rates: dict[str, dict[str, float]] = {}
    for env in ENVS:
        contenders = {agent: workers.Contender([env, agent]) for agent in AGENTS}
        found = workers.taking_turns(__file__, contenders, parsed.rounds)
        rates[env] = {
            agent: round(statistics.median(one["steps_per_second"] for (one,) in every), 1)
            for agent, every in found.items()
        }
        print(f"{env}: {rates[env]}", file=sys.stderr)
    print("| task | heads | networks | dqn | heads / networks | heads / dqn |\n|---|---|---|---|---|---|")
    for env, speeds in rates.items():
        heads, networks, dqn = speeds.values()
        print(f"| {env} | {heads:,.0f} | {networks:,.0f} | {dqn:,.0f} | {heads / networks:.1f} | {heads / dqn:.2f} |")
    if parsed.out:
        report = {
            "command": f"python benchmarks/heads_images.py --rounds {parsed.rounds}",
            "machine": workers.machine(),
            "steps_per_second": rates,
        }
        parsed.out.write_text(json.dumps(report, indent=1) + "\n")
    return 0


def work(env_id: str, name: str, options: dict[str, Any]) -> None:
    from tdu.run.processes import use_one_core

    use_one_core()
    from tdu.run.plan import make_runner, plan

    planned = plan(env_id, name, steps=10**9, until="budget", **options)
    runner, _ = make_runner(planned.config, planned.env)

    def advance() -> int:
        before = runner.clock.steps
        runner.advance()
        return runner.clock.steps - before

    while runner.clock.steps < WARM_UP:
        advance()
    workers.timed(advance, SECONDS)


if __name__ == "__main__":
    sys.exit(main())
