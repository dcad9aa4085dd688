"""Environment steps per second on Deep Sea: bsuite's own JAX boot_dqn and TDU, measured in one run.

    python benchmarks/deep_sea_speed.py --out results/bench.json

Both have the paper's settings (20 members, 64-64, batch 32, a learning step per environment step). bsuite's agent uses the
whole machine. Ours runs on one core ("single"), and on every core at the same time ("per core", summed), with a full replay
and a visited table. Large batches and wide ensembles are measured on one core after fewer steps. Contenders are warmed up
once and take turns for `--rounds` rounds. Compare ratios, because machines are noisy. With `--before COMMIT`, "before" is
the code of that commit on one core.

Each case has two limits. "products" is the speed of the matrix products of a learning step alone. "bytes" is the speed at
which memory moves what a step reads and writes. Three rounds of everything with `--before` take a quarter of an hour on two
cores. `--rounds 1` or a selection (`--cases 30x128 50x128`) takes less.
"""

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import workers

SIZES = (10, 20, 50)
REQUIRED = {"single": {10: 14, 20: 18, 50: 40}, "per core": {10: 27, 20: 35, 50: 80}}
SECONDS = 4.0
WARM_UP = 11_000


class Case(NamedTuple):
    """A measured setting."""

    size: int
    batch: int = 32
    heads: int = 20
    preset: str = "paper"
    warm_up: int = 2_000
    ensemble: str | None = None
    """Replaces the preset's ensemble."""
    replay: int | None = None
    """Replaces the preset's capacity. The replay is filled before the measurement."""

    @property
    def width(self) -> int:
        """Width of the hidden layers."""
        return {"boot_dqn": 50, "deep": 128}.get(self.preset, 64)

    @property
    def networks(self) -> int:
        """Number of networks that a learning step trains."""
        ensemble = self.ensemble or ("heads" if self.preset == "deep" else "networks")
        return 1 if ensemble == "heads" else self.heads

    def options(self) -> dict[str, Any]:
        """Options of the agent, in addition to its preset."""
        found: dict[str, Any] = {
            "batch_size": self.batch, "exploiters": self.heads // 2, "explorers": self.heads // 2,
        }  # fmt: skip
        found |= {"ensemble": self.ensemble} if self.ensemble else {}
        return found | ({"replay_capacity": self.replay} if self.replay else {})


CASES = {
    "10": Case(10, warm_up=WARM_UP),
    "20": Case(20, warm_up=WARM_UP),
    "50": Case(50, warm_up=WARM_UP),
    "100": Case(100, warm_up=WARM_UP),
    "30x128": Case(30, 128),
    "30x128 boot_dqn": Case(30, 128, preset="boot_dqn"),
    "50x128": Case(50, 128),
    "20, 40 heads": Case(20, heads=40),
    "20, 80 heads": Case(20, heads=80),
    "50 trunk": Case(50, ensemble="heads", warm_up=12_000),
    "50x128 trunk": Case(50, 128, ensemble="heads", warm_up=12_000),
    "50x128 trunk, replay 10^6": Case(50, 128, ensemble="heads", warm_up=1_050_000, replay=1_000_000),
    "10 deep": Case(10, 128, preset="deep", warm_up=12_000),
    "50 deep": Case(50, 128, preset="deep", warm_up=12_000),
    "50 deep, networks": Case(50, 128, preset="deep", ensemble="networks"),
    "100 deep": Case(100, 128, preset="deep", warm_up=12_000),
}
"""Named by size and, if changed, batch (32), heads (20), preset and replay. `trunk` has heads on a shared network."""

TRUNK_RATIOS = {
    "preset deep, heads times networks": ("50 deep", "50 deep, networks", 10.0),
    "64-64 at batch 128, heads times networks": ("50x128 trunk", "50x128", 10.0),
    "64-64 at batch 32, heads times networks": ("50 trunk", "50", 8.0),
    "replay of 10^6 to 10^4": ("50x128 trunk, replay 10^6", "50x128 trunk", 0.9),
    "preset deep, size 100 to 10": ("100 deep", "10 deep", 0.7),
}
"""Pairs of cases, and the ratio of their speeds that is required."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="where to save the numbers as JSON")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each part (default 3)")
    parser.add_argument("--before", metavar="COMMIT", help="also measure that commit")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES), help="these alone", metavar="CASE")
    parser.add_argument("--worker", choices=("bsuite", "ours", "limit"), help=argparse.SUPPRESS)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    if parsed.worker:
        WORKERS[parsed.worker](CASES[parsed.case])
        return 0
    found: dict[str, dict[str, list[float]]] = {}
    memory: dict[str, int] = {}
    started = time.monotonic()
    with workers.checked_out(parsed.before) as before:
        for done, name in enumerate(parsed.cases):
            contenders = contenders_of(name, before)
            for part, every_round in workers.taking_turns(__file__, contenders, parsed.rounds).items():
                rates = [sum(a["steps_per_second"] for a in answers) for answers in every_round]
                found.setdefault(part, {})[name] = [round(rate, 1) for rate in rates]
                if part in ("single", "per core"):
                    largest = max(a["megabytes"] for answers in every_round for a in answers)
                    memory[name] = max(memory.get(name, 0), largest)
            left = (time.monotonic() - started) / (done + 1) * (len(parsed.cases) - done - 1)
            medians = ", ".join(f"{part} {statistics.median(found[part][name]):,.0f}" for part in contenders)
            print(f"{name}: {medians} steps/s ({left / 60:.1f} min left)", file=sys.stderr)
    report = summarise(found, memory, parsed.before, workers.bytes_per_second())
    print(as_text(report))
    if parsed.out:
        parsed.out.parent.mkdir(parents=True, exist_ok=True)
        parsed.out.write_text(json.dumps(report, indent=1) + "\n")
    return 0


def contenders_of(name: str, before: Path | None) -> dict[str, workers.Contender]:
    case = ["--case", name]
    single = {"single": workers.Contender(["ours", *case])}
    if before is not None:
        single = {"before": workers.Contender(["ours", *case], before)} | single
    limit = {"products": workers.Contender(["limit", *case])}
    if CASES[name].warm_up != WARM_UP:
        return single | limit
    theirs = {"bsuite": workers.Contender(["bsuite", *case])} if CASES[name].size in SIZES else {}
    return theirs | single | {"per core": workers.Contender(["ours", *case], count=os.cpu_count() or 1)} | limit


def work_bsuite(case: Case) -> None:
    """bsuite's boot_dqn with the paper's settings."""
    from bsuite.environments.deep_sea import DeepSea

    env = DeepSea(case.size, mapping_seed=42)
    step = workers.bsuite_loop(env, workers.boot_dqn(env))
    for _ in range(160):
        step()
    workers.timed(step, SECONDS)


def work_ours(case: Case) -> None:
    """TDU with the options of the case."""
    chunk = 100 if case.warm_up < WARM_UP else 1000
    env_id = f"deep_sea:size={case.size}"
    advance = workers.compiled("tdu", env_id, case.warm_up, chunk, case.preset, **case.options())
    workers.timed(advance, SECONDS)


def work_limit(case: Case) -> None:
    """The matrix products of a learning step alone."""
    workers.timed(workers.products(case.networks, case.batch, case.width), SECONDS / 4)


WORKERS = {"bsuite": work_bsuite, "ours": work_ours, "limit": work_limit}


def summarise(found: dict, memory: dict, before: str | None, bytes_per_second: float) -> dict:
    rates = {part: {name: round(statistics.median(v), 1) for name, v in names.items()} for part, names in found.items()}
    rates["bytes"] = {
        name: round(
            bytes_per_second / workers.bytes_of_a_step(CASES[name].networks, CASES[name].batch, CASES[name].width), 1
        )
        for name in rates["single"]
    }

    def ratio(part: str, to: str) -> dict[str, float]:
        pairs = {name: (rate, rates.get(to, {}).get(name)) for name, rate in rates.get(part, {}).items()}
        return {name: round(rate / other, 2) for name, (rate, other) in pairs.items() if other}

    return {
        "command": "make bench" if before is None else f"python benchmarks/deep_sea_speed.py --before {before}",
        "machine": workers.machine(),
        "gigabytes_per_second": round(bytes_per_second / 1e9, 1),
        "steps_per_second": rates,
        "every_measurement": found,
        "ratio_to_bsuite": {part: ratio(part, "bsuite") for part in REQUIRED},
        "required_ratio": REQUIRED,
        "ratio_to_before": ratio("single", "before"),
        "ratios_of_heads_on_a_trunk": {
            words: round(rates["single"][first] / rates["single"][second], 2)
            for words, (first, second, _) in TRUNK_RATIOS.items()
            if {first, second} <= rates["single"].keys()
        },
        "microseconds_per_head": {n: round(1e6 / r / CASES[n].heads, 1) for n, r in rates["single"].items()},
        "peak_megabytes": memory,
    }


def as_text(report: dict) -> str:
    rates, memory = report["steps_per_second"], report["peak_megabytes"]
    columns = ("bsuite", "before", "single", "per core", "products", "bytes")
    head = [
        "Deep Sea",
        *("bsuite boot_dqn", "before", "ours, one core", "ours, every core", "limit: products", "limit: bytes"),
    ]
    lines = ["| " + " | ".join([*head, "per head", "memory"]) + " |", "|" + "---|" * (len(head) + 2)]
    for name in rates["single"]:
        cells = [f"{rates[c][name]:,.0f}" if name in rates.get(c, {}) else "–" for c in columns]
        cells += [f"{report['microseconds_per_head'][name]} µs", f"{memory[name]} MB"]
        lines.append("| " + " | ".join([name, *cells]) + " |")
    lines.append(f"\nSteps per second; memory moves {report['gigabytes_per_second']} GB/s.")
    for part, ratios in report["ratio_to_bsuite"].items():
        for name, ratio in ratios.items():
            lines.append(f"{name}, {part}: {ratio} times bsuite's speed (goal {REQUIRED[part][int(name)]}).")
    for name, ratio in report["ratio_to_before"].items():
        lines.append(f"{name}: {ratio} times the speed of the commit before, on one core.")
    for words, found in report["ratios_of_heads_on_a_trunk"].items():
        lines.append(f"{words}: {found} (goal {TRUNK_RATIOS[words][2]}).")
    if {"10", "100"} <= rates["single"].keys():
        lines.append(f"Size 100 runs at {rates['single']['100'] / rates['single']['10']:.2f} of the speed of size 10.")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
