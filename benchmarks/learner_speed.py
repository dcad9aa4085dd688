"""Environment steps per second on Deep Sea as batch, width and heads grow: this code beside another commit's and its limits.

    python benchmarks/learner_speed.py --before COMMIT --out results/learner_speed.json

For each case the workers warm up together and are then measured in turn, `--rounds` times, on one core; the table has
medians. "products" is a loop with nothing but the hidden layers' matrix products of a learning step. "bytes" is the time
that a step's rows and weights would take at the speed of a large copy, if each were moved once.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import NamedTuple

import workers


class Case(NamedTuple):
    size: int
    batch: int = 32
    width: int = 64
    heads: int = 20

    def __str__(self) -> str:
        return f"size {self.size}, batch {self.batch}, {self.width}-{self.width}, {self.heads} heads"

    @property
    def bytes(self) -> int:
        """Rows of s read in three slots and written in four, of s' read in three; weights, moments and targets."""
        rows = 10 * self.batch * self.heads * self.width
        return 4 * (rows + 8 * self.heads * self.width**2)


CASES = (
    Case(30, batch=128),
    Case(30, batch=128, width=50),
    Case(50, batch=128),
    Case(50, batch=128, width=50),
    Case(10),
    Case(20),
    Case(50),
    Case(100),
    Case(20, heads=40),
    Case(20, heads=80),
)
SECONDS = 2.0
WARM_UP = 3000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="where to save the numbers as JSON")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each part (default 3)")
    parser.add_argument("--before", metavar="COMMIT", help="measure that commit beside the present code")
    parser.add_argument("--worker", choices=WORKERS, help=argparse.SUPPRESS)
    parser.add_argument("--case", type=int, help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    if parsed.worker:
        WORKERS[parsed.worker](CASES[parsed.case])
        return 0
    rows = []
    with workers.checked_out(parsed.before) as before:
        parts = {"now": ("ours", None), "products": ("products", None), "copy": ("copy", None)}
        if before is not None:
            parts = {"before": ("ours", before)} | parts
        for number, case in enumerate(CASES):
            started = {
                part: workers.start(__file__, [worker, "--case", str(number)], tree)
                for part, (worker, tree) in parts.items()
            }
            rates = workers.in_turn(started, parsed.rounds)
            rows.append({"case": str(case), **case._asdict(), "every_measurement": rates} | summary(case, rates))
            print(as_row(rows[-1]), file=sys.stderr, flush=True)
    print("| case | before | now | ratio | products alone | bytes alone |\n|---|---|---|---|---|---|")
    print("\n".join(as_row(row) for row in rows))
    if parsed.out:
        report = {"command": " ".join(["python", *sys.argv]), "machine": workers.machine(), "cases": rows}
        parsed.out.write_text(json.dumps(report, indent=1) + "\n")
    return 0


def summary(case: Case, rates: dict[str, list[float]]) -> dict:
    median = {part: statistics.median(values) for part, values in rates.items()}
    found = {"now": median["now"], "products": median["products"], "bytes": median["copy"] / case.bytes}
    if "before" in median:
        found |= {"before": median["before"], "ratio": median["now"] / median["before"]}
    return {name: round(number, 2 if name == "ratio" else 1) for name, number in found.items()}


def as_row(row: dict) -> str:
    before, ratio = (f"{row[name]:,}" if name in row else "–" for name in ("before", "ratio"))
    return f"| {row['case']} | {before} | {row['now']:,} | {ratio} | {row['products']:,} | {row['bytes']:,} |"


def work_ours(case: Case) -> None:
    """TDU; half of the heads explore."""
    options = {"batch_size": case.batch, "hidden_sizes": (case.width,) * 2}
    options |= {"exploiters": case.heads // 2, "explorers": case.heads // 2}
    workers.timed_in_turn(workers.compiled("tdu", case.size, WARM_UP, **options), SECONDS)


def work_products(case: Case) -> None:
    """Only the matrix products of a learning step."""
    workers.timed_in_turn(workers.products(case.heads, case.batch, case.width), SECONDS)


def work_copy(case: Case) -> None:
    """Bytes read and written by a large copy."""
    import numpy as np

    del case
    source = np.ones(1 << 23, np.float32)
    to = np.empty_like(source)

    def copy() -> int:
        np.copyto(to, source)
        return 2 * source.nbytes

    workers.timed_in_turn(copy, SECONDS)


WORKERS = {"ours": work_ours, "products": work_products, "copy": work_copy}


if __name__ == "__main__":
    sys.exit(main())
