"""What watches a run while its loop advances it: recording, warnings, logs, evaluation, checkpoints, progress, callbacks.

An observer overrides the methods of `Observer` that it needs. The loop calls them in the order of its list of observers.
"""

import contextlib
import math
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tdu import environments
from tdu.errors import TrainingError, UserError
from tdu.run.folder import EVALUATIONS, LEARNER_LOG, LOG, Folder, latest_checkpoint, snapshots
from tdu.run.folder.checkpoints import Manifest
from tdu.run.folder.records import GreedyReturn, RunConfig
from tdu.run.live_run import LiveRun, Observer
from tdu.run.progress import Pace, Report
from tdu.run.recording import Recorder
from tdu.run.runners.protocol import Clock, Gone, Saved
from tdu.run.runners.rows import Row
from tdu.run.trained import MIN_EPISODE_STEPS, TrainedAgent, step_limit

NO_END_STEPS = 20_000
"""A run limited by episodes warns once if none has ended after this many steps."""

_DRIFT = 2.0
"""A warning needs values larger than this multiple of the largest return that rewards can explain …"""

_DRIFT_OF_FIRST = 100.0
"""… and larger than this multiple of the first batches' values, the only scale known before the first reward."""


class Recording(Observer):
    """Writes snapshots of the agent's values to record.jsonl."""

    def __init__(self, run: LiveRun, folder: Folder, recorder: Recorder):
        self._run, self._folder, self._recorder = run, folder, recorder

    def restore(self, saved: Saved) -> None:
        self._recorder.restore(saved, self._run.runner.clock)

    def start(self) -> None:
        if self._folder.record_is_empty:
            self._folder.add_to_record(snapshots.line(self._recorder.about()))
        self.advanced([])

    @property
    def next_episode(self) -> int | None:
        return self._recorder.due

    def advanced(self, rows: list[Row], *, last: bool = False) -> None:
        recorder, clock = self._recorder, self._run.runner.clock
        recorder.count_visits()
        if clock.episodes >= recorder.due or (last and clock.episodes > recorder.latest):
            self._folder.add_to_record(recorder.snapshot(clock))

    def finish(self) -> None:
        self.advanced([], last=True)


class Advisor(Observer):
    """Warns when learning goes wrong, and ends a run whose loss is not finite."""

    def __init__(self, run: LiveRun):
        self._run = run
        self._has_warned_of_drift = self._has_warned_of_no_end = False
        self._doubts: set[str] = set()

    def episode(self, row: Row) -> None:
        if not math.isfinite(row["loss"]):
            raise diverged(self._run.config, f"in episode {row['episode']}")

    def advanced(self, rows: list[Row]) -> None:
        for words in environments.doubts(self._run.env):
            if words not in self._doubts:
                self._doubts.add(words)
                self._run.say(words)
        self._warn_of_no_end()
        self._warn_of_drift(rows)

    def _warn_of_no_end(self) -> None:
        """Warns once that no episode ends in a run that is limited by episodes."""
        clock = self._run.runner.clock
        if self._has_warned_of_no_end or clock.episodes or clock.steps < NO_END_STEPS or self._run.config.steps:
            return
        self._has_warned_of_no_end = True
        self._run.say(
            f"no episode has ended in {clock.steps:,} steps; give --steps (steps=…), or the environment a time limit "
            "(gymnasium.wrappers.TimeLimit)."
        )

    def _warn_of_drift(self, rows: list[Row]) -> None:
        """Warns once that values are larger than rewards can explain."""
        progress = self._run.runner.progress
        if self._has_warned_of_drift or not rows or progress.first_q is None:
            return
        possible, first = progress.possible_return, progress.first_q * progress.reward_unit
        worst = max(rows, key=lambda row: row["largest_q"])
        if worst["largest_q"] > max(_DRIFT * possible, _DRIFT_OF_FIRST * first):
            self._has_warned_of_drift = True
            self._run.say(
                f"values drift: in episode {worst['episode']} the largest |Q| is {worst['largest_q']:.3g}, but the returns "
                f"so far explain at most {possible:.3g}; {_against_drift(self._run.config)}"
            )

    def finish(self) -> None:
        """Advises what to try after a run in which no episode ended, or which met no reward."""
        run, config = self._run, self._run.config.config
        steps = run.runner.clock.steps
        if not run.runner.clock.episodes:
            run.say(
                f"no episode ended in {steps:,} steps, so there is no return and no evaluation; try more steps, or a time "
                "limit (gymnasium.wrappers.TimeLimit)."
            )
        if not run.recent_q or run.runner.progress.possible_return:
            return
        advice = "try more steps" + (", or a larger beta" if "beta" in config else ", or the agent tdu")
        if config.get("return_steps", 1) > 1 and config.get("return_cut", "never") == "never":
            advice += "; if one wrong step loses everything or leads back to the start, try return_cut=worse"
        run.say(f"no reward was found in {steps:,} steps; {advice}.")


def diverged(config: RunConfig, when: str) -> TrainingError:
    """The error for a loss that is not finite. SU also reports one if its posterior sample is not finite."""
    if config.agent == "su":
        return TrainingError(
            f"the loss or the posterior sample stopped being finite {when}; try a smaller learning_rate, a smaller "
            "prior_variance or a larger likelihood_variance."
        )
    return TrainingError(f"the loss stopped being finite {when}; {_against_drift(config)}")


def _against_drift(config: RunConfig) -> str:
    """Advice, without the settings that the run already has."""
    advice = ["a smaller learning_rate", "a larger target_period"]
    if config.agent == "su":  # SU has a target of its own
        return f"try {' or '.join(advice)}."
    if config.config.get("bootstrap") == "max":
        advice.append("bootstrap=double")
        if "exploiters" in config.config:
            advice.append("the preset general")
    return f"try {', '.join(advice[:-1])} or {advice[-1]}."


class Logging(Observer):
    """Writes log.csv and learner.csv, or keeps the log in memory."""

    def __init__(self, run: LiveRun):
        self._run = run

    def episode(self, row: Row) -> None:
        self._run.add(row)

    def advanced(self, rows: list[Row]) -> None:
        run = self._run
        learner_rows = run.runner.learner_rows()
        if any(not math.isfinite(row["loss"]) for row in learner_rows):
            raise diverged(run.config, f"before step {run.runner.clock.steps}")
        run.append(LOG, rows)
        run.append(LEARNER_LOG, learner_rows)


class Evaluation(NamedTuple):
    """An evaluation during a run."""

    episode: int
    steps: int
    returns: GreedyReturn
    agent: TrainedAgent


class Evaluator(Observer):
    """Evaluates the greedy policy every so often, logs it in evaluations.csv and keeps the best agent."""

    def __init__(self, run: LiveRun, checkpointer: "Checkpointer"):
        every = run.config.evaluate_every
        if every is not None and not isinstance(run.source, str) and not run.runner.exact:
            raise UserError("evaluate_every needs an environment whose state can be restored; give its id.")
        self._run, self._checkpointer = run, checkpointer
        self._episodes, self._every = run.config.evaluation_episodes, every
        self._evaluated = Clock(0, 0)  # when the last evaluation was

    def restore(self, saved: Saved) -> None:
        if (last := self._run.last_evaluation) is not None:
            self._evaluated = Clock(last["steps"], last["episode"])

    @property
    def next_episode(self) -> int | None:
        return None if self._every is None else (self._evaluated.episodes // self._every + 1) * self._every

    def advanced(self, rows: list[Row]) -> None:
        if self.next_episode is not None and self._run.runner.clock.episodes >= self.next_episode:
            with self._run.stopwatch.paused():
                self._evaluate()

    def _evaluate(self) -> None:
        run, runner, clock = self._run, self._run.runner, self._run.runner.clock
        # A concurrent run goes on meanwhile, so the agent is saved as it is evaluated.
        saved = runner.save() if runner.is_concurrent else None
        params = jax.tree.map(jnp.copy, runner.params(saved))  # the next step would overwrite them
        trained = TrainedAgent(runner.spec, run.agent, params, run.config.origin)
        since = clock.steps - self._evaluated.steps
        self._evaluated = clock
        with contextlib.nullcontext() if isinstance(run.source, str) else runner.borrow_environment():
            returns = self.greedy_return(trained, steps=since)
        if returns is None:
            return
        row: Row = {"episode": clock.episodes, "steps": clock.steps, "greedy_return": returns.mean}
        row |= {"standard_error": returns.standard_error, "evaluation_episodes": returns.episodes}
        row |= {"mean_length": returns.mean_length}
        row |= {"success_rate": math.nan if returns.success_rate is None else returns.success_rate}
        run.last_evaluation = row
        run.append(EVALUATIONS, [row])
        if returns.mean > run.best_return and run.folder is not None:
            self._checkpointer.save(run.folder, best=True, saved=saved)
        elif returns.mean > run.best_return:
            run.keep_best(runner.save() if saved is None else saved)
        run.best_return = max(run.best_return, returns.mean)
        run.call("on_evaluation", Evaluation(clock.episodes, clock.steps, returns, trained))
        if run.config.has_reached(returns.mean):
            run.stop_requested = True

    def greedy_return(self, trained: TrainedAgent, *, steps: int) -> GreedyReturn | None:
        """The evaluation return within a tenth of `steps`; None if evaluation is off or no episode has ended."""
        runner, longest_episode = self._run.runner, self._run.longest_episode
        if not self._episodes or not runner.clock.episodes:
            return None
        # The number of episodes follows from the longest one, so that none is left out because it is long.
        longest = step_limit(longest_episode)
        affordable = max(steps // 10, MIN_EPISODE_STEPS) // max(longest_episode, 1)
        episodes = max(min(self._episodes, affordable), 1)
        played = runner.play(self._run.source, trained, episodes=episodes, longest=longest)
        if not len(played.returns):
            self._run.say(f"no evaluation episode ended within {longest:,} steps, so there is no evaluation return.")
            return None
        return GreedyReturn(
            mean=float(np.mean(played.returns)),
            standard_error=played.standard_error,
            episodes=len(played.returns),
            mean_length=float(np.mean(played.lengths)),
            success_rate=played.success_rate(self._run.config.success_return),
        )


class Checkpointer(Observer):
    """Saves a checkpoint when it is time, when the run is interrupted, and at its end."""

    def __init__(self, run: LiveRun, recorder: Recorder | None, *, seconds: float):
        self._run, self._recorder, self._seconds = run, recorder, seconds
        self._last_saved = 0.0
        self.final: Manifest | None = None  # the checkpoint of the last step

    def start(self) -> None:
        self._run.runner.attach(event=self._run.note_event, reload=self._last_checkpoint)
        self._last_saved = time.perf_counter()

    def _last_checkpoint(self, like: Saved) -> Saved | None:
        """What a restarted process of a concurrent run continues from."""
        run = self._run
        if run.folder is None:
            return None
        found = latest_checkpoint(run.folder.path, run.config, like, run.say, set_aside=False)
        return None if found is None else found[0]

    def advanced(self, rows: list[Row]) -> None:
        run = self._run
        run.interrupted_by = run.signals.received
        is_due = run.interrupted_by is not None or time.perf_counter() - self._last_saved >= self._seconds
        if run.folder is not None and is_due and run.runner.can_save and not run.is_over:
            with run.stopwatch.paused():
                self.save(run.folder)
            self._last_saved = time.perf_counter()

    def finish(self) -> None:
        if self._run.folder is not None:
            self.final = self.save(self._run.folder)

    def save(self, folder: Folder, *, best: bool = False, saved: Saved | None = None) -> Manifest:
        """Saves the run, or what is given of it; again if a process of a concurrent run dies meanwhile."""
        run, recorder = self._run, self._recorder
        while True:
            try:
                now = run.runner.save() if saved is None else saved
                return folder.save_checkpoint(
                    now if recorder is None else recorder.added_to(now),
                    step=run.runner.clock.steps,
                    config=run.config,
                    seconds=run.stopwatch.seconds,
                    best=best,
                )
            except Gone as e:
                run.note_event(f"{e} The checkpoint is saved again.")


class Reporter(Observer):
    """Reports to a progress display and to the user's callbacks."""

    def __init__(self, run: LiveRun, show: Callable[[Report], None] | None):
        self._run, self._show = run, show
        self._pace = Pace(0, 0)

    def start(self) -> None:
        self._run.call("on_start", self._run.config)
        self._pace = Pace(*self._run.clock_before)

    def episode(self, row: Row) -> None:
        self._run.call("on_episode", dict(row))

    def advanced(self, rows: list[Row]) -> None:
        report = self._report()
        if self._show is not None:
            self._show(report)
        self._run.call("on_step", report)

    def _report(self) -> Report:
        run, config = self._run, self._run.config
        runner, clock = run.runner, run.runner.clock
        seconds = run.stopwatch.seconds - run.stopwatch.seconds_before
        return Report(
            spec=runner.spec,
            episode=clock.episodes,
            episodes=config.episodes,
            steps=clock.steps,
            most_steps=config.steps,
            seconds=run.stopwatch.seconds,
            steps_per_second=(clock.steps - run.clock_before.steps) / seconds if seconds else 0.0,
            seconds_left=self._pace.seconds_left(*clock, most_steps=config.steps, most_episodes=config.episodes),
            may_end_early=runner.may_end_early or config.until_return is not None,
            last=run.last_row,
            mean_return=run.mean_return,
            bad_share=runner.progress.total_bad / clock.episodes if runner.spec.solved and clock.episodes else None,
            greedy_depth=runner.progress.greedy_depth,
            optimal_depth=len(runner.spec.optimal_path) or None,
            status=runner.status(),
            evaluation=run.last_evaluation,
        )
