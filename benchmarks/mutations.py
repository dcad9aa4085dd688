"""Damages runs' folders at random and asks what tdu makes of them: the same numbers, or one sentence. Never anything else.

    python benchmarks/mutations.py --mutations 2000 --seed 0 --out results/mutations.json

Two runs that differ in their seed, both finished or both cut off, lie in a sweep's folder. A mutation (damage.py) damages one
file, or swaps two. Then come `tdu score`, `tdu evaluate`, `tdu.load` and `tdu train --resume`, the last with every option
typed and with none, each of which must end in one of these ways (verdicts.py):

    exact      the numbers of the undamaged run: log, result, parameters, evaluation
    earlier    the numbers of the undamaged run at an earlier moment, from which it can go on; said, where a file was damaged
    refused    exit code 2 and one line on stderr (`tdu.load`: a UserError), and nothing on the disk is lost
    violation  anything else: a traceback, other numbers, files changed by a command that reads, data lost by --resume

Commands are called in this process, where they share what is compiled. A mutation follows from its seed alone: replay one
that is listed among the violations with what stands there, --only SEED --kinds KIND.
"""

import argparse
import contextlib
import io
import os
import random
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import folders
from damage import mutate
from folders import KINDS
from verdicts import SEEDS, Subject, call, read, run_tdu, words_of

CUT_AFTER = {"compiled": (3, 1), "bsuite": (20, 4), "gymnasium": (20, 4), "vector": (20, 4)}
"""Reports after which a run is cut off: those with a checkpoint each, then those without any."""
SPACE = 1_000_000
"""Mutations that one seed has room for."""
VERDICTS = ("exact", "earlier", "refused", "violation")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutations", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="of the mutations")
    parser.add_argument("--only", type=int, metavar="SEED", help="one mutation, by the seed with which it was listed")
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=[*KINDS], help=f"of {', '.join(KINDS)}")
    parser.add_argument("--out", type=Path)
    parsed = parser.parse_args()
    warnings.simplefilter("always")
    with tempfile.TemporaryDirectory() as folder:
        return measure(parsed, Path(folder))


def measure(parsed: argparse.Namespace, folder: Path) -> int:
    folders.keep_compiled(folder / "programs")
    os.environ["XLA_FLAGS"] = folders.QUICK_COMPILER
    seeds = [parsed.seed * SPACE + i for i in range(parsed.mutations)] if parsed.only is None else [parsed.only]
    subjects: dict[tuple[str, str], Subject] = {}
    clock, told = folders.Clock(len(seeds)), 0.0
    counts: dict[str, Any] = {}
    totals: Counter[str] = Counter()
    violations = []
    for done, seed in enumerate(seeds):
        rng = random.Random(seed)
        kind, state = parsed.kinds[seed % len(parsed.kinds)], rng.choice(("finished", "unfinished"))
        if (kind, state) not in subjects:
            subjects |= {(kind, s.state): s for s in subjects_of(kind, folder / kind)}
        subject = subjects[kind, state]
        damage = mutate(subject.sweep, subject.finished, rng)
        where = {"state": state, "file": damage.file, "mutation": damage.kind}
        for command, outcome in subject.outcomes(damage).items():
            totals[outcome.verdict] += 1
            counted = (
                counts.setdefault(f"{state} {damage.file}", {}).setdefault(damage.kind, {}).setdefault(command, {})
            )
            counted[outcome.verdict] = counted.get(outcome.verdict, 0) + 1
            if outcome.verdict == "violation":
                replay = {"replay": f"--only {seed} --kinds {kind}", **where, "command": command}
                violations.append(replay | {"detail": damage.detail, "what": outcome.words})
            if parsed.only is not None:
                print(f"{where} {command}: {damage.detail}\n    {outcome.verdict}: {outcome.words}")
        if clock.seconds > told + 10:
            told = clock.seconds
            print(f"mutation {clock.words(done + 1)}, {len(violations)} violations", file=sys.stderr, flush=True)
    print(f"{len(seeds)} mutations: " + ", ".join(f"{totals[verdict]} {verdict}" for verdict in VERDICTS) + ".")
    for (what, command), number in Counter((v["what"], v["command"]) for v in violations).most_common():
        print(f"  {number:5} {command}: {what}")
    if parsed.out is not None:
        outcome = {
            "command": " ".join(["python benchmarks/mutations.py", *folders.typed()]),
            "commit": folders.commit(),
            "seeds": [seeds[0], seeds[-1]],
            "kinds": {name: " ".join(["tdu train", *words_of(name)]) for name in parsed.kinds},
            "minutes": round(clock.seconds / 60, 1),
            "outcomes": {verdict: totals[verdict] for verdict in VERDICTS},
            "counts": {file: counts[file] for file in sorted(counts)},
            "violations": violations,
        }
        folders.write(parsed.out, outcome)
    return 1 if violations else 0


# Runs to be damaged.


def subjects_of(kind: str, folder: Path) -> "list[Subject]":
    """Two finished and two unfinished runs of a kind."""
    finished, unfinished = folder / "finished", folder / "unfinished"
    every, none = ["--checkpoint-seconds", "0"], ["--checkpoint-seconds", "1e9"]
    with steady_time():
        for run, seed in SEEDS.items():
            words = [*words_of(kind), "--seed", str(seed), "--resume-if-there", "--out"]
            train([*words, str(finished / run), *every])
            first, second = CUT_AFTER[kind]
            train([*words, str(unfinished / run), *every], cut_after=first)
            train([*words, str(unfinished / run), *none], cut_after=second)
            log = unfinished / run / "log.csv"
            row = log.read_bytes().splitlines()[-1]
            log.write_bytes(log.read_bytes() + row[: len(row) // 2])  # half a row, as a kill may leave it
    ends = folders.facts(finished / "a")
    return [
        Subject(kind, path.name, read(path), read(finished), ends, folder / "sweep") for path in (finished, unfinished)
    ]


class CutOff(BaseException):
    """Stands for the end of the process: nothing in the library catches it."""


class Reports(io.StringIO):
    """Standard output that ends its process after so many lines."""

    def __init__(self, most: int):
        super().__init__()
        self._left = most

    def write(self, text: str) -> int:
        self._left -= text.count("\n")
        if self._left <= 0:
            raise CutOff
        return len(text)


def train(words: list[str], cut_after: int | None = None) -> None:
    """A `tdu train` to its end, or until it has reported so many times."""
    if cut_after is None:
        told = call(lambda: run_tdu("train", *words))
        assert told.code == 0, told
        return
    words = [*words, "--progress", "json"]
    with contextlib.redirect_stdout(Reports(cut_after)), contextlib.suppress(CutOff):
        raise SystemExit(f"a run was over before it could be cut off: {run_tdu('train', *words)}")


@contextlib.contextmanager
def steady_time() -> Iterator[None]:
    """Time that passes by a millisecond whenever tdu looks at it, so that the same runs leave the same bytes."""
    real, now = time.perf_counter, [0.0]

    def look() -> float:
        if not sys._getframe(1).f_globals.get("__name__", "").startswith("tdu"):
            return real()
        now[0] += 0.001
        return now[0]

    with mock.patch("time.perf_counter", look):
        yield


if __name__ == "__main__":
    sys.exit(main())
