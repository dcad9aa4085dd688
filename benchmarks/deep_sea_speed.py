"""Environment steps per second on Deep Sea: bsuite's own JAX boot_dqn against ours, side by side in one run.

    python benchmarks/deep_sea_speed.py --out results/bench.json

Both learn with the paper's hyper-parameters (20 members, 64-64, batch 32, a learning step per environment step). bsuite's
agent gets the whole machine; ours runs once on one core ("single") and once per core at the same time ("per core", summed
over the machine). Ours is measured with a full replay and a visited table. The parts take turns and each is measured
`--rounds` times, because machines are noisy: look at the ratios. "limit" is the speed of a loop with nothing but the
matrix products of a learning step. With `--before COMMIT`, "before" is the code of that commit on one core.
"""

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

import workers

SIZES = (10, 20, 50)
OURS_ALSO = (100,)
REQUIRED = {"single": {10: 14, 20: 18, 50: 40}, "per core": {10: 27, 20: 35, 50: 80}}
SECONDS = 6.0
WARM_UP = 11_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="where to save the numbers as JSON")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each part (default 3)")
    parser.add_argument("--before", metavar="COMMIT", help="measure that commit beside the present code")
    parser.add_argument("--worker", choices=("bsuite", "ours", "limit"), help=argparse.SUPPRESS)
    parser.add_argument("--size", type=int, help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    if parsed.worker:
        WORKERS[parsed.worker](parsed.size)
        return 0
    cores = os.cpu_count() or 1
    found: dict[str, dict] = {"bsuite": {}, "single": {}, "per core": {}, "limit": {}}
    memory = {}
    ours = ("before", "single", "per core") if parsed.before else ("single", "per core")
    plan = [(s, part) for s in SIZES for _ in range(parsed.rounds) for part in ("bsuite", *ours)]
    plan += [(s, part) for s in OURS_ALSO for _ in range(parsed.rounds) for part in ours]
    plan += [(SIZES[0], "limit")] * parsed.rounds
    started = time.monotonic()
    with workers.checked_out(parsed.before) as before:
        for done, (size, part) in enumerate(plan):
            worker, count = {"before": ("ours", 1), "single": ("ours", 1), "per core": ("ours", cores)}.get(
                part, (part, 1)
            )
            tree = before if part == "before" else None
            answers = workers.measure(__file__, [worker, "--size", str(size)], count, tree)
            found.setdefault(part, {}).setdefault(size, []).append(sum(a["steps_per_second"] for a in answers))
            if worker == "ours" and tree is None:
                memory[size] = max(memory.get(size, 0), *(a["megabytes"] for a in answers))
            left = (time.monotonic() - started) / (done + 1) * (len(plan) - done - 1)
            print(f"{part} {size}: {found[part][size][-1]:,.0f} steps/s ({left / 60:.1f} min left)", file=sys.stderr)
    report = summarise(found, memory, parsed.before)
    print(as_text(report))
    if parsed.out:
        parsed.out.parent.mkdir(parents=True, exist_ok=True)
        parsed.out.write_text(json.dumps(report, indent=1) + "\n")
    return 0


def work_bsuite(size: int) -> None:
    """bsuite's boot_dqn with the paper's settings."""
    from bsuite.environments.deep_sea import DeepSea

    env = DeepSea(size, mapping_seed=42)
    step = workers.bsuite_loop(env, workers.boot_dqn(env))
    for _ in range(160):
        step()
    workers.timed(step, SECONDS)


def work_ours(size: int) -> None:
    """TDU with the paper's settings."""
    workers.timed(workers.compiled("tdu", size, WARM_UP), SECONDS)


def work_limit(size: int) -> None:
    """Only the matrix products of a learning step."""
    del size
    workers.timed(workers.products(), SECONDS)


WORKERS = {"bsuite": work_bsuite, "ours": work_ours, "limit": work_limit}


def summarise(found: dict, memory: dict, before: str | None) -> dict:
    rates = {part: {size: round(statistics.median(v), 1) for size, v in sizes.items()} for part, sizes in found.items()}
    ratios = {part: {size: round(rates[part][size] / rates["bsuite"][size], 1) for size in SIZES} for part in REQUIRED}
    return {
        "command": "make bench" if before is None else f"python benchmarks/deep_sea_speed.py --before {before}",
        "machine": workers.machine(),
        "steps_per_second": rates,
        "every_measurement": {p: {s: [round(x, 1) for x in v] for s, v in sizes.items()} for p, sizes in found.items()},
        "ratio_to_bsuite": ratios,
        "required_ratio": REQUIRED,
        "ratio_to_before": {s: round(rates["single"][s] / rate, 2) for s, rate in rates.get("before", {}).items()},
        "size_100_relative_to_size_10": round(rates["single"][100] / rates["single"][10], 2),
        "peak_megabytes": memory,
    }


def as_text(report: dict) -> str:
    rates, ratios = report["steps_per_second"], report["ratio_to_bsuite"]
    lines = [
        "| size | bsuite boot_dqn | ours, one core | ratio | ours, every core | ratio | memory |",
        "|" + "---|" * 7,
    ]
    for size in (*SIZES, *OURS_ALSO):
        theirs = f"{rates['bsuite'][size]:,.0f}" if size in rates["bsuite"] else "–"
        cells = [str(size), theirs]
        for part in REQUIRED:
            ratio = f"{ratios[part][size]}× (asked {REQUIRED[part][size]}×)" if size in ratios[part] else "–"
            cells += [f"{rates[part][size]:,.0f}", ratio]
        lines.append("| " + " | ".join([*cells, f"{report['peak_megabytes'][size]} MB"]) + " |")
    limit = next(iter(rates["limit"].values()))
    lines.append(f"\nSteps per second. Limit (matrix products alone, one core): {limit:,.0f}.")
    for size, ratio in report["ratio_to_before"].items():
        lines.append(f"Size {size}: {ratio} times the speed of the commit before, on one core.")
    lines.append(f"Size 100 runs at {report['size_100_relative_to_size_10']} of the speed of size 10.")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
