"""How a run tells that it is alive: a bar on a terminal, plain lines elsewhere, JSON lines for a parent process."""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from tdu.runners import parallel
from tdu.train import Report

_PLAIN_EVERY = 5.0
_ALL = "all runs"


def facts(report: Report) -> dict[str, Any]:
    """What any display shows of a run."""
    rate = report.session_steps / report.session_seconds if report.session_seconds else 0.0
    per_episode = report.session_seconds / max(report.session_episodes, 1)
    return {
        "episode": report.episode,
        "episodes": report.episodes,
        "return": report.mean_return,
        "regret": report.bad_share,
        "bonus": float(report.last["bonus"]) if report.last else 0.0,
        "steps_per_second": rate,
        "seconds_left": (report.episodes - report.episode) * per_episode if report.session_episodes else None,
    }


def sentence(told: dict[str, Any]) -> str:
    """The facts in one line."""
    regret = "" if told["regret"] is None else f"  regret {told['regret']:.3f}"
    return (
        f"return {told['return']:.3f}{regret}  bonus {told['bonus']:.4f}  "
        f"{told['steps_per_second']:,.0f} steps/s  at most {clock(told['seconds_left'])} left"
    )


def clock(seconds: float | None) -> str:
    """A duration as people write it."""
    if seconds is None:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class Throttle:
    """A plain line on stderr every few seconds."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._last = time.monotonic()

    def show(self, told: dict[str, Any]) -> None:
        """Prints the facts if it is time again."""
        if time.monotonic() - self._last < _PLAIN_EVERY:
            return
        self._last = time.monotonic()
        words = f"{self._name}: episode {told['episode']} of {told['episodes']}  {sentence(told)}"
        print(words, file=sys.stderr, flush=True)


class Bars:
    """Live bars on a terminal, one per run."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[words]}"),
            console=Console(stderr=True),
        )
        self._tasks: dict[str, Any] = {}
        self._bars.start()

    def show(self, name: str, told: dict[str, Any]) -> None:
        """Moves the bar of that name."""
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(name, total=told["episodes"], words="")
        self._bars.update(self._tasks[name], completed=told["episode"], words=sentence(told))

    def finish(self, name: str, words: str) -> None:
        """Leaves the last words of that name above the bars that are still moving."""
        if name in self._tasks:
            self._bars.remove_task(self._tasks.pop(name))
        self._bars.console.print(f"{name}: {words}", highlight=False, soft_wrap=True)

    def total(self, finished: float, jobs: int, words: str) -> None:
        """Moves the bar of all jobs together, where there is more than one."""
        if jobs > 1:
            if _ALL not in self._tasks:
                self._tasks[_ALL] = self._bars.add_task(_ALL, total=jobs, words="")
            self._bars.update(self._tasks[_ALL], completed=finished, words=words)

    def close(self) -> None:
        """Leaves the terminal as it was found."""
        self._bars.stop()


def display(kind: str, name: str) -> tuple[Callable[[Report], None], Callable[[], None]]:
    """The display asked for, and how to close it.

    `auto` is a bar on a terminal and plain lines elsewhere; `json` is a line per report on standard output, for the
    process that started this one.
    """
    if kind == "none":
        return lambda report: None, lambda: None
    if kind == "json":
        return lambda report: print(json.dumps(facts(report)), flush=True), lambda: None
    if kind == "auto" and sys.stderr.isatty():
        bars = Bars()
        return lambda report: bars.show(name, facts(report)), bars.close
    lines = Throttle(name)
    return lambda report: lines.show(facts(report)), lambda: None


def summary(result: dict[str, Any]) -> str:
    """A result in one sentence."""
    words = f"{result['agent']} seed {result['seed']} on {result['env']}: "
    if "solved_episode" in result:
        solved = result["solved_episode"]
        words += f"solved at episode {solved}" if solved else f"not solved within {result['episodes']} episodes"
    else:
        words += f"{result['episodes']} episodes"
    rate = result["steps_per_second"] or 0
    return f"{words}, mean return {result['mean_return']:.3f}, {result['steps']} steps at {rate:,.0f} per second."


class Overall:
    """How far a number of jobs has come, and how long the rest may take."""

    def __init__(self, total: int):
        self._total, self._done, self._failed = total, 0, 0
        self._share: dict[str, float] = {}
        self._started = time.monotonic()

    def tell(self, name: str, told: dict[str, Any]) -> None:
        """A job that is under way."""
        self._share[name] = told["episode"] / told["episodes"]

    def end(self, name: str, failed: bool) -> None:
        """A job that is over."""
        self._share.pop(name, None)
        self._done += 1
        self._failed += failed

    @property
    def finished(self) -> float:
        """Jobs that are over, those under way by their share."""
        return self._done + sum(self._share.values())

    def words(self) -> str:
        """All of it in one line."""
        left = (time.monotonic() - self._started) * (self._total - self.finished) / max(self.finished, 1e-9)
        failed = f", {self._failed} failed" if self._failed else ""
        return f"{self._done} of {self._total} runs{failed}, about {clock(left if self.finished else None)} left"


Engine = Callable[..., list[parallel.Outcome]]


def run_jobs(
    jobs: list[parallel.Job], kind: str, *, workers: int | None = None, engine: Engine = parallel.run_all
) -> list[parallel.Outcome]:
    """Runs jobs in parallel with a bar for each on a terminal, or a line when one ends; and how far all of them are."""
    overall = Overall(len(jobs))
    bars = Bars() if kind == "auto" and sys.stderr.isatty() else None
    shown = {job.name: Throttle(job.name) for job in jobs}

    def tell(name: str, told: dict[str, Any]) -> None:
        overall.tell(name, told)
        if bars is not None:
            bars.show(name, told)
            bars.total(overall.finished, len(jobs), overall.words())
        elif kind != "none":
            shown[name].show(told)

    def done(outcome: parallel.Outcome) -> None:
        overall.end(outcome.job.name, bool(outcome.code))
        reason = f"failed: {outcome.reason}"
        if bars is not None:
            bars.finish(outcome.job.name, reason if outcome.code or not outcome.result else summary(outcome.result))
            bars.total(overall.finished, len(jobs), overall.words())
        elif kind != "none":
            words = "done" if outcome.code == 0 else reason
            print(f"{outcome.job.name}: {words} ({overall.words()})", file=sys.stderr, flush=True)

    try:
        return engine(jobs, workers=workers, tell=tell, done=done)
    finally:
        if bars is not None:
            bars.close()
