"""Environment steps per second on bsuite's own environments: bsuite's JAX boot_dqn and TDU, measured in one run.

    python benchmarks/stepwise_speed.py --out results/stepwise_speed.json

Both have the paper's settings (20 members, 64-64, batch 32, a learning step per environment step) on the same official
environments, which are Python code. bsuite's agent uses the whole machine, ours one core. Contenders are warmed up once and
take turns for `--rounds` rounds. Compare ratios, because machines are noisy. "limit" is the speed of the matrix products of a
learning step alone. With `--before COMMIT`, "before" is the code of that commit. Three rounds of everything with `--before`
take about ten minutes, `--rounds 1 --seconds 2` takes six.
"""

import argparse
import contextlib
import json
import statistics
import sys
import time
from pathlib import Path

import workers

IDS = (
    "cartpole/0",
    "catch/0",
    "mountain_car/0",
    "bandit/0",
    "discounting_chain/0",
    "umbrella_length/0",
    "memory_len/0",
)
GOAL = {"cartpole/0": 10}
SECONDS = 3.0
WARM_UP = 400


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="where to save the numbers as JSON")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each part (default 3)")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"of each measurement (default {SECONDS:g})")
    parser.add_argument("--before", metavar="COMMIT", help="also measure that commit")
    parser.add_argument("--worker", choices=WORKERS, help=argparse.SUPPRESS)
    parser.add_argument("--id", help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    if parsed.worker:
        WORKERS[parsed.worker](parsed.id, parsed.seconds)
        return 0
    found: dict[str, dict[str, list[float]]] = {}
    processor: dict[str, dict[str, float]] = {}
    started = time.monotonic()
    with workers.checked_out(parsed.before) as before:
        for done, name in enumerate((*IDS, "any")):
            parts = (
                ("limit",) if name == "any" else ("bsuite", "before", "ours") if parsed.before else ("bsuite", "ours")
            )
            contenders = {}
            for part in parts:
                worker = "ours" if part == "before" else part
                arguments = [worker, "--id", name, "--seconds", str(parsed.seconds)]
                contenders[part] = workers.Contender(arguments, before if part == "before" else None)
            for part, every_round in workers.taking_turns(__file__, contenders, parsed.rounds).items():
                answers = [answer for (answer,) in every_round]
                found.setdefault(part, {})[name] = [round(a["steps_per_second"], 1) for a in answers]
                median = statistics.median(a["processor_ms"] for a in answers)
                processor.setdefault(part, {})[name] = round(median, 3)
            left = (time.monotonic() - started) / (done + 1) * (len(IDS) - done)
            rates_now = ", ".join(f"{part} {statistics.median(found[part][name]):,.0f}" for part in parts)
            print(f"{name}: {rates_now} steps/s ({left / 60:.1f} min left)", file=sys.stderr)
    rates = {part: {name: statistics.median(v) for name, v in names.items()} for part, names in found.items()}
    ratios = {name: round(rates["ours"][name] / rates["bsuite"][name], 1) for name in IDS}
    print("| id | bsuite boot_dqn | ours | ratio |\n|---|---|---|---|")
    for name in IDS:
        goal = f" (goal {GOAL[name]}×)" if name in GOAL else ""
        print(f"| {name} | {rates['bsuite'][name]:,.0f} | {rates['ours'][name]:,.0f} | {ratios[name]}×{goal} |")
    print(f"\nSteps per second. Limit (matrix products alone, one core): {rates['limit']['any']:,.0f}.")
    to_before = {name: round(rates["ours"][name] / rate, 2) for name, rate in rates.get("before", {}).items()}
    for name, ratio in to_before.items():
        print(f"{name}: {ratio} times the speed of the commit before.")
    if parsed.out:
        report = {
            "command": "python benchmarks/stepwise_speed.py",
            "machine": workers.machine(),
            "steps_per_second": rates,
            "ratio_to_bsuite": ratios,
            "goal": GOAL,
            "ratio_to_before": to_before,
            "processor_ms_per_step": processor,
            "every_measurement": found,
        }
        parsed.out.write_text(json.dumps(report, indent=1) + "\n")
    return 0


def work_bsuite(name: str, seconds: float) -> None:
    """bsuite's boot_dqn with the paper's settings."""
    import bsuite

    with contextlib.redirect_stdout(sys.stderr):  # it prints what it loads
        env = bsuite.load_from_id(name)
    step = workers.bsuite_loop(env, workers.boot_dqn(env))
    for _ in range(WARM_UP):
        step()
    workers.timed(step, seconds)


def work_ours(name: str, seconds: float) -> None:
    """TDU with the paper's settings."""
    runner, advance = workers.stepwise("tdu", name)
    while runner.clock.steps < WARM_UP:
        advance()
    workers.timed(advance, seconds)


def work_limit(name: str, seconds: float) -> None:
    """The matrix products of a learning step alone."""
    del name
    workers.timed(workers.products(), seconds)


WORKERS = {"bsuite": work_bsuite, "ours": work_ours, "limit": work_limit}


if __name__ == "__main__":
    sys.exit(main())
