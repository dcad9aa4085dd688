"""Environment steps per second on bsuite's own environments: bsuite's JAX boot_dqn against ours, side by side in one run.

    python benchmarks/stepwise_speed.py --out results/stepwise_speed.json

Both learn with the paper's hyper-parameters (20 members, 64-64, batch 32, a learning step per environment step) on the same
official environments, which live in Python. bsuite's agent gets the whole machine, ours one core. The parts take turns
and each is measured `--rounds` times, because machines are noisy: look at the ratios. "limit" is the speed of a loop with
nothing but the matrix products of a learning step.
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
ASKED = {"cartpole/0": 10}
SECONDS = 5.0
WARM_UP = 400


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="where to save the numbers as JSON")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each part (default 3)")
    parser.add_argument("--worker", choices=WORKERS, help=argparse.SUPPRESS)
    parser.add_argument("--id", help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    if parsed.worker:
        WORKERS[parsed.worker](parsed.id)
        return 0
    plan = [(part, name) for name in IDS for _ in range(parsed.rounds) for part in ("bsuite", "ours")]
    plan += [("limit", "any")] * parsed.rounds
    found: dict[str, dict[str, list[float]]] = {part: {} for part in WORKERS}
    started = time.monotonic()
    for done, (part, name) in enumerate(plan):
        (answer,) = workers.measure(__file__, [part, "--id", name])
        found[part].setdefault(name, []).append(round(answer["steps_per_second"], 1))
        left = (time.monotonic() - started) / (done + 1) * (len(plan) - done - 1)
        print(f"{part} {name}: {found[part][name][-1]:,.0f} steps/s ({left / 60:.1f} min left)", file=sys.stderr)
    rates = {part: {name: statistics.median(v) for name, v in names.items()} for part, names in found.items()}
    ratios = {name: round(rates["ours"][name] / rates["bsuite"][name], 1) for name in IDS}
    print("| id | bsuite boot_dqn | ours | ratio |\n|---|---|---|---|")
    for name in IDS:
        asked = f" (asked {ASKED[name]}×)" if name in ASKED else ""
        print(f"| {name} | {rates['bsuite'][name]:,.0f} | {rates['ours'][name]:,.0f} | {ratios[name]}×{asked} |")
    print(f"\nSteps per second. Limit (matrix products alone, one core): {rates['limit']['any']:,.0f}.")
    if parsed.out:
        report = {
            "command": "python benchmarks/stepwise_speed.py",
            "machine": workers.machine(),
            "steps_per_second": rates,
            "ratio_to_bsuite": ratios,
            "asked": ASKED,
            "every_measurement": found,
        }
        parsed.out.write_text(json.dumps(report, indent=1) + "\n")
    return 0


def work_bsuite(name: str) -> None:
    """bsuite's boot_dqn with the paper's settings."""
    import bsuite

    with contextlib.redirect_stdout(sys.stderr):  # it says what it loads
        env = bsuite.load_from_id(name)
    step = workers.bsuite_loop(env, workers.boot_dqn(env))
    for _ in range(WARM_UP):
        step()
    workers.timed(step, SECONDS)


def work_ours(name: str) -> None:
    """TDU with the paper's settings."""
    runner, advance = workers.stepwise("tdu", name)
    while runner.clock.steps < WARM_UP:
        advance()
    workers.timed(advance, SECONDS)


def work_limit(name: str) -> None:
    """Only the matrix products of a learning step."""
    del name
    workers.timed(workers.products(), SECONDS)


WORKERS = {"bsuite": work_bsuite, "ours": work_ours, "limit": work_limit}


if __name__ == "__main__":
    sys.exit(main())
