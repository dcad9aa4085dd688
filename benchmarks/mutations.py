"""Damages run folders at random and checks that tdu either returns the same numbers or prints one sentence.

    python benchmarks/mutations.py --mutations 2000 --seed 0 --out results/mutations.json

A sweep's folder holds two runs that differ in their seed, both finished or both interrupted. A mutation (damage.py) damages
one file or swaps two. Then `tdu score`, `tdu evaluate`, `tdu.load` and `tdu train --resume` run on it, the last one with all
options given and with none. Each ends in one of these ways (verdicts.py), and a violation is an error:

    exact      the numbers of the undamaged run: log, result, parameters, evaluation
    earlier    the numbers of the undamaged run at an earlier moment, from which it can continue, with a message
    refused    exit code 2 and one line on stderr (`tdu.load`: a UserError), and no data lost
    violation  anything else: a traceback, other numbers, files changed by a command that reads, data lost by --resume

Commands run in this process and share compiled programs. A mutation depends only on its seed. To repeat a violation, use
its entry in the file: --only SEED --kinds KIND.
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
"""Numbers of reports after which a run is interrupted, first with checkpoints, then without."""
SPACE = 1_000_000
"""Maximum number of mutations of one seed."""
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
    clock, reported = folders.Clock(len(seeds)), 0.0
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
        if clock.seconds > reported + 10:
            reported = clock.seconds
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
    """Represents the end of the process: nothing in the library catches it."""


class Reports(io.StringIO):
    """Standard output that raises `CutOff` after a number of lines."""

    def __init__(self, most: int):
        super().__init__()
        self._left = most

    def write(self, text: str) -> int:
        self._left -= text.count("\n")
        if self._left <= 0:
            raise CutOff
        return len(text)


def train(words: list[str], cut_after: int | None = None) -> None:
    """Runs `tdu train` to its end, or until it has reported a number of times."""
    if cut_after is None:
        answer = call(lambda: run_tdu("train", *words))
        assert answer.code == 0, answer
        return
    words = [*words, "--progress", "json"]
    with contextlib.redirect_stdout(Reports(cut_after)), contextlib.suppress(CutOff):
        raise SystemExit(f"a run was over before it could be cut off: {run_tdu('train', *words)}")


@contextlib.contextmanager
def steady_time() -> Iterator[None]:
    """A clock that advances a millisecond per call, so that the same runs leave the same bytes."""
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
