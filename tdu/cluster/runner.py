"""A run of an agent with a memory on a Ray cluster, in the process that drives it.

`RayRunner` starts the rollouts, the replay and the learner (`cluster.actors`) and gives them their work; `cluster.crew`
watches them. When the replay or the learner dies, its spare goes on from the run's last checkpoint. A process that Ray has
restarted is the next spare, or a rollout under a new name that begins new episodes.

This process keeps the run's folder and its clock: a step counts once its message has arrived here. Logs, checkpoints,
evaluations and results are those of any run. But the order of messages depends on the cluster, so the same seed does not give
the same run twice.
"""

import collections
import functools
import time
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tdu import environments
from tdu.agents.r2d2.agent import RecurrentAgent
from tdu.agents.r2d2.replay import check_room
from tdu.cluster import connection
from tdu.cluster.actors import SEGMENT
from tdu.cluster.connection import PATIENCE
from tdu.cluster.crew import Crew, Process
from tdu.cluster.messages import Counters, Rolled, slack
from tdu.errors import RunError, TrainingError, UserError
from tdu.metrics import UPDATES
from tdu.run.folder.records import RunConfig
from tdu.run.runners import interaction
from tdu.run.runners.meter import Episode
from tdu.run.runners.protocol import Budget, Gone, Saved
from tdu.run.runners.recurrent import SequenceRunner
from tdu.run.runners.rows import Row
from tdu.run.trained import Played, TrainedAgent
from tdu.types import EnvSpec, Params, State


class RayCarry(NamedTuple):
    """The part of a checkpoint that is a pytree of arrays."""

    learner: State


class RayRunner(SequenceRunner):
    """A run over the rollouts of a cluster."""

    is_concurrent = True

    def __init__(
        self,
        spec: EnvSpec,
        agent: RecurrentAgent,
        config: RunConfig,
        *,
        budget: Budget,
        address: str | None = None,
        compiled: bool = True,
        say: Callable[[str], None] = lambda words: None,
    ):
        assert config.actors is not None
        super().__init__(spec, agent, budget, config.until)
        self.exact = False
        self._config, self._actors = config, config.actors
        self._received = self._spawned = 0  # steps of all messages, and rollouts started
        self._last_numbers: dict[int, int] = {}  # the last message of every rollout of this session
        self._totals: dict[int, dict[str, float]] = {}  # the environments' counts of every rollout
        self._pending: list[Rolled] = []
        self._filled = {"sequences": 0, "capacity": agent.config.replay_capacity, "ahead": 0}
        self._began = (0, time.monotonic())  # steps and time when the first message of this session arrived
        self._moved_at: float | None = None  # when the last message arrived
        self._started_at = time.monotonic()
        self._trained, self._learning_seconds = 0, 0.0
        self._event: Callable[[str], None] = say
        self._reload: Callable[[], Saved | None] = lambda: None
        self._served: collections.Counter[str] = collections.Counter()
        self._started: Crew | None = None
        self._is_attached = False
        self._state: State = self._first_state()  # the learner's state when it was last fetched
        if compiled:
            if agent.observe is not None:
                raise UserError("bonus counts has to see every step in order; it is for --engine local.")
            if address is None:  # the replay will be on this machine: what does not fit is refused before Ray starts
                streams = self._actors * config.num_envs
                check_room(spec, agent.config, memory=agent.empty_memory(), streams=streams)
            ray = connection.connect(address, self._actors)
            try:
                self._started = self._start(ray, say)
            except BaseException:
                ray.shutdown()
                raise

    def _first_state(self) -> State:
        seed = environments.own_seed(self._config.env, self._config.seed)
        first = interaction.first_keys(interaction.run_key(seed))[0]
        return jax.tree.map(np.asarray, jax.jit(self._agent.init)(first))

    @property
    def _crew(self) -> Crew:
        assert self._started is not None, "the processes were not started, or have been ended"
        return self._started

    def attach(self, *, event: Callable[[str], None], reload: Callable[[Saved], Saved | None]) -> None:
        self._reload = functools.partial(reload, self.save())
        self._event = self._crew.event = event
        self._is_attached = True

    def _advance(self, upto_episode: int | None) -> list[Row]:
        """Waits for messages for a moment; returns the rows of the episodes that ended."""
        del upto_episode  # the cluster does not wait
        until = time.monotonic() + 0.5
        while not self._pending and time.monotonic() < until:
            self._crew.watch(0.2)
        if self._pending:
            if self._moved_at is None:  # the speed is measured from the first message on
                self._began = (self._received, time.monotonic())
            self._moved_at = time.monotonic()
        rows: list[Row] = []
        while self._pending and not self.finished:
            rows += self._rows(self._pending.pop(0))
        self._log_learning_if_due()
        return rows

    def _check_advanced(self, steps_before: int) -> None:
        """Raises an error if no step was taken for too long, after the first, or if no process starts."""
        del steps_before
        if not self._served and time.monotonic() - self._started_at > PATIENCE:
            raise connection.nothing_starts(PATIENCE)
        if self._moved_at is not None and time.monotonic() - self._moved_at > PATIENCE:
            raise TrainingError(
                f"no step was taken for {PATIENCE:.0f} seconds, with {self._crew.alive} of {self._actors} actors alive; "
                "see whether the cluster has room for them, and continue with --resume."
            )

    @property
    def _stored_sequences(self) -> int:
        return self._filled["sequences"]

    def status(self) -> str:
        steps, since = self._began
        status = self._status(
            acting=max(self._steps - steps, 0) * self.spec.frames_per_step / max(time.monotonic() - since, 1e-9),
            learning=self._trained / max(self._learning_seconds, 1e-9),
            capacity=self._filled["capacity"],
        )
        if self._moved_at is None:
            return f"starting: {self._crew.ready} of {len(self._crew.processes)} processes are ready"
        return f"{status}; {self._crew.alive} of {self._actors} actors alive"

    @property
    def can_save(self) -> bool:
        """Whether a step was taken: the processes take a while to start."""
        return self._steps > 0

    def _save(self) -> Saved:
        """The run as it is now; before it is attached, an example of a checkpoint."""
        if not self._is_attached:
            return Saved(RayCarry(self._state), {}, {})
        news, stored, priorities = self._crew.call("replay", "snapshot")
        self._receive(news)
        self._learns_from = stored["learns_from"]
        self._state, self._updates = self._crew.call("learner", "state")
        self._state = jax.tree.map(np.array, self._state)
        pending = [rolled._asdict() | {"episodes": [e._asdict() for e in rolled.episodes]} for rolled in self._pending]
        plain = self._learning() | {"spawned": self._spawned, "replay": stored, "pending": pending}
        return Saved(RayCarry(self._state), {"priorities": np.array(priorities)}, plain, self._segments(stored))

    def _segments(self, stored: dict[str, int]) -> Mapping[str, Callable[[], dict[str, np.ndarray]]]:
        lineage, oldest, end = stored["lineage"], stored["oldest"], stored["next"]
        segments = {}
        for first in range(oldest // SEGMENT * SEGMENT, end, SEGMENT):
            last = min(first + SEGMENT, end)
            open_ = "" if last == first + SEGMENT else f"-{last - first}"
            segments[f"{lineage}-{first:010d}{open_}"] = functools.partial(self._segment, lineage, first, last)
        return segments

    def _segment(self, *which: int) -> dict[str, np.ndarray]:
        found = self._crew.call("replay", "segment", *which)
        if found is None:
            raise Gone("the replay died while it was being saved.")
        return found

    def _restore(self, saved: Saved) -> None:
        """Restores the counters; the learner and the replay get their parts when they start."""
        plain = saved.plain
        self._restore_learning(plain)
        self._spawned, self._learns_from = plain["spawned"], plain["replay"]["learns_from"]
        self._pending = [
            Rolled(**rolled | {"episodes": [Episode(**episode) for episode in rolled["episodes"]]})
            for rolled in plain["pending"]
        ]
        self._received = self._steps + sum(rolled.steps for rolled in self._pending)
        self._state = saved.state.learner

    def params(self, saved: Saved | None = None) -> Params:
        if saved is None and self._is_attached and not self.finished:
            self._state, self._updates = self._crew.call("learner", "state")
        state = self._state if saved is None else saved.state.learner
        return self._agent.params(jax.tree.map(lambda x: jnp.asarray(np.array(x)), state))

    def play(self, env: Any, trained: TrainedAgent, *, episodes: int, longest: int) -> Played:
        """Evaluation episodes, played by a process of its own while the others go on."""
        del env  # the process makes it from the run's config
        arguments = (self._config, jax.tree.map(np.asarray, trained.params), episodes, longest)
        return Played(*map(np.array, self._crew.call("evaluator", "play", *arguments)))

    def close(self) -> None:
        if self._started is not None:
            self._started.close()
            self._started = None

    def _receive(self, news: list[Rolled]) -> None:
        for rolled in news:
            if rolled.number > self._last_numbers.get(rolled.rollout, 0):
                self._last_numbers[rolled.rollout] = rolled.number
                self._received += rolled.steps
                self._pending.append(rolled)

    def _rows(self, rolled: Rolled) -> list[Row]:
        """Counts a message; returns the rows of its episodes."""
        rows: list[Row] = []
        for episode in rolled.episodes:
            totals = self._with_counts(rolled.rollout, episode.totals)
            rows += self._log([episode._replace(steps=self._steps + episode.steps, totals=totals)])
        self._steps += rolled.steps
        return rows

    def _with_counts(self, rollout: int, counts: dict[str, float]) -> dict[str, float]:
        """The environment's counts over all rollouts: sums, but not of bests and of numbers of one episode."""
        before, self._totals[rollout] = self._totals.get(rollout, {}), counts
        totals = self.progress.totals
        return {
            name: x
            if name in self.spec.per_episode
            else max(totals[name], x)
            if name.startswith("best")
            else totals[name] + x - before.get(name, 0)
            for name, x in counts.items()
        }

    # The work of the processes.

    def _start(self, ray: ModuleType, say: Callable[[str], None]) -> Crew:
        """Requests all processes of the cluster; they begin to work one by one."""
        resources = ray.cluster_resources()
        cores = int(resources.get("CPU", 0))
        if cores < 1:
            raise UserError("the Ray cluster has no core for actors; add machines to it.")
        if cores < self._actors:
            say(f"the cluster has room for {cores} of {self._actors} actors; the others begin when there is more.")
        gpus = min(1, int(resources.get("GPU", 0)))
        crew = Crew(ray, give_work=self._give_work, take_in=self._take_in, event=say)
        # The learner and the replay reserve no core, so that they can be restarted at once on any machine.
        for _ in range(2):
            crew.hire("replay", threads=self._actors + 16)
        for _ in range(2):
            crew.hire("learner", threads=self._actors + 16, num_gpus=gpus)
        for rung in range(self._actors):
            crew.hire("rollout", threads=2, rung=rung, num_cpus=1)
        machines = "one machine" if crew.machines == 1 else f"{crew.machines} machines"
        say(
            f"{self._actors} actors of {self._config.num_envs} environments on {machines}, learning on "
            f"{'a GPU' if gpus else 'a CPU'}; a learning step for every {self._agent.config.learn_period} environment "
            f"steps, acting at most {slack(self._config, self._agent)} steps ahead."
        )
        return crew

    def _take_in(self, kind: str, found: Any) -> None:
        if kind == "replay":
            news, self._filled = found
            self._receive(news)
            self._learns_from = self._filled["learns_from"]
        else:
            totals, self._updates, seconds = found
            if totals[UPDATES]:
                self._learned, self._unlogged = totals, self._reducers.add(self._unlogged, totals)
                settings = self._agent.config
                self._trained += int(totals[UPDATES]) * settings.batch_size * settings.shape.trace
                self._learning_seconds += seconds

    def _give_work(self, process: Process) -> None:
        """Gives a process that is ready what it needs, and its work."""
        crew = self._crew
        match process.kind:
            case "replay" | "learner" if process.kind in crew.serving:
                if process.kind == "learner":
                    process.call("prepare", self._config)
                process.busy = process.call("watch")
            case "replay":
                self._begin_replay(process)
                process.busy = process.call("watch")
                crew.serving["replay"] = process
            case "learner":
                self._begin_learner(process)
                process.busy = process.call("run", crew.handles("replay"))
                crew.serving["learner"] = process
            case _:
                self._spawned += 1
                who = crew.handles("replay"), crew.handles("learner")
                process.busy = process.call("run", self._spawned, process.rung, self._config, *who)
                if process.lives:
                    self._event(f"{process.called} is back; {crew.alive} of {self._actors} alive.")

    def _begin_replay(self, process: Process) -> None:
        ray, saved = self._crew.ray, self._reload()
        stored = saved.plain["replay"] if saved is not None else {"oldest": 0, "lineage": 0}
        counters = Counters(self._received, dict(self._last_numbers), self._learns_from, self._updates)
        sentence = ray.get(process.call("begin", self._config, counters, stored["oldest"], stored["lineage"]))
        if not self._served["replay"]:
            self._event(sentence)
        for name, read in saved.segments.items() if saved is not None else ():
            assert saved is not None
            try:
                arrays = read()
            except RunError as e:
                self._event(f"segment {name} of the replay cannot be read ({e}); the others are used.")
                continue
            ray.get(process.call("put_back", arrays, stored["oldest"], saved.arrays["priorities"]))
        count = ray.get(process.call("open", stored.get("next")))
        self._served["replay"] += 1
        if saved is not None or self._served["replay"] > 1:
            self._event(f"the replay goes on with {count} sequences{_of(saved)}.")

    def _begin_learner(self, process: Process) -> None:
        saved = self._reload()
        state, updates = self._state, 0
        if saved is not None:
            state, updates = saved.state.learner, saved.plain["updates"]
        elif self._served["learner"]:
            state = self._first_state()
        self._crew.ray.get(process.call("begin", self._config, state, updates, self._served["learner"]))
        self._updates = updates
        self._served["learner"] += 1
        if saved is not None or self._served["learner"] > 1:
            self._event(f"the learner resumed from learning step {updates}{_of(saved)}.")


def _of(saved: Saved | None) -> str:
    return " (there is no checkpoint yet)" if saved is None else f" of the checkpoint at step {saved.plain['steps']}"
