"""Runs tdu's commands on a damaged sweep and judges each outcome. mutations.py lists the outcomes."""

import contextlib
import hashlib
import io
import itertools
import json
import re
import shutil
import signal
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import folders
from damage import Damage, Files, Sweep, checkpoints
from folders import KINDS

EPISODES = {"compiled": 500, "bsuite": 40, "gymnasium": 40, "vector": 40}
SEEDS = {"a": 3, "b": 4}
LIMIT = 120
"""Seconds after which a command is stopped, because it has missed the damage and is training."""
QUIET = ("--progress", "none", "--evaluation-episodes", "0")


def words_of(kind: str) -> list[str]:
    """The arguments of `tdu train`, without seed and folder."""
    return [*KINDS[kind], "--episodes", str(EPISODES[kind]), *folders.SMALL, *QUIET]


def read(folder: Path) -> Sweep:
    """Every file of the runs in a folder."""
    return {
        run.name: {str(p.relative_to(run)): p.read_bytes() for p in sorted(run.rglob("*")) if p.is_file()}
        for run in sorted(folder.iterdir())
    }


def lay(folder: Path, sweep: Sweep) -> None:
    """Writes these runs into a folder and removes everything else."""
    shutil.rmtree(folder, ignore_errors=True)
    for run, files in sweep.items():
        for name, data in files.items():
            path = folder / run / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


def run_tdu(*words: str) -> int:
    """Runs a command of tdu."""
    from tdu.cli import main as tdu

    return tdu([*words])


class Answer(NamedTuple):
    """How a command ended."""

    code: int | None
    out: str
    err: str
    fault: str
    """The exception that it raised, if any."""
    value: Any = None


class TooLong(BaseException):
    pass


def call(function: Callable[[], Any]) -> Answer:
    """Calls a function and captures its output. The code is the value that it returns, if that is a number."""
    from tdu.errors import UserError

    out, err, fault, value = io.StringIO(), io.StringIO(), "", None

    def stop(*_: object) -> None:
        raise TooLong

    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, LIMIT)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            value = function()
    except UserError as e:  # as the command line prints it
        return Answer(2, out.getvalue(), f"{err.getvalue()}tdu: {e}\n", "")
    except TooLong:
        fault = f"not over after {LIMIT} s"
    except BaseException as e:
        if isinstance(e, KeyboardInterrupt):
            raise
        frames = [f for f in traceback.extract_tb(e.__traceback__) if "/tdu/" in f.filename]
        place = f" in {Path(frames[-1].filename).name}, {frames[-1].name}" if frames else ""
        fault = f"{type(e).__name__}{place}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    return Answer(value if isinstance(value, int) else 0, out.getvalue(), err.getvalue(), fault, value)


class Outcome(NamedTuple):
    verdict: str
    words: str = ""


def violation(words: str) -> Outcome:
    return Outcome("violation", words)


EXACT, EARLIER, REFUSED = Outcome("exact"), Outcome("earlier"), Outcome("refused")


class Subject:
    """Two runs in one state, and every command's output on them undamaged."""

    def __init__(self, kind: str, state: str, sweep: Sweep, finished: Sweep, ends: dict[str, str], place: Path):
        self.kind, self.state, self.sweep, self.finished = kind, state, sweep, finished
        self._ends, self._place = ends, place
        self._readers = {"evaluate": self._evaluate, "load": self._load}
        self._end = self._answers(finished)["load"]["parameters"]
        self._now = self._answers(sweep)
        self._earlier = self._answers({"a": self._before(sweep["a"])})
        last_two = [self._answers({"a": self._without_newest(sweep["a"])})["load"], self._now["load"]]
        assert last_two[0]["parameters"] != last_two[1]["parameters"], "the last two checkpoints are the same"
        self._scores: dict[tuple[str, ...], Any] = {}
        self._resumed = {}
        for typed in (True, False):
            lay(place, sweep)
            answer = self._resumed[typed] = call(lambda typed=typed: self._resume(typed))
            assert answer.code == 0, answer

    def outcomes(self, damage: Damage) -> dict[str, Outcome]:
        """The outcome of each command on a damaged sweep."""
        found = {}
        for name, reader in {"score": self._score, **self._readers}.items():
            lay(self._place, damage.sweep)
            answer = call(reader)
            if read(self._place) != damage.sweep:
                found[name] = violation("files changed by a command that only reads")
            else:
                found[name] = (
                    self._judge_score(answer, damage) if name == "score" else self._judge(name, answer, damage)
                )
        for name, typed in (("resume", True), ("resume, nothing typed", False)):
            lay(self._place, damage.sweep)
            found[name] = self._judge_resume(call(lambda typed=typed: self._resume(typed)), damage, typed)
        return found

    # The run at an earlier moment.

    def _before(self, files: Files) -> Files:
        """An unfinished run at its second-last checkpoint; a finished one before its result."""
        if self.state == "unfinished":
            return self._without_newest(files)
        return {name: data for name, data in files.items() if name != "result.json"}

    @staticmethod
    def _without_newest(files: Files) -> Files:
        newest = checkpoints(files)[-1]
        return {name: data for name, data in files.items() if newest not in name and name != "result.json"}

    def _is_earlier(self, damage: Damage) -> bool:
        """Whether the damaged folder equals the run's own at an earlier moment."""
        return damage.kind == "removed" and damage.file == ("result.json" if self.state == "finished" else "checkpoint")

    # The commands.

    def _score(self) -> int:
        return run_tdu("score", str(self._place), "--json")

    def _evaluate(self) -> int:
        return run_tdu("evaluate", str(self._place / "a"), "--episodes", "4", "--json")

    def _load(self) -> Any:
        import tdu

        return tdu.load(self._place / "a")

    def _resume(self, typed: bool) -> int:
        words = [*words_of(self.kind), "--seed", str(SEEDS["a"])] if typed else [KINDS[self.kind][0], *QUIET]
        return run_tdu("train", *words, "--out", str(self._place / "a"), "--resume")

    # The verdicts.

    def _answers(self, sweep: Sweep) -> dict[str, Any]:
        """The readers' answers on an undamaged sweep."""
        found = {}
        for name, reader in self._readers.items():
            lay(self._place, sweep)
            answer = call(reader)
            assert answer.code == 0, answer
            assert not answer.fault, answer
            found[name] = self._numbers(name, answer)
        return found

    def _numbers(self, name: str, answer: Answer) -> Any:
        """The numbers of an evaluation, or digests of a loaded run's parts."""
        if name == "evaluate":
            return answer.out
        import jax
        import numpy as np

        run = answer.value
        log = {name: [str(column.dtype), column.tolist()] for name, column in run.log.items()}
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(run.agent.params)]
        parts = {
            "result": json.dumps(run.result, sort_keys=True).encode(),
            "log": json.dumps(log).encode(),
            "parameters": b"".join(f"{leaf.dtype}{leaf.shape}".encode() + leaf.tobytes() for leaf in leaves),
        }
        return {name: hashlib.sha256(data).hexdigest() for name, data in parts.items()}

    @staticmethod
    def _refusal(answer: Answer) -> Outcome | None:
        """The outcome of a command that failed, or printed too much."""
        lines = answer.err.splitlines()
        if answer.fault:
            return violation(answer.fault)
        if not all(line.startswith("tdu: ") for line in lines):
            return violation("stderr has more than sentences of tdu's")
        if answer.code == 0:
            return None
        if answer.code != 2:
            return violation(f"exit code {answer.code}")
        return REFUSED if len(lines) == 1 else violation("refused with more or less than one line on stderr")

    def _judge(self, name: str, answer: Answer, damage: Damage) -> Outcome:
        if refusal := self._refusal(answer):
            return refusal
        numbers, now = self._numbers(name, answer), self._now[name]
        if numbers == now:
            return EXACT
        if numbers == self._earlier[name]:
            said = "cannot be used" in answer.err or (name == "load" and "cannot be used" in answer.out)
            if (self.state == "unfinished" and said) or self._is_earlier(damage):
                return EARLIER
            return violation("the numbers of an earlier moment without a word")
        if name == "load":
            return violation("other " + " and ".join(part for part in now if numbers[part] != now[part]))
        return violation("other numbers")

    def _judge_score(self, answer: Answer, damage: Damage) -> Outcome:
        if answer.code == 2 and not answer.out:
            return self._refusal(answer) or REFUSED
        lines = answer.err.splitlines()
        if answer.fault or answer.code not in (0, 2):
            return violation(answer.fault or f"exit code {answer.code}")
        if not all(line.startswith("tdu: ") for line in lines):
            return violation("stderr has more than sentences of tdu's")
        try:
            found = json.loads(answer.out)
        except ValueError:
            return violation("stdout is not JSON")
        left_out, notes = found.pop("damaged"), found.pop("notes")
        if len(lines) != len(left_out) or (answer.code == 2) != bool(left_out):
            return violation("runs are left out without a sentence for each")
        for forms in itertools.product(*(["left out"] if run in left_out else ["now", "earlier"] for run in SEEDS)):
            if found != self._score_of(forms):
                continue
            for run, form in zip(SEEDS, forms, strict=True):
                said = any(note.startswith(f"{run}: ") and "cannot be used" in note for note in notes)
                if form == "earlier" and not said and not (run == "a" and self._is_earlier(damage)):
                    return violation("the numbers of an earlier moment without a word")
            return REFUSED if left_out else EARLIER if "earlier" in forms else EXACT
        return violation("a run is left out without a word" if found["runs"] + len(left_out) < 2 else "other numbers")

    def _score_of(self, forms: tuple[str, ...]) -> Any:
        """The score of undamaged runs, each in its present form, in its earlier form, or left out."""
        if forms not in self._scores:
            sweep = {
                run: self.sweep[run] if form == "now" else self._before(self.sweep[run])
                for run, form in zip(SEEDS, forms, strict=True)
                if form != "left out"
            }
            nothing = {"runs": 0, "unfinished": [], "unchecked": [], "target": None, "agents": {}, "atari": None}
            self._scores[forms] = nothing
            if sweep:
                lay(self._place, sweep)
                found = json.loads(call(self._score).out)
                assert not found.pop("damaged")
                assert not found.pop("notes")
                self._scores[forms] = found
        return self._scores[forms]

    def _judge_resume(self, answer: Answer, damage: Damage, typed: bool) -> Outcome:
        before, after = damage.sweep["a"], read(self._place)["a"]
        if refusal := self._refusal(answer):
            lost = set(before.values()) - set(after.values()) - {b""}
            if refusal is REFUSED and lost:
                names = sorted(name for name, data in before.items() if data in lost)
                return violation(f"refused, but {_plain(names[0])} is lost")
            if refusal is REFUSED and (new := sorted(after.keys() - before.keys() - {".lock"})):
                return violation(f"refused, but leaves a new {_plain(new[0])}")
            return refusal
        found = folders.facts(self._place / "a")
        if wrong := [part for part, digest in self._ends.items() if found[part] != digest]:
            broken = [part for part in wrong if found[part].startswith("unreadable")]
            words = f"a {broken[0]} that cannot be read" if broken else f"other {' and '.join(wrong)}"
            return violation(f"goes through with {words}")
        loaded = call(self._load)
        if loaded.fault or loaded.code or self._numbers("load", loaded)["parameters"] != self._end:
            return violation("goes through, but leaves a run that gives other parameters or none")
        if _timeless(answer.out) != _timeless(self._resumed[typed].out):
            return violation("other numbers on stdout")
        kept, result = after["result.json"], self.sweep["a"].get("result.json")
        if result and kept == before.get("result.json") and json.loads(kept) != json.loads(result):
            return violation("other times in the result")
        return EXACT


def _timeless(words: str) -> str:
    return re.sub(r"at [\d,]+ per second", "", words)


def _plain(name: str) -> str:
    """A file's name without the checkpoint's number."""
    return re.sub(r"checkpoints/\d+/", "", name)
