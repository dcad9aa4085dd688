"""Environment steps per second of every agent on Deep Sea 20, compiled, on one core; bsuite's own JAX DQN beside them.

    python benchmarks/agents_speed.py --out results/agents_speed.json

Each agent is measured in a process of its own with a full replay, `--rounds` times in turn; the table has medians.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path

SIZE = 20
SECONDS = 3.0
WARM_UP = 11_000
SINGLE = ("dqn", "qex", "cts", "rnd", "nns", "su", "tdu_ac")
ASKED = 10_000
BSUITE = "bsuite dqn"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="where to save the numbers as JSON")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each agent (default 3)")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    if parsed.worker:
        print(work_bsuite() if parsed.worker == BSUITE else work(parsed.worker))
        return 0
    from tdu.agents import AGENTS

    found: dict[str, list[float]] = {}
    for _ in range(parsed.rounds):
        for name in (BSUITE, *AGENTS):
            command = [sys.executable, __file__, "--worker", name]
            answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            found.setdefault(name, []).append(round(float(answer.split()[-1]), 1))
            print(f"{name}: {found[name][-1]:,.0f} steps/s", file=sys.stderr)
    rates = {name: statistics.median(values) for name, values in found.items()}
    print("| agent | steps/s | beside bsuite's DQN |\n|---|---|---|")
    for name, rate in rates.items():
        asked = f" (asked {ASKED:,})" if name in SINGLE[:5] else ""
        print(f"| {name} | {rate:,.0f}{asked} | {rate / rates[BSUITE]:.0f}× |")
    if parsed.out:
        report = {"command": "python benchmarks/agents_speed.py", "steps_per_second": rates, "every_measurement": found}
        parsed.out.write_text(json.dumps(report, indent=1) + "\n")
    return 0


def work(name: str) -> float:
    from tdu import agents, environments
    from tdu.runners.compiled import CHUNK, CompiledRunner
    from tdu.runners.parallel import use_one_core

    use_one_core()
    env = environments.make(f"deep_sea:size={SIZE}")
    agent = agents.find(name).make(env.spec, agents.configure(name, {}))
    runner = CompiledRunner(env, agent, 0, episodes=10**9, stop=False)
    while runner.steps < WARM_UP:
        runner.advance()
    started, steps = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - started) < SECONDS:
        runner.advance()
        steps += CHUNK
    return steps / elapsed


def work_bsuite() -> float:
    warnings.simplefilter("ignore")
    from bsuite.baselines.jax.dqn.agent import default_agent
    from bsuite.environments.deep_sea import DeepSea

    env = DeepSea(SIZE, mapping_seed=42)
    agent = default_agent(env.observation_spec(), env.action_spec())
    now, steps, started = env.reset(), 0, 0.0
    while True:
        if now.last():
            now = env.reset()
        action = agent.select_action(now)
        after = env.step(action)
        agent.update(now, action, after)
        now, steps = after, steps + 1
        if steps == 300:
            started = time.perf_counter()
        if steps > 300 and time.perf_counter() - started > SECONDS:
            return (steps - 300) / (time.perf_counter() - started)


if __name__ == "__main__":
    sys.exit(main())
