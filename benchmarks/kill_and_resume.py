"""Kills runs with SIGKILL at random moments, resumes them, and compares them with a run that was never killed.

    python benchmarks/kill_and_resume.py --kills 300 --out results/kill_and_resume.json

Every session is a separate process. A run is killed several times and then finishes. At least a third of the kills hit a
checkpoint while it is written: the script watches the folder and kills when one appears. If kills are left at the end of a
run, its last session is killed around the last checkpoint. The log (without wall time), every array of the last checkpoint
and the result must be bit-identical, and the session that finishes the run must print no complaint.

The other runs use the compiled programs of the undisturbed run of their kind and start in half the time. With --compile,
each run compiles its own.
"""

import argparse
import functools
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import folders
from folders import KINDS

EPISODES = {"compiled": (15_000, 2_000), "bsuite": (500, 30), "gymnasium": (500, 30), "vector": (500, 30)}
"""Episodes of each kind of run, and of its short form."""
PER_RUN = 10
"""Maximum number of kills of one run."""
WINDOW = 2.0
"""A kill at a random moment comes at most this many seconds after the run's first checkpoint."""
MOST_MISSED = 5
"""Maximum number of runs in a row that end before the first kill, as happens on a busy machine."""
SEED = 3
EVALUATION = ("--evaluation-episodes", "3")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--kinds", type=lambda text: text.split(","), default=[*KINDS], help=f"of {', '.join(KINDS)}")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--compile", action="store_true", help="every process compiles its own programs")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="copy runs that came out otherwise there")
    parser.add_argument(
        "--short",
        action="store_true",
        help="one kill for each kind, quickly: short runs, and only what is killed is a process of its own",
    )
    parsed = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return measure(parsed, Path(folder))


def measure(parsed: argparse.Namespace, folder: Path) -> int:
    if not parsed.compile:
        folders.keep_compiled(folder / "programs")
    if parsed.short:
        os.environ["XLA_FLAGS"] = folders.QUICK_COMPILER
    kinds: list[str] = parsed.kinds
    total = len(kinds) if parsed.short else parsed.kills
    outcome: dict[str, Any] = {
        "command": " ".join(["python benchmarks/kill_and_resume.py", *folders.typed()]),
        "commit": folders.commit(),
        "seed": parsed.seed,
        "kinds": {},
    }
    clock, done, rng = folders.Clock(total), 0, random.Random(parsed.seed)
    for number, name in enumerate(kinds):
        share = total // len(kinds) + (number < total % len(kinds))
        kind = Abused(name, folder, rng, short=parsed.short)
        report = functools.partial(print_progress, name, clock, done)
        missed = 0
        while kind.counts["kills"] < share:
            before = kind.counts["kills"]
            kind.one_run(min(share - before, PER_RUN), report, parsed.keep)
            missed = missed + 1 if kind.counts["kills"] == before else 0
            if missed == MOST_MISSED:
                raise SystemExit(
                    f"{missed} runs of kind {name} ended before they could be killed; it needs more episodes."
                )
        done += share
        outcome["kinds"][name] = kind.described()
    counts = sum((Counter(kind["counts"]) for kind in outcome["kinds"].values()), Counter())
    outcome["counts"] = {key: counts[key] for key in COUNTED}
    outcome["mismatches"] = sum(len(kind["mismatches"]) for kind in outcome["kinds"].values())
    outcome["minutes"] = round(clock.seconds / 60, 1)
    folders.write(parsed.out, outcome)
    enough = parsed.short or counts["while_writing"] * 3 >= counts["kills"]
    print(
        f"{counts['kills']} kills of {counts['runs']} runs, {counts['while_writing']} while a checkpoint was being written, "
        f"{counts['before_first_checkpoint']} before the first: {outcome['mismatches']} runs came out otherwise."
    )
    if not enough:
        print("Fewer than a third of the kills fell while a checkpoint was being written.", file=sys.stderr)
    return 0 if enough and not outcome["mismatches"] else 1


COUNTED = ("runs", "kills", "before_first_checkpoint", "while_writing", "between", "after_last_checkpoint")


class Abused:
    """Runs of one kind: an undisturbed one, and those that are killed."""

    def __init__(self, name: str, folder: Path, rng: random.Random, *, short: bool):
        self._name, self._rng, self._short = name, rng, short
        self._out, self._errors = folder / name, folder / f"{name}.stderr"
        episodes = str(EPISODES[name][short])
        self._words = [*KINDS[name], "--episodes", episodes, *folders.SMALL, "--seed", str(SEED), *EVALUATION]
        self.counts: Counter[str] = Counter()
        self.mismatches: list[dict] = []
        whole = folder / f"{name}-whole"
        self._first_checkpoint = self._undisturbed(whole)
        self._facts, self._last = folders.facts(whole), folders.checkpoints(whole)[-1].name
        self._result = folders.result(whole)
        if unreadable := [words for words in self._facts.values() if words.startswith("unreadable")]:
            raise SystemExit(f"the undisturbed run of {name} cannot be read: {unreadable[0]}")

    def _undisturbed(self, out: Path) -> float:
        """Makes the undisturbed run; returns the seconds to its first checkpoint."""
        if self._short:
            self._finish_here(out)
            return 0.0
        for attempt in (out.with_suffix(".first"), out):  # the second has compiled programs, like killed runs
            started = time.monotonic()
            process = self._start(attempt)
            while process.poll() is None and not folders.checkpoints(attempt):
                time.sleep(0.01)
            seconds = time.monotonic() - started
            if process.wait():
                raise SystemExit(f"the undisturbed run failed: {self._errors.read_text()}")
            self._seconds = round(time.monotonic() - started, 1)
        if folders.facts(attempt) != folders.facts(out.with_suffix(".first")):
            raise SystemExit("two undisturbed runs of one seed differ.")
        return seconds

    def one_run(self, kills: int, report: Callable[[int], None], keep: Path | None) -> None:
        """Kills one run up to `kills` times, lets it finish, and compares."""
        self.counts["runs"] += 1
        struck = []
        while len(struck) < kills:
            last = len(struck) == kills - 1 and len(struck) > 0
            fell = self._one_kill(at_the_end=last)
            if fell is None:
                break
            struck.append(fell)
            self.counts["kills"] += 1
            self.counts[fell] += 1
            report(self.counts["kills"])
        said = self._finish()
        found = folders.facts(self._out)
        wrong = [part for part, digest in self._facts.items() if found[part] != digest]
        left = sorted({p.name for p in self._out.rglob("*") if ".writing" in p.name or ".damaged" in p.name})
        if wrong or said or left:
            details = {"run": self.counts["runs"], "kills": struck, "differs": wrong, "said": said, "left_over": left}
            if "result" in wrong and not found["result"].startswith("unreadable"):
                result = folders.result(self._out)
                keys = {k for k in {**result, **self._result} if result.get(k) != self._result.get(k)}
                details["undisturbed_and_found"] = {k: [self._result.get(k), result.get(k)] for k in sorted(keys)}
            self.mismatches.append(details)
            print(f"{self._name}: a run came out otherwise: {details}", file=sys.stderr, flush=True)
            if keep is not None:
                shutil.copytree(self._out, keep / f"{self._name}-{self.counts['runs']}", dirs_exist_ok=True)
        shutil.rmtree(self._out)

    def _one_kill(self, *, at_the_end: bool) -> str | None:
        """Starts or resumes the run and kills it; returns where the kill came, or None if the run had ended."""
        stale = being_written(self._out)  # left by an earlier kill
        process = self._start(self._out)
        behind = self.counts["while_writing"] * 3 <= self.counts["kills"] + 2
        early = not folders.checkpoints(self._out) and not self._short and self._rng.random() < 0.5
        if at_the_end:
            struck = self._wait(process, lambda: any(self._last in p.name for p in _entries(self._out)))
            time.sleep(self._rng.uniform(0.0, 0.03))
        elif not early and (behind or self._rng.random() < 0.4):
            skipped, seen = self._rng.randint(0, 2 if self._short else 5), set()

            def strike() -> bool:
                now = being_written(self._out) - stale
                seen.update(name for name, *_ in now)
                return bool(now) and len(seen) > skipped

            struck = self._wait(process, strike)
            time.sleep(self._rng.uniform(0.0, 0.003))
        else:
            latest = self._first_checkpoint + (0.0 if early else WINDOW)
            moment = time.monotonic() + self._rng.uniform(0.0, latest)
            struck = self._wait(process, lambda: time.monotonic() >= moment)
        process.kill()
        if process.wait() >= 0 or not struck:
            return None
        if being_written(self._out) - stale:
            return "while_writing"
        if not folders.checkpoints(self._out):
            return "before_first_checkpoint"
        return "after_last_checkpoint" if folders.checkpoints(self._out)[-1].name == self._last else "between"

    @staticmethod
    def _wait(process: subprocess.Popen, until: Callable[[], bool]) -> bool:
        """Waits for a moment; False if the process ended first."""
        while process.poll() is None:
            if until():
                return True
            time.sleep(0.0003)
        return False

    def _start(self, out: Path) -> subprocess.Popen:
        words = [sys.executable, "-m", "tdu", "train", *self._words, *self._often(out)]
        with open(self._errors, "w") as errors:
            return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=errors)

    @staticmethod
    def _often(out: Path) -> list[str]:
        return ["--checkpoint-seconds", "0", "--out", str(out), "--resume-if-there"]

    def _finish(self) -> str:
        """Lets the run finish; returns its complaints."""
        if self._short:
            return self._finish_here(self._out)
        code = self._start(self._out).wait()
        said = self._errors.read_text().strip()
        said = "" if "finished already" in said and said.count("\n") == 0 else said
        return said or (f"exit code {code}" if code else "")

    def _finish_here(self, out: Path) -> str:
        from tdu.cli import main as tdu

        return f"exit code {code}" if (code := tdu(["train", *self._words, *self._often(out)])) else ""

    def described(self) -> dict[str, Any]:
        """Entry for the file of outcomes."""
        return {
            "command": " ".join(["tdu train", *self._words, "--checkpoint-seconds 0"]),
            "run_seed": SEED,
            "seconds_undisturbed": None if self._short else self._seconds,
            "counts": {key: self.counts[key] for key in COUNTED},
            "undisturbed": self._facts,
            "mismatches": self.mismatches,
        }


def being_written(out: Path) -> set[tuple[str, int, int]]:
    """Incomplete checkpoints, by name, inode and time."""
    found = set()
    for path in (out / "checkpoints").glob(".writing*"):
        try:
            status = path.stat()
        except FileNotFoundError:  # it has just been completed
            continue
        found.add((path.name, status.st_ino, status.st_mtime_ns))
    return found


def _entries(out: Path) -> list[Path]:
    return [*(out / "checkpoints").glob("*")]


def print_progress(name: str, clock: folders.Clock, before: int, kills: int) -> None:
    print(f"{name}: kill {clock.words(before + kills)}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
