"""A session: one sitting of a run, from its start or its last checkpoint to its end, or to Ctrl-C."""

import collections
import contextlib
import math
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tdu.errors import TrainingError, UserError
from tdu.run import folder as runs
from tdu.run import recording
from tdu.run import track as tracking
from tdu.run.folder import folder as folders
from tdu.run.folder import snapshots
from tdu.run.folder.checkpoints import Manifest
from tdu.run.folder.log import MemoryLog
from tdu.run.folder.records import RECENT, GreedyReturn, RunResult
from tdu.run.greedy import mean_and_error
from tdu.run.plan import Plan, make_runner
from tdu.run.run import Run
from tdu.run.runners.protocol import Clock, Gone, Saved
from tdu.run.runners.rows import WALL_TIME, Row, columns, plain_row
from tdu.run.signals import Signals
from tdu.run.trained import TrainedAgent
from tdu.types import EnvSpec

_EVALUATION_STEPS = 1000
"""An episode of the evaluation has at least so many steps to end in, and ten times the longest of the training's."""


_DRIFT = 2.0
"""Values that are so many times what rewards can explain are worth a warning …"""

_LONG = 5_000
"""Steps without a reward after which the end of a run is worth a word on what to try."""

_NO_END = 20_000
"""Steps without the end of an episode after which a run that counts episodes says so."""

_DRIFT_OF_FIRST = 100.0
"""… if they are also so many times what the first batches had: before the first reward nothing else says what is large."""


class Report(NamedTuple):
    """What a progress display is told after every piece of a run."""

    spec: EnvSpec
    episode: int
    """Episodes that have ended."""
    episodes: int | None
    """At most so many; None is no limit."""
    steps: int
    most_steps: int | None
    seconds: float
    """Time spent running, compilation left out, over the whole run."""
    session_seconds: float
    session_episodes: int
    session_steps: int
    last: Row | None
    """The last episode's row."""
    mean_return: float | None
    """Of the last `RECENT` episodes; None before the first has ended."""
    bad_share: float | None
    status: str = ""
    """What the run has to say beside that."""
    evaluation: Row | None = None
    """The last row of evaluations.csv."""
    greedy_depth: int = 0
    """Steps of the optimal path that the greedy policy follows."""
    optimal_depth: int | None = None
    """Steps of that path; None where the environment has none."""


class Evaluation(NamedTuple):
    """What the policy returns that was learned so far."""

    episode: int
    steps: int
    returns: GreedyReturn
    agent: TrainedAgent


class Watching(NamedTuple):
    """Who looks on, and how often the policy is tried out."""

    evaluation_episodes: int
    """Once the run is over, and at most so many during it; 0 for none."""
    evaluate_every: int | None = None
    """Episodes between evaluations during the run."""
    on_episode: Callable[[Row], object] | None = None
    """Called with every episode's row of the log; the run ends soon after it has returned True."""
    on_evaluation: Callable[[Evaluation], object] | None = None
    """Called after every evaluation during the run, which ends if it returns True."""
    record: bool = False
    """Whether snapshots of what the agent knows are kept."""
    record_every: int | None = None
    """Episodes between them, where somebody wants to say."""


class Interrupted(KeyboardInterrupt):
    """The run was told to end, by Ctrl-C or by another process, and has saved what it can."""

    def __init__(self, sentence: str, signal_number: int):
        super().__init__(sentence)
        self.exit_code = 128 + signal_number


class Session:
    """One sitting of a run."""

    def __init__(
        self,
        plan: Plan,
        folder: runs.Folder | None,
        *,
        resuming: bool,
        checkpoint_seconds: float,
        watching: Watching,
        progress: Callable[[Report], None] | None,
        say: Callable[[str], None],
        track: str | None,
        address: str | None = None,
    ):
        self._plan, self._config, self._folder = plan, plan.config, folder
        self._progress, self._say = progress, say
        self._checkpoint_seconds, self._watching = checkpoint_seconds, watching
        self._best = -math.inf
        self._evaluated = Clock(0, 0)
        """When the policy was last tried out."""
        self._evaluation: Row | None = None
        """What it returned then."""
        self._is_told_to_end = False
        self._tracker: tracking.Tracker | None = None
        self._runner, self._agent = make_runner(plan.config, plan.env, address=address, say=say)
        for note in self._runner.notes:
            say(note)
        if watching.evaluate_every is not None and not isinstance(plan.source, str) and not self._runner.exact:
            raise UserError(
                "evaluate_every needs an environment that can be brought back to where it was; give its id."
            )
        self._columns = columns(self._runner.spec)
        self._seconds = 0.0
        self._last: Row | None = None
        self._recent_returns: collections.deque[float] = collections.deque(maxlen=RECENT)
        self._recent_q: collections.deque[float] = collections.deque(maxlen=RECENT)
        self._has_warned = self._has_warned_of_no_end = False
        self._longest_episode = 0
        self._memory_log = None if folder is not None else MemoryLog(self._columns)
        self._memory_evaluations = MemoryLog()
        self._recorder = self._make_recorder() if watching.record else None
        if folder is not None:
            self._restore(folder, resuming)
            self._record(first=True)
        self._runner.attach(event=self._note_event, reload=self._last_saved)
        self._seconds_before = self._seconds
        self._clock_before = self._runner.clock
        if track:  # last, when nothing can be refused any more
            self._tracker = tracking.start(track, folder.path if folder else None, plan.config.to_json())

    def _restore(self, folder: runs.Folder, resuming: bool) -> None:
        loaded = folders.latest_checkpoint(folder.path, self._config, self._runner.save(), self._say, set_aside=True)
        if loaded is None:
            if resuming:
                self._say("no checkpoint yet: it begins at episode 1.")
            folder.open_logs(self._columns, at=None)
            return
        saved, manifest = loaded
        self._seconds = manifest.seconds
        self._runner.restore(saved)
        if recording.is_in(saved) and self._recorder is None:
            self._recorder = self._make_recorder()
        if self._recorder is not None:
            self._recorder.restore(saved, self._runner.clock)
        if not self._runner.exact:
            self._say("its environments cannot be brought back to where they were: they begin new episodes.")
        log = runs.read_log(folder.path / folders.LOG, upto=manifest.log.bytes)
        self._recent_returns.extend(log["episode_return"][-RECENT:].tolist())
        self._recent_q.extend(log["largest_q"][-RECENT:].tolist())
        self._longest_episode = int(log["episode_len"].max(initial=0))
        evaluations = folders.evaluations_at(folder.path, manifest)
        if evaluations:
            self._best = float(evaluations["greedy_return"].max())
            self._evaluation = {name: numbers[-1].item() for name, numbers in evaluations.items()}
            self._evaluated = Clock(self._evaluation["steps"], self._evaluation["episode"])
        folder.open_logs(self._columns, at=manifest)

    def _make_recorder(self) -> recording.Recorder:
        config, every = self._config, self._watching.record_every
        return recording.Recorder(self._runner, self._agent, seed=config.seed, episodes=config.episodes, every=every)

    def _record(self, *, first: bool = False, last: bool = False) -> None:
        """Keeps a snapshot if it is time for one."""
        recorder, folder, clock = self._recorder, self._folder, self._runner.clock
        if recorder is None or folder is None:
            return
        recorder.look()
        if first and folder.record_is_empty:
            folder.add_to_record(snapshots.line(recorder.about()))
        if clock.episodes >= recorder.due or (last and clock.episodes > recorder.latest):
            folder.add_to_record(recorder.snapshot(clock))

    def _note_event(self, event: str) -> None:
        """Something happened to a process of the run."""
        self._say(event)
        if self._folder is not None:
            self._folder.note_event(steps=self._runner.clock.steps, event=event)

    def _last_saved(self, like: Saved) -> Saved | None:
        """What a process that begins again goes on from."""
        if self._folder is None:
            return None
        found = folders.latest_checkpoint(self._folder.path, self._config, like, self._say, set_aside=False)
        return None if found is None else found[0]

    @property
    def has_anything(self) -> bool:
        """Whether an episode has ended, or steps were taken before this sitting."""
        return bool(self._runner.clock.episodes or self._clock_before.steps)

    def run(self) -> Run:
        """The run to its end."""
        try:
            self._loop()
            return self._finish()
        finally:
            if self._tracker is not None:
                self._tracker.close()
            if isinstance(self._plan.source, str):  # an object is the user's to close
                self._runner.close()

    def _loop(self) -> None:
        runner, folder = self._runner, self._folder
        with Signals(self._say) as signals:
            started = last_saved = time.perf_counter()
            while not self._is_over:
                advanced = runner.advance(self._next_halt)
                rows = [plain_row(row | {WALL_TIME: 0.0}, self._columns) for row in advanced]
                self._record()
                self._warn_of_no_end()
                now = time.perf_counter()
                self._seconds = self._seconds_before + now - started
                self._take(rows)
                if self._next_evaluation is not None and runner.clock.episodes >= self._next_evaluation:
                    self._evaluate()
                    started += time.perf_counter() - now  # this is not time spent learning either
                    now = time.perf_counter()
                ends_by = signals.received
                is_due = ends_by is not None or now - last_saved >= self._checkpoint_seconds
                if folder is not None and is_due and runner.can_save and not self._is_over:
                    self._checkpoint(folder)
                    # Time spent on the disk is not time spent learning.
                    last_saved = time.perf_counter()
                    started += last_saved - now
                if self._progress is not None:
                    self._progress(self._report())
                if ends_by is not None and not self._is_over:
                    raise Interrupted(self._interruption(), ends_by)

    @property
    def _is_over(self) -> bool:
        return self._runner.finished or self._is_told_to_end

    @property
    def _next_evaluation(self) -> int | None:
        """The episode after which the policy is tried out again."""
        every = self._watching.evaluate_every
        return None if every is None else (self._evaluated.episodes // every + 1) * every

    @property
    def _next_halt(self) -> int | None:
        """The episode after which somebody wants to look at the agent."""
        halts = (self._next_evaluation, None if self._recorder is None else self._recorder.due)
        return min((halt for halt in halts if halt is not None), default=None)

    def _evaluate(self) -> None:
        """Tries out the policy, notes what it returns, and keeps it if it is the best so far."""
        runner, clock = self._runner, self._runner.clock
        # A concurrent run goes on while the policy is evaluated: the best agent is saved as it was evaluated.
        saved = runner.save() if self._folder is not None and runner.is_concurrent else None
        params = jax.tree.map(jnp.copy, runner.params(saved))  # which the next step would overwrite
        trained = TrainedAgent(runner.spec, self._agent, params)
        since = clock.steps - self._evaluated.steps
        self._evaluated = clock
        aside = contextlib.nullcontext() if isinstance(self._plan.source, str) else runner.borrow_environment()
        with aside:
            returns = self._greedy_return(trained, steps=since)
        if returns is None:
            return
        row = {"episode": clock.episodes, "steps": clock.steps, "greedy_return": returns.mean}
        row |= {"standard_error": returns.standard_error, "evaluation_episodes": returns.episodes}
        self._evaluation = row
        if self._folder is None:
            self._memory_evaluations.append([row])
        else:
            self._folder.append_to(folders.EVALUATIONS, [row])
            if returns.mean > self._best:
                self._checkpoint(self._folder, best=True, saved=saved)
        self._best = max(self._best, returns.mean)
        if self._tracker is not None:
            self._tracker.evaluation(row, self._best)
        if self._watching.on_evaluation is not None:
            evaluation = Evaluation(clock.episodes, clock.steps, returns, trained)
            self._is_told_to_end |= self._watching.on_evaluation(evaluation) is True

    def _take(self, rows: list[Row]) -> None:
        """Logs the rows of episodes that have just ended, and what the learner has to tell."""
        for row in rows:
            row[WALL_TIME] = round(self._seconds, 3)
            if not math.isfinite(row["loss"]):
                raise self._diverged(f"in episode {row['episode']}")
            if self._tracker is not None:
                self._tracker.episode(row)
            if self._watching.on_episode is not None:
                self._is_told_to_end |= self._watching.on_episode(dict(row)) is True
            self._last = row
            self._recent_q.append(row["largest_q"])
            self._recent_returns.append(row["episode_return"])
            self._longest_episode = max(self._longest_episode, row["episode_len"])
        self._warn_of_drift(rows)
        learner_rows: list[Row] = self._runner.learner_rows()
        if any(not math.isfinite(row["loss"]) for row in learner_rows):
            raise self._diverged(f"before step {self._runner.clock.steps}")
        if self._folder is not None:
            self._folder.append(rows)
            self._folder.append_to(folders.LEARNER_LOG, learner_rows)
        if self._memory_log is not None:
            self._memory_log.append(rows)

    def _warn_of_drift(self, rows: list[Row]) -> None:
        """Says once that values are larger than what rewards can explain."""
        progress = self._runner.progress
        if self._has_warned or not rows or progress.first_largest_q is None:
            return
        possible, first = progress.possible_return, progress.first_largest_q
        worst = max(rows, key=lambda row: row["largest_q"])
        if worst["largest_q"] > max(_DRIFT * possible, _DRIFT_OF_FIRST * first):
            self._has_warned = True
            self._say(
                f"values drift: in episode {worst['episode']} the largest |Q| is {worst['largest_q']:.3g}, and no return "
                f"seen so far explains more than {possible:.3g}; {self._against_drift()}"
            )

    def _diverged(self, when: str) -> TrainingError:
        """The error for a loss that is not finite; SU reports such a loss where its posterior sample is not finite."""
        if self._config.agent == "su":
            return TrainingError(
                f"the loss or the posterior sample stopped being finite {when}; try a smaller learning_rate, a smaller "
                "prior_variance or a larger likelihood_variance."
            )
        return TrainingError(f"the loss stopped being finite {when}; {self._against_drift()}")

    def _against_drift(self) -> str:
        """What to try that is not tried already."""
        more = ["a smaller learning_rate", "a larger target_period"]
        if self._config.agent == "su":  # which has its own target
            return f"try {' or '.join(more)}."
        if self._config.config.get("bootstrap") == "max":
            more.append("bootstrap=double")
        if "exploiters" in self._config.config and self._config.config.get("bootstrap") == "max":
            more.append("the preset general")
        return f"try {', '.join(more[:-1])} or {more[-1]}."

    def _advise_where_no_reward_was_met(self) -> None:
        """Says what to try next, once a run is over that learned nothing because there was nothing to learn from."""
        steps, config = self._runner.clock.steps, self._config.config
        if steps < _LONG or not self._recent_q or self._runner.progress.possible_return:
            return
        advice = "try more steps" + (", or a larger beta" if "beta" in config else ", or the agent tdu")
        if config.get("return_steps", 1) > 1 and config.get("return_cut", "never") == "never":
            advice += "; where one wrong step loses all or leads back, try return_cut=worse"
        self._say(f"no reward was met in {steps:,} steps; {advice}.")

    def _warn_of_no_end(self) -> None:
        """Says once that no episode ends, where the run is to end after so many of them."""
        clock = self._runner.clock
        if not self._has_warned_of_no_end and not clock.episodes and clock.steps >= _NO_END and not self._config.steps:
            self._has_warned_of_no_end = True
            self._say(
                f"no episode has ended in {clock.steps:,} steps; give --steps (steps=…), or the environment a time limit "
                "(gymnasium.wrappers.TimeLimit)."
            )

    def _checkpoint(self, folder: runs.Folder, *, best: bool = False, saved: Saved | None = None) -> Manifest:
        while True:
            try:
                now = self._runner.save() if saved is None else saved
                return folder.save_checkpoint(
                    now if self._recorder is None else self._recorder.added_to(now),
                    step=self._runner.clock.steps,
                    config=self._config,
                    seconds=self._seconds,
                    best=best,
                )
            except Gone as e:
                self._note_event(f"{e} It is saved anew.")

    def _interruption(self) -> str:
        steps, episodes = self._runner.clock
        if self._folder is None:
            return f"interrupted at episode {episodes} (step {steps}); it has no folder, so nothing is saved."
        return (
            f"interrupted and saved at episode {episodes} (step {steps}) in {self._folder.path}; "
            "continue with the same command and --resume (in Python, resume=True)."
        )

    def _finish(self) -> Run:
        """The result of a run whose last step is taken."""
        runner, folder = self._runner, self._folder
        self._record(last=True)
        self._advise_where_no_reward_was_met()
        # The checkpoint comes before the evaluation, which may leave its traces in the environment.
        manifest = None if folder is None else self._checkpoint(folder)
        trained = TrainedAgent(runner.spec, self._agent, runner.params())
        result = self._result(trained, manifest)
        if folder is not None:
            folder.write_result(result)
            log, evaluations = runs.read_log(folder.path / folders.LOG), folders.evaluations_at(folder.path, manifest)
        else:
            assert self._memory_log is not None
            log, evaluations = self._memory_log.arrays(), self._memory_evaluations.arrays()
        return Run(result.to_json(), log, trained, self._config, evaluations)

    def _result(self, trained: TrainedAgent, last: Manifest | None) -> RunResult:
        runner, config, clock = self._runner, self._config, self._runner.clock
        return RunResult(
            env=config.env,
            agent=config.agent,
            config=config.config,
            seed=config.seed,
            episodes=clock.episodes,
            steps=clock.steps,
            seconds=round(self._seconds, 3),
            steps_per_second=round(clock.steps / self._seconds, 1) if self._seconds else None,
            mean_return=self._mean_return(),
            mean_return_episodes=len(self._recent_returns),
            has_solved_rule=runner.spec.solved is not None,
            solved_episode=runner.progress.solved_episode,
            optimal_depth=len(runner.spec.optimal_path) or None,
            greedy_depth=runner.progress.greedy_depth if runner.spec.optimal_path else None,
            mastered_episode=runner.progress.mastered_episode,
            greedy_return=self._greedy_return(trained, steps=clock.steps),
            largest_q=max(self._recent_q) if self._recent_q else None,
            possible_return=runner.progress.possible_return if self._recent_q else None,
            config_sha256=config.sha256(),
            log_sha256=None if last is None else last.log.sha256,
            checkpoint_sha256=None if last is None else last.sha256(),
        )

    def _greedy_return(self, trained: TrainedAgent, *, steps: int) -> GreedyReturn | None:
        """What the trained policy returns; None where that was not asked for, or no episode has ended, then or now."""
        wanted = self._watching.evaluation_episodes
        if not wanted or not self._runner.clock.episodes:
            return None
        # As many as fit into a tenth of the steps trained, by the longest of the episodes: none is left out for being long.
        longest = max(_EVALUATION_STEPS, 10 * self._longest_episode)
        affordable = max(steps // 10, _EVALUATION_STEPS) // max(self._longest_episode, 1)
        episodes = max(min(wanted, affordable), 1)
        returns = self._runner.play(self._plan.source, trained, episodes=episodes, longest=longest)
        return GreedyReturn(*mean_and_error(returns), len(returns)) if len(returns) else None

    def _mean_return(self) -> float | None:
        return float(np.mean(self._recent_returns)) if self._recent_returns else None

    def _report(self) -> Report:
        runner, clock = self._runner, self._runner.clock
        done = Clock(*(now - then for now, then in zip(clock, self._clock_before, strict=True)))
        return Report(
            spec=runner.spec,
            episode=clock.episodes,
            episodes=self._config.episodes,
            steps=clock.steps,
            most_steps=self._config.steps,
            seconds=self._seconds,
            session_seconds=self._seconds - self._seconds_before,
            session_episodes=done.episodes,
            session_steps=done.steps,
            last=self._last,
            mean_return=self._mean_return(),
            bad_share=runner.progress.total_bad / clock.episodes if runner.spec.solved and clock.episodes else None,
            greedy_depth=runner.progress.greedy_depth,
            optimal_depth=len(runner.spec.optimal_path) or None,
            status=runner.status(),
            evaluation=self._evaluation,
        )
