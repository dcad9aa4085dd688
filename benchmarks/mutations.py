"""Damages runs' folders at random and asks what tdu makes of them: the same numbers, or one sentence. Never anything else.

    python benchmarks/mutations.py --mutations 2000 --seed 0 --out results/mutations.json

Two runs that differ in their seed, both finished or both cut off, lie in a sweep's folder. A mutation damages one file, or
swaps two. Then come `tdu score`, `tdu evaluate`, `tdu.load` and `tdu train --resume`, the last with every option typed
and with none, each of which must end in one of these ways:

    exact      the numbers of the undamaged run: log, result, parameters, evaluation
    earlier    the numbers of the undamaged run at an earlier moment, from which it can go on; said, where a file was damaged
    refused    exit code 2 and one line on stderr (`tdu.load`: a UserError), and nothing on the disk is lost
    violation  anything else: a traceback, other numbers, files changed by a command that reads, data lost by --resume

Commands are called in this process, where they share what is compiled. A mutation follows from its seed alone: replay one
that is listed among the violations with what stands there, --only SEED --kinds KIND.
"""

import argparse
import contextlib
import csv
import hashlib
import io
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import folders
from folders import KINDS

Files = dict[str, bytes]
"""A run's folder: path to content."""
Sweep = dict[str, Files]

EPISODES = {"compiled": 500, "bsuite": 40, "gymnasium": 40, "vector": 40}
CUT_AFTER = {"compiled": (3, 1), "bsuite": (20, 4), "gymnasium": (20, 4), "vector": (20, 4)}
"""Reports after which a run is cut off: those with a checkpoint each, then those without any."""
SEEDS = {"a": 3, "b": 4}
LIMIT = 30
"""Seconds after which a command is stopped: it has not noticed, and trains."""
WEIGHTS = {"config": 2, "log": 4, "manifest": 4, "tensors": 4, "result": 4, "checkpoint": 2}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutations", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="of the mutations")
    parser.add_argument("--only", type=int, metavar="SEED", help="one mutation, by the seed with which it was listed")
    parser.add_argument("--kinds", type=lambda text: text.split(","), help=f"of {', '.join(KINDS)} (default: all)")
    parser.add_argument("--out", type=Path)
    parsed = parser.parse_args()
    warnings.simplefilter("always")
    with tempfile.TemporaryDirectory() as folder:
        return measure(parsed, Path(folder))


def measure(parsed: argparse.Namespace, folder: Path) -> int:
    folders.keep_compiled(folder / "programs")
    os.environ["XLA_FLAGS"] = folders.QUICK_COMPILER
    known, lacking = folders.known_kinds()
    kinds = [name for name in known if name in (parsed.kinds or KINDS)]
    seeds = [parsed.seed * SPACE + i for i in range(parsed.mutations)] if parsed.only is None else [parsed.only]
    subjects: dict[tuple[str, str], Subject] = {}
    clock, told = folders.Clock(len(seeds)), 0.0
    counts: dict[str, Counter[str]] = {}
    violations = []
    for done, seed in enumerate(seeds):
        rng = random.Random(seed)
        key = (kinds[seed % len(kinds)], rng.choice(("finished", "unfinished")))
        if key not in subjects:
            subjects |= {(key[0], s.state): s for s in subjects_of(key[0], folder / key[0])}
        subject = subjects[key]
        damage = mutate(subject, rng)
        for command, outcome in subject.outcomes(damage).items():
            where = f"{key[1]} {damage.file} / {damage.kind} / {command}"
            counts.setdefault(where, Counter())[outcome.verdict] += 1
            if outcome.verdict == "violation":
                words = {"state": key[1], "file": damage.file, "mutation": damage.kind, "command": command}
                violations.append(
                    {
                        "replay": f"--only {seed} --kinds {key[0]}",
                        **words,
                        "detail": damage.detail,
                        "what": outcome.words,
                    }
                )
            if parsed.only is not None:
                print(f"{where}: {damage.detail}\n    {outcome.verdict}: {outcome.words}")
        if clock.seconds > told + 10:
            told = clock.seconds
            print(f"mutation {clock.words(done + 1)}, {len(violations)} violations", file=sys.stderr, flush=True)
    totals: Counter[str] = sum(counts.values(), Counter())
    print(f"{len(seeds)} mutations: " + ", ".join(f"{totals[verdict]} {verdict}" for verdict in VERDICTS) + ".")
    for (what, command), number in Counter((v["what"], v["command"]) for v in violations).most_common():
        print(f"  {number:5} {command}: {what}")
    if parsed.out is not None:
        outcome = {
            "command": " ".join(["python benchmarks/mutations.py", *folders.typed()]),
            "commit": folders.commit(),
            "seeds": [seeds[0], seeds[-1]],
            "kinds": {name: " ".join(["tdu train", *words_of(name)]) for name in kinds},
            "lacking": lacking,
            "minutes": round(clock.seconds / 60, 1),
            "outcomes": {verdict: totals[verdict] for verdict in VERDICTS},
            "counts": nested(counts),
            "violations": violations,
        }
        folders.write(parsed.out, outcome)
    return 1 if violations else 0


SPACE = 1_000_000
VERDICTS = ("exact", "earlier", "refused", "violation")


def words_of(kind: str) -> list[str]:
    """What follows `tdu train`, seed and folder aside."""
    return [*KINDS[kind].target, "--episodes", str(EPISODES[kind]), *folders.SMALL]


def nested(counts: dict[str, Counter[str]]) -> dict[str, dict[str, dict[str, dict[str, int]]]]:
    """Counts by file, mutation and command."""
    found: dict[str, Any] = {}
    for where, verdicts in sorted(counts.items()):
        file, kind, command = where.split(" / ")
        found.setdefault(file, {}).setdefault(kind, {})[command] = {v: verdicts[v] for v in VERDICTS if verdicts[v]}
    return found


# Runs to be damaged.


def subjects_of(kind: str, folder: Path) -> "list[Subject]":
    """Two finished and two unfinished runs of a kind."""
    finished, unfinished = folder / "finished", folder / "unfinished"
    every, none = ["--checkpoint-seconds", "0"], ["--checkpoint-seconds", "1e9"]
    with steady_time():
        for run, seed in SEEDS.items():
            words = [*words_of(kind), "--seed", str(seed), "--resume", "--out"]
            train([*words, str(finished / run), *every])
            first, second = CUT_AFTER[kind]
            train([*words, str(unfinished / run), *every], cut_after=first)
            train([*words, str(unfinished / run), *none], cut_after=second)
            log = unfinished / run / "log.csv"
            row = log.read_bytes().splitlines()[-1]
            log.write_bytes(log.read_bytes() + row[: len(row) // 2])  # half a row, as a kill may leave it
    ends = {run: folders.facts(finished / run) for run in SEEDS}
    sweeps = [
        Subject(kind, path.name, read(path), read(finished), ends, folder / "sweep") for path in (finished, unfinished)
    ]
    assert all(len(s.checkpoints("a")) > 1 for s in sweeps)
    return sweeps


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
    from tdu.cli import main as tdu

    words = ["train", *words]
    if cut_after is None:
        with contextlib.redirect_stdout(io.StringIO()):
            code = tdu(words)
        assert code == 0
        return
    words[words.index("--progress") + 1] = "json"
    with contextlib.redirect_stdout(Reports(cut_after)), contextlib.suppress(CutOff):
        raise SystemExit(f"a run was over before it could be cut off: {tdu(words)}")


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


def read(folder: Path) -> Sweep:
    """Every file of the runs in a folder."""
    return {
        run.name: {str(p.relative_to(run)): p.read_bytes() for p in sorted(run.rglob("*")) if p.is_file()}
        for run in sorted(folder.iterdir())
    }


def lay(folder: Path, sweep: Sweep) -> None:
    """Makes a folder hold these runs and nothing else."""
    shutil.rmtree(folder, ignore_errors=True)
    for run, files in sweep.items():
        for name, data in files.items():
            path = folder / run / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


# What a command made of them.


class Told(NamedTuple):
    """How a command ended."""

    code: int | None
    out: str
    err: str
    fault: str
    """The exception that came out of it, if one did."""
    value: Any = None


class TooLong(BaseException):
    pass


def call(function: Callable[[], Any]) -> Told:
    """Calls it with everything it says caught; the code is what it returns, if that is a number."""
    out, err, fault, value = io.StringIO(), io.StringIO(), "", None

    def stop(*_: object) -> None:
        raise TooLong

    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, LIMIT)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            value = function()
    except TooLong:
        fault = f"not over after {LIMIT} s"
    except BaseException as e:
        if isinstance(e, KeyboardInterrupt):
            raise
        frames = [f for f in traceback.extract_tb(e.__traceback__) if "/tdu/" in f.filename]
        place = f" in {Path(frames[-1].filename).name}, {frames[-1].name}" if frames else ""
        fault, value = f"{type(e).__name__}{place}", e
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    code = value if isinstance(value, int) else None
    return Told(code, out.getvalue(), err.getvalue(), fault, value)


class Outcome(NamedTuple):
    verdict: str
    words: str = ""


class Damage(NamedTuple):
    """A mutation: the sweep after it, and what it was."""

    sweep: Sweep
    file: str
    kind: str
    detail: str


def violation(words: str) -> Outcome:
    return Outcome("violation", words)


EXACT, REFUSED = Outcome("exact"), Outcome("refused")
GONE = {"cut", "emptied", "removed"}
"""Mutations that leave nothing wrong in a file, only too little."""


class Subject:
    """Two runs in one state, and what every command says of them undamaged."""

    def __init__(
        self,
        kind: str,
        state: str,
        sweep: Sweep,
        finished: Sweep,
        ends: dict[str, dict],
        place: Path,
    ):
        self.kind, self.state, self.sweep, self.finished = kind, state, sweep, finished
        self._ends, self._place = ends, place
        self._scores: dict[str, Any] = {}
        lay(place, finished)
        self._end = (self._load_facts(call(self._load)) or {})["parameters"]
        lay(place, sweep)
        self._evaluation, self._loaded = call(self._evaluate), self._load_facts(call(self._load))
        self._resumed = {typed: call(lambda typed=typed: self._resume(typed)) for typed in (True, False)}
        for told in (self._evaluation, *self._resumed.values()):
            if told.code != 0:
                raise SystemExit(f"the undamaged {state} run of kind {kind} is refused: {told}")
        newest = self.checkpoints("a")[-1]
        without = {name: data for name, data in sweep["a"].items() if newest not in name}
        without.pop("result.json", None)
        lay(place, sweep | {"a": without})
        self._earlier_evaluation, self._earlier_loaded = call(self._evaluate), self._load_facts(call(self._load))
        if (self._earlier_loaded or {}).get("parameters") == (self._loaded or {}).get("parameters"):
            raise SystemExit(f"the last two checkpoints of the {state} run of kind {kind} are the same.")

    def checkpoints(self, run: str) -> list[str]:
        """The names of a run's checkpoints, oldest first."""
        names = {Path(name).parts[1] for name in self.sweep[run] if name.startswith("checkpoints/")}
        return sorted(name for name in names if name.isdigit())

    def outcomes(self, damage: Damage) -> dict[str, Outcome]:
        """What each command makes of a damaged sweep."""
        found = {}
        for name, command, judge in (
            ("score", self._score, self._judge_score),
            ("evaluate", self._evaluate, self._judge_evaluate),
            ("load", self._load, self._judge_load),
        ):
            lay(self._place, damage.sweep)
            told = call(command)
            unchanged = read(self._place) == damage.sweep
            found[name] = judge(told, damage) if unchanged else violation("files changed by a command that only reads")
        for name, typed in (("resume", True), ("resume, nothing typed", False)):
            lay(self._place, damage.sweep)
            found[name] = self._judge_resume(call(lambda typed=typed: self._resume(typed)), damage, typed)
        return found

    # The commands.

    def _score(self) -> int:
        from tdu.cli import main as tdu

        return tdu(["score", str(self._place), "--json"])

    def _evaluate(self) -> int:
        from tdu.cli import main as tdu

        return tdu(["evaluate", str(self._place / "a"), "--episodes", "4", "--json"])

    def _load(self) -> Any:
        import tdu

        return tdu.load(self._place / "a")

    def _resume(self, typed: bool) -> int:
        from tdu.cli import main as tdu

        words = [*words_of(self.kind), "--seed", str(SEEDS["a"])] if typed else [KINDS[self.kind].target[0], *QUIET]
        return tdu(["train", *words, "--out", str(self._place / "a"), "--resume"])

    # What came of them.

    def _judge_score(self, told: Told, damage: Damage) -> Outcome:
        if told.fault or told.code not in (0, 2):
            return violation(told.fault or f"exit code {told.code}")
        lines = told.err.splitlines()
        if not all(line.startswith("tdu: ") for line in lines):
            return violation("stderr has more than sentences of tdu's")
        if told.code == 2 and not told.out:
            return REFUSED if len(lines) == 1 else violation("refused with more or less than one line on stderr")
        try:
            found = json.loads(told.out)
        except ValueError:
            return violation("stdout is not JSON")
        left_out = set(found.pop("damaged")) & set(damage.sweep)
        if len(lines) != len(left_out) or (told.code == 2) != bool(left_out):
            return violation("runs are left out without a sentence for each")
        if left_out:
            return (
                REFUSED if found == self._score_of(left_out, self.sweep) else violation("other numbers of other runs")
            )
        if found == self._score_of(set(), self.sweep):
            return EXACT
        if self._is_earlier(damage) and found == self._score_of(set(), whole_lines(damage.sweep)):
            return Outcome("earlier")
        if found["runs"] < len(damage.sweep):
            return violation("a run is left out without a word")
        return violation("other numbers")

    def _score_of(self, without: set[str], sweep: Sweep) -> Any:
        """What the score says of undamaged runs, some left out."""
        sweep = {run: files for run, files in sweep.items() if run not in without}
        if not sweep:
            return {"runs": 0, "unfinished": [], "agents": {}}
        key = hashlib.sha256(repr(sorted((r, sorted(f.items())) for r, f in sweep.items())).encode()).hexdigest()
        if key not in self._scores:
            lay(self._place, sweep)
            found = json.loads(call(self._score).out)
            assert not found.pop("damaged")
            self._scores[key] = found
        return self._scores[key]

    def _is_earlier(self, damage: Damage) -> bool:
        """Whether the damaged folder is what the run's own was at an earlier moment."""
        if self.state == "finished":
            return damage.file == "result.json" and damage.kind == "removed"
        if damage.file == "log.csv":
            return damage.kind in GONE
        return damage.kind == "checkpoint removed"

    def _judge_evaluate(self, told: Told, damage: Damage) -> Outcome:
        if refusal := self._refusal(told):
            return refusal
        *words, numbers = told.out.splitlines() or [""]
        said = any("cannot be used" in line for line in [*words, *told.err.splitlines()])
        if not all(line.startswith("tdu: ") for line in told.err.splitlines()):
            return violation("stderr has more than sentences of tdu's")
        if numbers == self._evaluation.out.strip():
            return violation("words on stdout beside the JSON") if words else EXACT
        if numbers == self._earlier_evaluation.out.strip() and self.state == "unfinished":
            if not said and not self._is_earlier(damage):
                return violation("an earlier checkpoint's numbers without a word")
            return violation("words on stdout beside the JSON") if words else Outcome("earlier")
        return violation(self._otherwise(numbers == self._earlier_evaluation.out.strip()))

    def _otherwise(self, earlier: bool) -> str:
        return "an earlier checkpoint's parameters for a finished run's" if earlier else "other numbers"

    def _load_facts(self, told: Told) -> dict[str, str] | None:
        """Digests of a loaded run's parts."""
        import jax
        import numpy as np

        if told.fault or told.value is None:
            return None
        run = told.value
        log = {name: [str(column.dtype), column.tolist()] for name, column in run.log.items()}
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(run.agent.state)]
        parts = {
            "result": json.dumps(run.result, sort_keys=True).encode(),
            "log": json.dumps(log).encode(),
            "parameters": b"".join(f"{leaf.dtype}{leaf.shape}".encode() + leaf.tobytes() for leaf in leaves),
        }
        return {name: hashlib.sha256(data).hexdigest() for name, data in parts.items()}

    def _judge_load(self, told: Told, damage: Damage) -> Outcome:
        from tdu.errors import UserError

        if isinstance(told.value, UserError):
            return REFUSED if "\n" not in str(told.value) else violation("refused with more than one line")
        if told.fault:
            return violation(told.fault)
        if told.err:
            return violation("stderr has more than sentences of tdu's")
        found, said = self._load_facts(told), "cannot be used" in told.out
        if found == self._loaded:
            return EXACT
        if self.state == "unfinished":
            if found == self._earlier_loaded:
                said = said or self._is_earlier(damage)
                return Outcome("earlier") if said else violation("an earlier checkpoint's numbers without a word")
        elif self._is_earlier(damage) and self._without_result(found) == self._without_result(self._loaded):
            return Outcome("earlier")
        assert found is not None
        assert self._loaded is not None
        if self.state == "finished" and found["parameters"] == (self._earlier_loaded or {}).get("parameters"):
            return violation(self._otherwise(True))
        return violation("other " + " and ".join(part for part in found if found[part] != self._loaded[part]))

    @staticmethod
    def _without_result(found: dict[str, str] | None) -> dict[str, str]:
        return {name: digest for name, digest in (found or {}).items() if name != "result"}

    def _refusal(self, told: Told) -> Outcome | None:
        """The outcome of a command that did not go through."""
        if told.fault:
            return violation(told.fault)
        if told.code == 0:
            return None
        if told.code != 2:
            return violation(f"exit code {told.code}")
        one = told.err.startswith("tdu: ") and told.err.count("\n") == 1
        return REFUSED if one else violation("refused with more or less than one line on stderr")

    def _judge_resume(self, told: Told, damage: Damage, typed: bool) -> Outcome:
        after = read(self._place)
        if refusal := self._refusal(told):
            lost = set(damage.sweep["a"].values()) - set(after["a"].values()) - {b""}
            if refusal is REFUSED and lost:
                names = sorted(name for name, data in damage.sweep["a"].items() if data in lost)
                return violation(f"refused, but {plain(names[0])} is lost")
            if refusal is REFUSED and (new := sorted(after["a"].keys() - damage.sweep["a"].keys() - {".lock"})):
                return violation(f"refused, but leaves a new {plain(new[0])}")
            return refusal
        if not all(line.startswith("tdu: ") for line in told.err.splitlines()):
            return violation("stderr has more than sentences of tdu's")
        found = folders.facts(self._place / "a")
        wrong = [part for part, digest in self._ends["a"].items() if found[part] != digest]
        if wrong:
            broken = [part for part in wrong if found[part].startswith("unreadable")]
            return violation(
                f"goes through with a {broken[0]} that cannot be read" if broken else f"other {' and '.join(wrong)}"
            )
        loaded = self._load_facts(call(self._load))
        if loaded is None or loaded["parameters"] != self._end:
            return violation("goes through, but leaves a run that gives other parameters or none")
        if _timeless(told.out) != _timeless(self._resumed[typed].out):
            return violation("other numbers on stdout")
        kept, result = after["a"]["result.json"], self.sweep["a"].get("result.json")
        if result and kept == damage.sweep["a"].get("result.json") and json.loads(kept) != json.loads(result):
            return violation("other times in the result")
        return EXACT


QUIET = ("--progress", "none")


def _timeless(words: str) -> str:
    return re.sub(r"at [\d,]+ per second", "", words)


def whole_lines(sweep: Sweep) -> Sweep:
    """The sweep with the lines of its logs that are whole."""
    return {
        run: {name: _whole_lines(data) if name == "log.csv" else data for name, data in files.items()}
        for run, files in sweep.items()
    }


def _whole_lines(data: bytes) -> bytes:
    return data[: data.rfind(b"\n") + 1]


def plain(name: str) -> str:
    """A file's name, whatever the checkpoint's number."""
    return re.sub(r"checkpoints/\d+/", "", name)


# Mutations.


def mutate(subject: Subject, rng: random.Random) -> Damage:
    """One file of run a damaged, or two swapped."""
    sweep = {run: dict(files) for run, files in subject.sweep.items()}
    classes: dict[str, list[str]] = {}
    for name in sweep["a"]:
        classes.setdefault(class_of(name), []).append(name)
    classes["checkpoint"] = [""]
    if "result" not in classes:
        classes["result"] = ["result.json"]
    weights = WEIGHTS | (
        {} if subject.state == "finished" else {"result": 1}
    )  # there is none, so one can only be planted
    chosen = rng.choices([*weights], [*weights.values()])[0]
    name = rng.choice(classes[chosen])
    if chosen == "checkpoint":
        kind, detail = damage_checkpoint(subject, sweep, rng)
        return Damage(sweep, "checkpoint", kind, detail)
    label = name
    if name.startswith("checkpoints/"):
        age = "newest" if Path(name).parts[1] == subject.checkpoints("a")[-1] else "older"
        label = f"{'manifest.json' if chosen == 'manifest' else Path(name).name} ({age})"
    if name not in sweep["a"]:
        run = rng.choice(("a", "b"))
        sweep["a"][name] = subject.finished[run][name]
        return Damage(sweep, label, "planted", f"that of the finished run of seed {SEEDS[run]}")
    kinds = [*BYTES, "removed", "swapped within", "swapped between"]
    kinds += {"log": ["cell"] * 4, "tensors": []}.get(chosen, [*JSON, *JSON])
    kind = rng.choice(kinds)
    data = sweep["a"][name]
    if kind == "removed":
        del sweep["a"][name]
        return Damage(sweep, label, kind, "")
    if kind == "swapped within":
        other = rng.choice([n for n in sweep["a"] if n != name and class_of(n) in WEIGHTS])
        sweep["a"][name], sweep["a"][other] = sweep["a"][other], data
        return Damage(sweep, label, kind, f"{name} with {other}")
    if kind == "swapped between":
        same = [n for n in sweep["b"] if class_of(n) == chosen]
        other = name if name in same else rng.choice(same)
        sweep["a"][name], sweep["b"][other] = sweep["b"][other], data
        return Damage(sweep, label, kind, f"{name} with {other} of seed {SEEDS['b']}")
    if kind == "cell":
        sweep["a"][name], detail = cell(data, rng)
    elif kind in BYTES:
        sweep["a"][name], detail = BYTES[kind](data, rng)
    else:
        parsed = json.loads(data)
        detail = JSON[kind](parsed, rng)
        sweep["a"][name] = (json.dumps(parsed, indent=2) + "\n").encode()
    assert sweep["a"][name] != data
    return Damage(sweep, label, kind, f"{name}: {detail}")


def class_of(name: str) -> str:
    """What a file of a run is."""
    if name.startswith("checkpoints/"):
        return "manifest" if name.endswith(".json") else "tensors"
    return {"config.json": "config", "log.csv": "log", "result.json": "result"}.get(name, "other")


def damage_checkpoint(subject: Subject, sweep: Sweep, rng: random.Random) -> tuple[str, str]:
    """Whole checkpoints swapped or removed."""
    older, newest = subject.checkpoints("a")[-2:]
    kind = rng.choice(("checkpoint removed", "checkpoints swapped within", "checkpoint swapped between"))
    if kind == "checkpoint removed":
        gone = newest if subject.state == "unfinished" else rng.choice((older, newest))
        for name in [name for name in sweep["a"] if gone in name]:
            del sweep["a"][name]
        return kind, gone
    if kind == "checkpoints swapped within":
        exchange = {older: newest, newest: older}
        sweep["a"] = {
            re.sub(r"^checkpoints/(\d+)", lambda m: f"checkpoints/{exchange.get(m[1], m[1])}", name): data
            for name, data in sweep["a"].items()
        }
        return kind, f"{older} with {newest}"
    ours, theirs = rng.choice((older, newest)), subject.checkpoints("b")[rng.choice((-1, -2))]
    mine = {name: sweep["a"].pop(name) for name in [*sweep["a"]] if f"/{ours}/" in name}
    others = {name: sweep["b"].pop(name) for name in [*sweep["b"]] if f"/{theirs}/" in name}
    sweep["a"] |= {name.replace(theirs, ours): data for name, data in others.items()}
    sweep["b"] |= {name.replace(ours, theirs): data for name, data in mine.items()}
    return kind, f"{ours} with {theirs} of seed {SEEDS['b']}"


def flipped(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    """One to three bytes changed."""
    changed, words = bytearray(data), []
    for at in sorted(rng.sample(range(len(data)), min(rng.randint(1, 3), len(data)))):
        changed[at] ^= rng.choice([1 << rng.randrange(8), rng.randrange(1, 256)])
        words.append(f"byte {at} from {data[at]} to {changed[at]}")
    return bytes(changed), ", ".join(words)


def cut(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    """The end missing; often only a few bytes."""
    least = rng.choice((1, len(data) * 9 // 10, len(data) - 3))
    size = rng.randrange(max(least, 1), len(data))
    return data[:size], f"{size} of {len(data)} bytes"


def emptied(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Nothing left."""
    return b"", f"of {len(data)} bytes"


def extended(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    """More at the end: rubbish, white space, or the last line again."""
    kind = rng.choice(("rubbish", "zeros", "space", "again"))
    more = {
        "rubbish": rng.randbytes(rng.randint(1, 200)),
        "zeros": bytes(rng.randint(1, 4096)),
        "space": b"\n" * rng.randint(1, 3),
        "again": data.rstrip(b"\n").rpartition(b"\n")[2] + b"\n",
    }[kind]
    return data + more, f"{len(more)} bytes of {kind}"


BYTES = {"flipped": flipped, "cut": cut, "emptied": emptied, "extended": extended}


def nodes(value: Any, path: tuple = ()) -> Iterator[tuple[tuple, Any, Any]]:
    """Every place in a JSON value: its path, what holds it, and its key there."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield (*path, key), value, key
        yield from nodes(value[key], (*path, key))


def _one_of(places: list[tuple[tuple, Any, Any]], rng: random.Random) -> tuple[tuple, Any, Any]:
    """One of the places; every other time one at the top, where the run's own numbers are."""
    top = [place for place in places if len(place[0]) == 1]
    return rng.choice(top if top and rng.random() < 0.5 else places)


def _change(value: Any, rng: random.Random, fits: Callable[[Any], bool], new: Callable[[Any], Any]) -> str:
    places = [(path, holder, key) for path, holder, key in nodes(value) if fits(holder[key])]
    if not places:  # nothing of that type is in there
        return key_removed(value, rng)
    path, holder, key = _one_of(places, rng)
    old = holder[key]
    holder[key] = new(old)
    return f"{'.'.join(map(str, path))} from {json.dumps(old)[:80]} to {json.dumps(holder[key])[:80]}"


def number(value: Any, rng: random.Random) -> str:
    """Another number, truth value or null."""

    def new(old: Any) -> Any:
        if isinstance(old, bool):
            return not old
        if old is None:
            return 1
        near = [old + 1, old - 1, old * 2 or 5, -old or 7, old + 0.5, 10**18, float("nan"), float("inf")]
        return rng.choice([x for x in near if x != old])

    return _change(value, rng, lambda x: x is None or isinstance(x, int | float), new)


def string(value: Any, rng: random.Random) -> str:
    """Another text."""

    def new(old: str) -> str:
        at = rng.randrange(len(old) or 1)
        letter = rng.choice([c for c in "0aZ:/=é" if c != old[at : at + 1]])
        return rng.choice((old + letter, old[:at] + letter + old[at + 1 :], "" if old else letter, f"{letter}{old}"))

    return _change(value, rng, lambda x: isinstance(x, str), new)


def other_type(value: Any, rng: random.Random) -> str:
    """Something of another type."""
    others = [None, True, "text", 7, 7.5, [], {}, [1], {"a": 1}]
    return _change(
        value, rng, lambda x: True, lambda old: rng.choice([str(old), *(x for x in others if type(x) is not type(old))])
    )


def key_removed(value: Any, rng: random.Random) -> str:
    """A key or an element less."""
    path, holder, key = _one_of(list(nodes(value)), rng)
    del holder[key]
    return f"{'.'.join(map(str, path))} removed"


JSON = {"number": number, "string": string, "type": other_type, "key removed": key_removed}


def cell(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Another cell in a CSV file; rarely in its header."""
    rows = list(csv.reader(io.StringIO(data.decode())))
    line = 0 if rng.random() < 0.1 else rng.randrange(1, len(rows))
    at = rng.randrange(len(rows[line]))
    old = rows[line][at]
    news = ["", "nan", "inf", "-1", "1e400", "word", "0x1", "1_0", f"{old}1", f"-{old}", f"{old},{old}", f" {old}", '"']
    with contextlib.suppress(ValueError):
        news += [str(float(old) + 1), str(int(float(old)) + 1)] * 3
    rows[line][at] = rng.choice([new for new in news if new != old])
    end = "\n" if data.endswith(b"\n") else ""
    text = "\n".join(",".join(row) for row in rows) + end
    return text.encode(), f"row {line}, column {rows[0][at] if line else at}, from {old!r} to {rows[line][at]!r}"


if __name__ == "__main__":
    sys.exit(main())
