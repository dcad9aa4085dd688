"""The loop of a run: from its start, or its last checkpoint, to its end or to Ctrl-C. Everything else is an observer."""

from collections.abc import Callable, Sequence

from tdu.errors import RunError, UserError, setting
from tdu.run.folder import EVALUATIONS, LEARNER_LOG, LOG, Folder, evaluations_at, latest_checkpoint, read_log
from tdu.run.folder.log import Log, rows_of
from tdu.run.folder.records import RunResult, version_changes, versions
from tdu.run.live_run import LiveRun, Observer
from tdu.run.observers import Advisor, Checkpointer, Evaluator, Logging, Recording, Reporter
from tdu.run.plan import Plan, make_runner
from tdu.run.progress import Report
from tdu.run.recording import Recorder
from tdu.run.run import Moment, Run
from tdu.run.runners.protocol import Saved
from tdu.run.runners.rows import WALL_TIME, plain_row
from tdu.run.signals import Interrupted
from tdu.run.track import Tracker
from tdu.run.trained import TrainedAgent


class Loop:
    """A run. It goes on from its last checkpoint if it has one."""

    def __init__(
        self,
        plan: Plan,
        folder: Folder | None,
        *,
        resuming: bool,
        say: Callable[[str], None],
        checkpoint_seconds: float,
        callbacks: Sequence[object],
        progress: Callable[[Report], None] | None,
        track: str | None,
        address: str | None,
        continued: Run | None,
    ):
        runner, agent = make_runner(plan.config, plan.env, address=address, say=say)
        for note in runner.notes:
            say(note)
        self._run = run = LiveRun(plan, runner, agent, folder, callbacks, say)
        recorder = Recorder(runner, agent, plan.config) if plan.config.record else None
        self._checkpointer = Checkpointer(run, recorder, seconds=checkpoint_seconds)
        self._evaluator = Evaluator(run, self._checkpointer)
        self._observers: list[Observer] = [Advisor(run), Logging(run), self._evaluator]
        if folder is not None and recorder is not None:
            self._observers.insert(0, Recording(run, folder, recorder))
        if track is not None:
            self._observers.append(Tracker(run, track))
        self._observers += [self._checkpointer, Reporter(run, progress)]
        self._resuming, self._continued = resuming, continued
        self.has_begun = False

    def _begin(self) -> None:
        run = self._run
        if run.folder is not None:
            self._restore(run.folder)
        elif self._continued is not None:
            self._continue(self._continued)
        run.clock_before = run.runner.clock
        for observer in self._observers:
            observer.start()
        self.has_begun = True

    def _restore(self, folder: Folder) -> None:
        run = self._run
        loaded = latest_checkpoint(folder.path, run.config, run.runner.save(), run.say, set_aside=True)
        if loaded is None:
            if self._resuming:
                run.say("there is no checkpoint yet, so the run starts at episode 1.")
            folder.open_logs(run.columns, None, run.config)
            return
        saved, manifest = loaded
        if changes := version_changes(manifest.versions[-1]):
            run.say(
                f"the run was started with other versions ({changes}), so its results may differ from those of a run with "
                "one version."
            )
        log = read_log(folder.path / LOG, upto=manifest.log.bytes)
        evaluations = evaluations_at(folder.path, manifest)
        try:
            self._restore_from(saved, manifest.seconds, log, evaluations)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as e:
            if isinstance(e, UserError):
                raise
            raise RunError(
                f"checkpoint {manifest.step:012d} of {folder.path} does not fit this run ({type(e).__name__}: {e})."
            ) from e
        folder.open_logs(run.columns, manifest, run.config)

    def _continue(self, run: Run) -> None:
        """Continues a run without a folder."""
        assert run.moment is not None
        self._run.best = run.moment.best
        self._restore_from(run.moment.copied_state(), run.moment.seconds, run.log, run.evaluations)
        for name, log in ((LOG, run.log), (LEARNER_LOG, run.moment.learner_log), (EVALUATIONS, run.evaluations)):
            self._run.append(name, rows_of(log))

    def _restore_from(self, saved: Saved, seconds: float, log: Log, evaluations: Log) -> None:
        run = self._run
        run.stopwatch.seconds_before = seconds
        run.runner.restore(saved)
        if not run.runner.exact:
            run.say("the environments cannot be restored, so they begin new episodes.")
        run.restore(log, evaluations)
        for observer in self._observers:
            observer.restore(saved)

    @property
    def has_progress(self) -> bool:
        """Whether an episode has ended, or steps were taken before this process."""
        return bool(self._run.runner.clock.episodes or self._run.clock_before.steps)

    def run(self) -> Run:
        """Runs to the end."""
        try:
            self._begin()
            self._advance_to_the_end()
            return self._finish()
        finally:
            for observer in self._observers:
                observer.close()
            if isinstance(self._run.source, str):  # the user closes an object
                self._run.runner.close()

    def _advance_to_the_end(self) -> None:
        run, runner, observers = self._run, self._run.runner, self._observers
        with run.signals:
            run.stopwatch.start()
            while not run.is_over:
                halts = [observer.next_episode for observer in observers]
                advanced = runner.advance(min((halt for halt in halts if halt is not None), default=None))
                run.stopwatch.read()
                seconds = round(run.stopwatch.seconds, 3)
                rows = [plain_row(row | {WALL_TIME: seconds}, run.columns) for row in advanced]
                for row in rows:
                    for observer in observers:
                        observer.episode(row)
                for observer in observers:
                    observer.advanced(rows)
                if run.interrupted_by is not None and not run.is_over:
                    raise Interrupted(self._interruption(), run.interrupted_by)

    def _interruption(self) -> str:
        steps, episodes = self._run.runner.clock
        if self._run.folder is None:
            return (
                f"interrupted at episode {episodes} (step {steps}); nothing was saved, because the run has no folder "
                f"(give {setting('out')})."
            )
        return (
            f"interrupted and saved at episode {episodes} (step {steps}) in {self._run.folder.path}; "
            "continue with the same command and --resume (in Python, resume=True)."
        )

    def _finish(self) -> Run:
        """The run, once its last step is taken."""
        run, runner = self._run, self._run.runner
        for observer in self._observers:
            observer.finish()  # the last checkpoint is saved before the evaluation, which may use the environment
        saved = runner.save() if run.folder is None else None  # before the evaluation too
        trained = TrainedAgent(runner.spec, run.agent, runner.params(), run.config.origin)
        result = self._result(trained)
        for observer in self._observers:
            observer.ended(result)
        if run.folder is not None:
            run.folder.write_result(result)
        finished = Run(
            result.to_json(),
            run.log(LOG),
            trained,
            run.config,
            run.log(EVALUATIONS),
            source=run.source,
            path=None if run.folder is None else run.folder.path,
            moment=None
            if saved is None
            else Moment(saved, run.stopwatch.seconds, run.log(LEARNER_LOG), result, run.best),
        )
        run.call("on_end", finished)
        return finished

    def _result(self, trained: TrainedAgent) -> RunResult:
        run, runner, config, clock = self._run, self._run.runner, self._run.config, self._run.runner.clock
        seconds, final = run.stopwatch.seconds, self._checkpointer.final
        return RunResult(
            env=config.env,
            agent=config.agent,
            config=config.config,
            seed=config.seed,
            episodes=clock.episodes,
            steps=clock.steps,
            seconds=round(seconds, 3),
            steps_per_second=round(clock.steps / seconds, 1) if seconds else None,
            mean_return=run.mean_return,
            mean_return_episodes=len(run.recent_returns),
            has_solved_rule=runner.spec.solved is not None,
            solved_episode=runner.progress.solved_episode,
            optimal_depth=len(runner.spec.optimal_path) or None,
            greedy_depth=runner.progress.greedy_depth if runner.spec.optimal_path else None,
            mastered_episode=runner.progress.mastered_episode,
            reached_return=run.best_return if config.has_reached(run.best_return) else None,
            greedy_return=self._evaluator.greedy_return(trained, steps=clock.steps),
            largest_q=max(run.recent_q) if run.recent_q else None,
            possible_return=runner.progress.possible_return if run.recent_q else None,
            config_sha256=config.sha256(),
            log_sha256=None if final is None else final.log.sha256,
            checkpoint_sha256=None if final is None else final.sha256(),
            versions=[versions()] if final is None else final.versions,
        )
