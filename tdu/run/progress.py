"""Progress of runs: a bar on a terminal, plain lines elsewhere, JSON lines for a parent process."""

import collections
import contextlib
import json
import math
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple, TextIO

from tdu.errors import several, unknown
from tdu.run import processes
from tdu.run.folder.records import GreedyReturn, RunResult
from tdu.run.processes import Facts, Job, Outcome
from tdu.run.runners.rows import Row
from tdu.types import EnvSpec

_PLAIN_EVERY = 5.0  # seconds between plain lines
_ALL = "all runs"


class Report(NamedTuple):
    """The state of a run after each piece of it."""

    spec: EnvSpec
    episode: int
    """Episodes that have ended."""
    episodes: int | None
    """Maximum number of episodes; None for no limit."""
    steps: int
    most_steps: int | None
    """Maximum number of steps; None for no limit."""
    seconds: float
    """Time spent running, over the whole run; compilation, evaluations and checkpoints are left out."""
    steps_per_second: float
    """Since this process took over."""
    seconds_left: float | None
    """Estimate from the last speed; None if unknown."""
    may_end_early: bool
    """Whether the run can end before its budget is spent."""
    last: Row | None
    """The last episode's row."""
    mean_return: float | None
    """Mean return of the last `RECENT` episodes; None before the first has ended."""
    bad_share: float | None
    """Share of bad episodes; None if the environment has no rule for them."""
    status: str = ""
    """The runner's own status."""
    evaluation: Row | None = None
    """The last row of evaluations.csv."""
    greedy_depth: int = 0
    """Steps of the optimal path that the greedy policy follows."""
    optimal_depth: int | None = None
    """Length of that path; None if the environment has none."""


def facts(report: Report) -> Facts:
    """What a display shows of a run."""
    evaluation = report.evaluation or {}
    limits = ((report.episode, report.episodes), (report.steps, report.most_steps))
    success_rate = evaluation.get("success_rate", math.nan)
    return {
        "episode": report.episode,
        "episodes": report.episodes,
        "steps": report.steps,
        "most_steps": report.most_steps,
        "seconds": report.seconds,
        "share": max((done / limit for done, limit in limits if limit), default=0.0),
        "return": report.mean_return,
        "regret": report.bad_share,
        "greedy_depth": report.greedy_depth,
        "optimal_depth": report.optimal_depth,
        "bonus": report.last["bonus"] if report.last else 0.0,
        "steps_per_second": report.steps_per_second,
        "seconds_left": report.seconds_left,
        "may_end_early": report.may_end_early,
        "greedy_return": evaluation.get("greedy_return"),
        "greedy_episode": evaluation.get("episode"),
        "greedy_length": evaluation.get("mean_length"),
        "success_rate": None if math.isnan(success_rate) else success_rate,
        "status": report.status,
    }


class Pace:
    """The speed of a run over the second half of its time so far, evaluations and checkpoints included.

    So the quick steps before learning begins are soon forgotten.
    """

    def __init__(self, steps: int, episodes: int) -> None:
        self._began = time.monotonic()
        self._moments = collections.deque([(self._began, steps, episodes)])

    def seconds_left(
        self, steps: int, episodes: int, *, most_steps: int | None, most_episodes: int | None
    ) -> float | None:
        """Time left by the limit that comes first; None if unknown."""
        now = time.monotonic()
        if now - self._moments[-1][0] >= (now - self._began) / 100:
            self._moments.append((now, steps, episodes))
        while len(self._moments) > 1 and self._moments[1][0] <= (self._began + now) / 2:
            self._moments.popleft()
        since, steps_then, episodes_then = self._moments[0]
        pairs = ((steps, steps_then, most_steps), (episodes, episodes_then, most_episodes))
        left = [(most - done) * (now - since) / (done - then) for done, then, most in pairs if most and done > then]
        soonest = min(left, default=None)
        return None if soonest and now - self._began < _UNKNOWN_FOR else soonest


_UNKNOWN_FOR = 2.0  # seconds before the first estimate


def sentence(shown: Facts) -> str:
    """The facts in one line, the most important first, because a narrow terminal cuts off the end."""
    depth = "" if shown["optimal_depth"] is None else f"  depth {shown['greedy_depth']} of {shown['optimal_depth']}"
    regret = "" if shown["regret"] is None else f"  regret {shown['regret']:.3f}"
    mean = "no episode has ended yet" if shown["return"] is None else f"last-100 return {shown['return']:.3f}"
    most = "at most" if shown.get("may_end_early") else "about"
    left = "" if shown["seconds_left"] is None else f"{most} {clock(shown['seconds_left'])} left  "
    greedy = shown["greedy_return"]
    trained = (
        ""
        if greedy is None
        else f"  trained policy {greedy:.3f}{length_words(shown['greedy_length'], shown['success_rate'])} "
        f"at episode {shown['greedy_episode']}"
    )
    return (
        f"{left}{mean}{trained}{depth}{regret}  bonus {shown['bonus']:.4f}  "
        f"{shown['steps']:,} steps in {clock(shown['seconds'])}, {shown['steps_per_second']:,.0f} a second"
        + (f"  {status}" if (status := shown.get("status")) else "")
    )


def clock(seconds: float | None) -> str:
    """A duration as h:mm:ss."""
    if seconds is None:
        return "?"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


class Throttle:
    """A plain line on stderr every few seconds."""

    def __init__(self, name: str, *, at_once: bool = False) -> None:
        self._name = name
        self._last = -math.inf if at_once else time.monotonic()

    def show(self, shown: Facts) -> None:
        if time.monotonic() - self._last < _PLAIN_EVERY:
            return
        self._last = time.monotonic()
        limit = "" if shown["episodes"] is None else f" of {shown['episodes']}"
        with contextlib.suppress(OSError):  # nobody is there to read it
            print(f"{self._name}: episode {shown['episode']}{limit}  {sentence(shown)}", file=sys.stderr, flush=True)


class Bars:
    """Live bars on a terminal, one per run."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskID, TextColumn
        from rich.table import Column

        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[done]}"),
            TextColumn("{task.fields[text]}", table_column=Column(ratio=1, no_wrap=True)),
            console=Console(stderr=True),
            expand=True,
        )
        self._tasks: dict[str, TaskID] = {}
        self._bars.start()

    def show(self, name: str, shown: Facts) -> None:
        done = f"{shown['episode']}" if shown["episodes"] is None else f"{shown['episode']}/{shown['episodes']}"
        self._move(name, share=shown["share"], done=done, text=sentence(shown))

    def finish(self, name: str, text: str) -> None:
        """Replaces a bar by a line of text above the other bars."""
        if name in self._tasks:
            self._bars.remove_task(self._tasks.pop(name))
        self._bars.console.print(f"{name}: {text}", highlight=False, markup=False, soft_wrap=True)

    def total(self, finished: float, jobs: int, text: str) -> None:
        """Updates the bar of all jobs together, if there is more than one."""
        if jobs > 1:
            self._move(_ALL, share=finished / jobs, done=f"{math.floor(finished)}/{jobs}", text=text)

    def _move(self, name: str, *, share: float, done: str, text: str) -> None:
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(name, total=1.0, done="", text="")
        self._bars.update(self._tasks[name], completed=share, done=done, text=text)

    def close(self) -> None:
        self._bars.stop()


def display(
    kind: str, name: str, output: TextIO, *, at_once: bool = True
) -> tuple[Callable[[Report], None], Callable[[], None]]:
    """A display of that kind, and a function that closes it.

    `auto` is a bar on a terminal and plain lines elsewhere; `json` is a line per report on `output`, for a parent process.
    """
    if kind == "none":
        return lambda report: None, lambda: None
    if kind == "json":
        return lambda report: _send(report, output), lambda: None
    if kind == "auto" and sys.stderr.isatty():
        bars = Bars()
        return lambda report: bars.show(name, facts(report)), bars.close
    lines = Throttle(name, at_once=at_once)
    return lambda report: lines.show(facts(report)), lambda: None


def _send(report: Report, output: TextIO) -> None:
    try:
        print(json.dumps(facts(report)), file=output, flush=True)
    except OSError:  # without a parent, the run is to save and end
        signal.raise_signal(signal.SIGTERM)


@contextlib.contextmanager
def shown(how: Callable[[Report], None] | str | bool | None, name: str) -> Iterator[Callable[[Report], None] | None]:
    """The function that `tdu.train` passes its reports to; a display is closed at the end.

    Without a terminal the first line comes after five seconds, so that short runs in a script print nothing.
    """
    how = {True: "auto", False: None}[how] if isinstance(how, bool) else None if how == "none" else how
    if how is None or callable(how):
        yield how
    elif how not in HOW:
        raise unknown("progress", how, HOW)
    else:
        show, close = display(how, name, sys.stderr, at_once=False)
        try:
            yield show
        finally:
            close()


HOW = ("auto", "plain", "none")
"""Names of displays for `tdu.train`, which also takes True ("auto"), False or None ("none"), or a function."""


def summary(result: RunResult, best: tuple[GreedyReturn, int, str] | None = None) -> str:
    """A result in at most three sentences.

    `best` is the best evaluation during the run, its episode, and the command that evaluates that agent again.
    """
    text = f"{result.agent} seed {result.seed} on {result.env}: "
    if result.optimal_depth is not None:
        text += _mastery_words(result)
    elif result.has_solved_rule:
        unsolved = f"not solved within {several(result.episodes, 'episode')}"
        text += f"solved at episode {result.solved_episode}" if result.solved_episode else unsolved
    else:
        text += several(result.episodes, "episode")
    if result.reached_return is not None:
        text += f", ended when an evaluation returned {result.reached_return:.3f} (--until-return)"
    if result.mean_return is not None:
        text += f", mean return of the last {several(result.mean_return_episodes, 'episode')} {result.mean_return:.3f}"
    text += f", {several(result.steps, 'step')} at {result.steps_per_second or 0:,.0f} per second."
    greedy = result.greedy_return
    if greedy is not None:
        text += f" The trained policy returns {return_words(greedy.mean, greedy.standard_error, greedy.episodes)}"
        text += "." if greedy.mean_length is None else f"{length_words(greedy.mean_length, greedy.success_rate)}."
        if best is not None and _is_better(best[0], greedy):
            text += (
                f" The best evaluation was {best[0].mean:.3f}, at episode {best[1]}; {best[2]} evaluates that agent."
            )
    return text


def _mastery_words(result: RunResult) -> str:
    rule = f"solved by bsuite's rule at episode {result.solved_episode}"
    if result.mastered_episode:
        return f"mastered at episode {result.mastered_episode}"
    words = f"not mastered within {several(result.episodes, 'episode')}"
    words += f" (the greedy policy follows {result.greedy_depth} of {result.optimal_depth} optimal steps)"
    return words + (f", {rule}" if result.solved_episode else "")


def return_words(mean: float, standard_error: float, episodes: int) -> str:
    """A mean return as text, with its standard error if there are enough episodes."""
    if episodes == 1:
        return f"{mean:.3f} in one episode"
    return f"{mean:.3f}{f' ± {standard_error:.3f}' if episodes >= _MIN_FOR_ERROR else ''} over {several(episodes, 'episode')}"


def length_words(mean_length: float, success_rate: float | None) -> str:
    """Mean length and success rate of evaluation episodes as text."""
    success = "" if success_rate is None else f", success rate {success_rate:.2f}"
    return f", mean length {mean_length:.1f}{success}"


_MIN_FOR_ERROR = 5


def _is_better(best: GreedyReturn, last: GreedyReturn) -> bool:
    """Whether an evaluation is higher by a tenth and by more than chance explains."""
    margin = max(0.1 * abs(best.mean), 2 * math.hypot(best.standard_error, last.standard_error))
    return best.mean > last.mean + margin


class Overall:
    """Progress of all jobs together, and the time left."""

    def __init__(self, total: int):
        self._total, self._done, self._failed = total, 0, 0
        self._shares: dict[str, float] = {}
        self._started = time.monotonic()

    def move(self, name: str, share: float) -> None:
        self._shares[name] = share

    def end(self, name: str, failed: bool) -> None:
        self._shares.pop(name, None)
        self._done += 1
        self._failed += failed

    @property
    def finished(self) -> float:
        """Number of finished jobs; those under way count by their share."""
        return self._done + sum(self._shares.values())

    def sentence(self) -> str:
        left = (time.monotonic() - self._started) * (self._total - self.finished) / max(self.finished, 1e-9)
        failed = f", {self._failed} failed" if self._failed else ""
        return f"{self._done} of {self._total} runs{failed}, about {clock(left if self.finished else None)} left"


Engine = Callable[..., list[Outcome]]


def run_jobs(
    jobs: list[Job], kind: str, *, workers: int | None = None, engine: Engine = processes.run_all
) -> list[Outcome]:
    """Runs jobs in parallel, with a bar for each on a terminal, or a line when one ends."""
    overall = Overall(len(jobs))
    bars = Bars() if kind == "auto" and sys.stderr.isatty() else None
    throttles = {job.name: Throttle(job.name) for job in jobs}

    def show(name: str, shown: Facts) -> None:
        overall.move(name, float(shown.get("share") or 0.0))
        if bars is not None:
            bars.show(name, shown)
            bars.total(overall.finished, len(jobs), overall.sentence())
        elif kind != "none":
            throttles[name].show(shown)

    def done(outcome: Outcome) -> None:
        overall.end(outcome.job.name, bool(outcome.code))
        reason = f"failed: {outcome.reason}"
        if bars is not None:
            bars.finish(outcome.job.name, reason if outcome.code or not outcome.result else summary(outcome.result))
            bars.total(overall.finished, len(jobs), overall.sentence())
        elif kind != "none":
            ending = "done" if outcome.code == 0 else reason
            print(f"{outcome.job.name}: {ending} ({overall.sentence()})", file=sys.stderr, flush=True)

    try:
        with processes.ending_as_interrupted():
            return engine(jobs, workers=workers, tell=show, done=done)
    finally:
        if bars is not None:
            bars.close()
