"""A run under way, as its observers see it; and what an observer is."""

import collections
import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tdu.run.callbacks import call
from tdu.run.folder import EVALUATIONS, LEARNER_LOG, LOG, Folder, best_return, read_log
from tdu.run.folder.log import Log, MemoryLog
from tdu.run.folder.records import RECENT, RunConfig, RunResult
from tdu.run.plan import AnyAgent, Plan
from tdu.run.run import Best
from tdu.run.runners.protocol import Runner, Saved
from tdu.run.runners.rows import Row, columns
from tdu.run.signals import Signals


class Stopwatch:
    """Seconds spent running. Evaluations and checkpoints are left out."""

    def __init__(self) -> None:
        self.seconds = self.seconds_before = 0.0
        self._started = 0.0

    def start(self) -> None:
        """Starts at `seconds_before`, the time of the last checkpoint."""
        self.seconds = self.seconds_before
        self._started = time.perf_counter()

    def read(self) -> None:
        self.seconds = self.seconds_before + time.perf_counter() - self._started

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Leaves out the time that the body takes."""
        paused_at = time.perf_counter()
        yield
        self._started += time.perf_counter() - paused_at


class LiveRun:
    """A run under way, as its observers see it."""

    def __init__(
        self,
        plan: Plan,
        runner: Runner,
        agent: AnyAgent,
        folder: Folder | None,
        callbacks: Sequence[object],
        say: Callable[[str], None],
    ) -> None:
        self.config: RunConfig = plan.config
        self.source = plan.source
        self.env = plan.env
        self.runner, self.agent, self.folder, self.say = runner, agent, folder, say
        self._callbacks = callbacks
        self.columns = columns(runner.spec)
        self._in_memory = collections.defaultdict(MemoryLog, {LOG: MemoryLog(self.columns)})
        """The logs of a run without a folder."""
        self.signals = Signals(say)
        self.stopwatch = Stopwatch()
        self.clock_before = runner.clock  # steps and episodes before this process took over
        self.stop_requested = False  # by a callback, or by an evaluation that reached `until_return`
        self.interrupted_by: int | None = None  # the signal that ends the run, once its checkpoint is saved
        self.last_row: Row | None = None
        self.last_evaluation: Row | None = None
        self.best_return = -math.inf  # the best evaluation so far
        self.best: Best | None = None  # its agent, of a run without a folder
        self.recent_returns: collections.deque[float] = collections.deque(maxlen=RECENT)
        self.recent_q: collections.deque[float] = collections.deque(maxlen=RECENT)
        self.longest_episode = 0

    @property
    def is_over(self) -> bool:
        return self.runner.finished or self.stop_requested

    @property
    def mean_return(self) -> float | None:
        return float(np.mean(self.recent_returns)) if self.recent_returns else None

    def call(self, name: str, *arguments: object) -> None:
        """Calls the user's callbacks; one that returns False ends the run."""
        self.stop_requested |= call(self._callbacks, name, *arguments)

    def append(self, name: str, rows: list[Row]) -> None:
        """Appends rows to a log: in the folder, or in memory."""
        if self.folder is None:
            self._in_memory[name].append(rows)
        else:
            self.folder.append(name, rows)

    def keep_best(self, saved: Saved) -> None:
        """Keeps the agent of a run without a folder as the best so far."""
        rows = {name: len(self._in_memory[name]) for name in (LOG, LEARNER_LOG, EVALUATIONS)}
        self.best = Best.of(saved, step=self.runner.clock.steps, seconds=self.stopwatch.seconds, rows=rows)

    def log(self, name: str) -> Log:
        return self._in_memory[name].arrays() if self.folder is None else read_log(self.folder.path / name)

    def add(self, row: Row) -> None:
        """Takes in the row of a finished episode."""
        self.last_row = row
        self.recent_q.append(row["largest_q"])
        self.recent_returns.append(row["episode_return"])
        self.longest_episode = max(self.longest_episode, row["episode_len"])

    def restore(self, log: Log, evaluations: Log) -> None:
        """Takes in the logs up to a checkpoint."""
        if evaluations:
            self.best_return = best_return(evaluations)
            self.last_evaluation = {name: numbers[-1].item() for name, numbers in evaluations.items()}
        self.recent_returns.extend(log["episode_return"][-RECENT:].tolist())
        self.recent_q.extend(log["largest_q"][-RECENT:].tolist())
        self.longest_episode = int(log["episode_len"].max(initial=0))

    def note_event(self, event: str) -> None:
        """Reports what happened to a process of the run, and stores it in events.csv."""
        self.say(event)
        if self.folder is not None:
            self.folder.note_event(steps=self.runner.clock.steps, event=event)


class Observer:
    """Watches a run. A method that is not overridden does nothing."""

    def restore(self, saved: Saved) -> None:
        """Continues from a checkpoint, or from the end of a run without a folder."""

    def start(self) -> None:
        """Called once before the first step."""

    @property
    def next_episode(self) -> int | None:
        """The episode after which it has to see the agent; the runner does not advance beyond it."""
        return None

    def episode(self, row: Row) -> None:
        """Called with the log row of every finished episode."""

    def advanced(self, rows: list[Row]) -> None:
        """Called after every call of `Runner.advance`, with the rows of the episodes that ended in it."""

    def finish(self) -> None:
        """Called once after the last step."""

    def ended(self, result: RunResult) -> None:
        """Called once with the run's result."""

    def close(self) -> None:
        """Called at the very end, also after an error."""
