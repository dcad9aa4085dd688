"""Environment steps per second on bsuite's tasks: the same agents on compiled twins and on the official environments.

    python benchmarks/bsuite_speed.py --out results/bsuite_speed.json

Each family has one id. The agents are TDU and DQN with the paper's settings, TDU with heads on a shared network, and on
`cartpole/0` bsuite's own boot_dqn. Ours use one core, as in `tdu train`. boot_dqn uses the whole machine. Contenders are
warmed up once and take turns for `--rounds` rounds. Compare ratios, because machines are noisy. The default takes about
fifteen minutes. MNIST needs its files (`tdu mnist`) and is skipped without them.
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import workers

IDS = (
    "cartpole/0", "cartpole_swingup/0", "mountain_car/0", "catch/0", "catch_noise/0", "catch_scale/0", "bandit/0",
    "discounting_chain/0", "memory_len/10", "memory_size/10", "umbrella_length/10", "umbrella_distract/10", "mnist/0",
)  # fmt: skip
AGENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "tdu": ("tdu", {}),
    "tdu heads": ("tdu", {"ensemble": "heads"}),
    "dqn": ("dqn", {}),
}
BOOT_DQN = "boot_dqn"
GOAL = {"tdu heads": 5.0, BOOT_DQN: 100.0}
"""Goals of TDU with heads on the twin: speed relative to the official environment, and to boot_dqn on cartpole/0."""
WARM_UP = 1000
BSUITE_WARM_UP = 400


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="where to save the numbers as JSON")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each part (default 3)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement (default 2)")
    parser.add_argument("--ids", nargs="+", choices=IDS, default=list(IDS), help="these alone", metavar="ID")
    parser.add_argument("--worker", choices=WORKERS, help=argparse.SUPPRESS)
    parser.add_argument("--id", help=argparse.SUPPRESS)
    parser.add_argument("--agent", help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    if parsed.worker:
        WORKERS[parsed.worker](parsed.id, parsed.agent, parsed.seconds)
        return 0
    rates: dict[str, dict[str, dict[str, list[float]]]] = {}
    processor: dict[str, dict[str, dict[str, float]]] = {}
    started = time.monotonic()
    ids = [name for name in parsed.ids if name != "mnist/0" or _has_digits()]
    for done, name in enumerate(ids):
        pairs = [(kind, agent) for agent in AGENTS for kind in ("official", "twin")]
        pairs += [(BOOT_DQN, BOOT_DQN)] if name == "cartpole/0" else []
        contenders = {
            f"{kind} {agent}": workers.Contender(
                [kind, "--id", name, "--agent", agent, "--seconds", str(parsed.seconds)]
            )
            for kind, agent in pairs
        }
        found = workers.taking_turns(__file__, contenders, parsed.rounds)
        for kind, agent in pairs:
            answers = [answer for (answer,) in found[f"{kind} {agent}"]]
            rates.setdefault(name, {}).setdefault(agent, {})[kind] = [round(a["steps_per_second"], 1) for a in answers]
            milliseconds = statistics.median(a["processor_ms"] for a in answers)
            processor.setdefault(name, {}).setdefault(agent, {})[kind] = round(milliseconds, 4)
        left = (time.monotonic() - started) / (done + 1) * (len(ids) - done - 1)
        print(f"{name}: {_ratios(_medians(rates)[name])} ({left / 60:.1f} min left)", file=sys.stderr)
    report = {
        "command": "python benchmarks/bsuite_speed.py",
        "machine": workers.machine(),
        "steps_per_second": _medians(rates),
        "ratio": {name: _ratios(agents) for name, agents in _medians(rates).items()},
        "ratio_of_processor_time": {
            name: _ratios({a: {k: 1 / ms for k, ms in values.items()} for a, values in agents.items()})
            for name, agents in processor.items()
        },
        "goal": GOAL,
        "processor_ms_per_step": processor,
        "every_measurement": rates,
    }
    print(as_text(report))
    if parsed.out:
        parsed.out.write_text(json.dumps(report, indent=1) + "\n")
    return 0


def _has_digits() -> bool:
    from tdu.environments import mnist_files

    found = all((mnist_files.digits_folder() / file).is_file() for file in mnist_files.MNIST_FILES)
    if not found:
        print("mnist/0 is left out: its files are missing; see tdu mnist.", file=sys.stderr)
    return found


def _medians(rates: dict) -> dict:
    return {
        name: {agent: {kind: statistics.median(v) for kind, v in values.items()} for agent, values in agents.items()}
        for name, agents in rates.items()
    }


def _ratios(agents: dict[str, dict[str, float]]) -> dict[str, float]:
    """Ratio of twin to official for every agent, and of TDU with heads on the twin to boot_dqn."""
    found = {
        agent: round(values["twin"] / values["official"], 1) for agent, values in agents.items() if agent in AGENTS
    }
    if BOOT_DQN in agents:
        found[BOOT_DQN] = round(agents["tdu heads"]["twin"] / agents[BOOT_DQN][BOOT_DQN], 1)
    return found


def as_text(report: dict) -> str:
    head = [part for agent in AGENTS for part in (f"{agent}, official", f"{agent}, twin", "ratio", "processor time")]
    lines = ["| id | " + " | ".join(head) + " |", "|---|" + "---|" * len(head)]
    for name, agents in report["steps_per_second"].items():
        cells = []
        for agent in AGENTS:
            cells += [f"{agents[agent]['official']:,.0f}", f"{agents[agent]['twin']:,.0f}"]
            cells += [f"{report['ratio'][name][agent]}×", f"{report['ratio_of_processor_time'][name][agent]}×"]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines.append("\nSteps per second, and how many times the speed of the official environment the twin has.")
    if BOOT_DQN in report["ratio"].get("cartpole/0", {}):
        rate = report["steps_per_second"]["cartpole/0"][BOOT_DQN][BOOT_DQN]
        ratio = report["ratio"]["cartpole/0"][BOOT_DQN]
        lines.append(
            f"cartpole/0: bsuite's boot_dqn {rate:,.0f} steps/s; TDU with heads on the twin {ratio} times that."
        )
    return "\n".join(lines)


def work_twin(name: str, agent: str, seconds: float) -> None:
    """Our agent on the compiled twin."""
    its_name, options = AGENTS[agent]
    workers.timed(workers.compiled(its_name, name, WARM_UP, **options), seconds)


def work_official(name: str, agent: str, seconds: float) -> None:
    """The same agent on bsuite's environment."""
    its_name, options = AGENTS[agent]
    runner, advance = workers.stepwise(its_name, name, **options)
    while runner.clock.steps < WARM_UP:
        advance()
    workers.timed(advance, seconds)


def work_boot_dqn(name: str, agent: str, seconds: float) -> None:
    """bsuite's boot_dqn with the paper's settings."""
    del agent
    from tdu import environments

    env = environments.make(f"bsuite:{name}").environments[0]._env
    step = workers.bsuite_loop(env, workers.boot_dqn(env))
    for _ in range(BSUITE_WARM_UP):
        step()
    workers.timed(step, seconds)


WORKERS = {"twin": work_twin, "official": work_official, BOOT_DQN: work_boot_dqn}


if __name__ == "__main__":
    sys.exit(main())
