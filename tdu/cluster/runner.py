"""A run of an agent with a memory on a Ray cluster, seen from the process that drives it.

It starts the rollouts, the replay and the learner (`distributed_actors`) and gives them their work; `distributed_crew`
watches over them. When the replay or the learner dies, its spare goes on from the run's last checkpoint. A process that
Ray has started anew is the next spare, or a rollout that begins new episodes under a name of its own.

This process keeps the run's folder and its clock: a step counts when it is told of here, once. `RayRunner` is a runner like
the others, so that logs, checkpoints, evaluations and results are those of any run; but what comes first is decided by
the cluster, so the same seed twice is not the same run.
"""

import collections
import contextlib
import functools
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tdu import environments
from tdu.agents.r2d2.agent import RecurrentAgent
from tdu.agents.r2d2.replay import check_room
from tdu.cluster import sweep as distributed
from tdu.cluster.actors import SEGMENT
from tdu.cluster.crew import PATIENCE, Crew, Process
from tdu.cluster.messages import Counters, Episode, News, slack
from tdu.errors import RunError, TrainingError, UserError
from tdu.run.folder.records import RunConfig
from tdu.run.runners import interaction
from tdu.run.runners.interaction import Learned
from tdu.run.runners.protocol import Budget, Clock, Gone, Saved
from tdu.run.runners.recurrent import NOTHING, told
from tdu.run.runners.rows import Progress, Row, learner_row
from tdu.types import EnvSpec, Params, State

_TELLS_EVERY = 1000
_RECENT = 100


class RayCarry(NamedTuple):
    """What a checkpoint has of the device."""

    learner: State


class RayRunner:
    """A run over the rollouts of a cluster."""

    exact = False
    notes: tuple[str, ...] = ()

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
        self.spec = spec._replace(optimal_path=())  # as of `RecurrentRunner`
        self._agent, self._config, self._budget = agent, config, budget
        self._actors = config.actors
        self.progress = Progress(self.spec, agent.discount)
        self._steps = self._received = self._updates = self._spawned = self._told_at = 0
        self._learns_from: int | None = None
        self._seen: dict[int, int] = {}
        """The last number of every rollout of this sitting."""
        self._totals: dict[int, dict[str, float]] = {}
        self._pending: list[News] = []
        self._learned = self._lately = NOTHING
        self._learner_rows: list[Row] = []
        self._filled = {"sequences": 0, "capacity": agent.settings.replay.capacity, "ahead": 0}
        self._began = (0, time.monotonic())
        self._moved_at: float | None = None
        """When steps were last taken."""
        self._trained, self._learning_seconds = 0, 0.0
        self._recent: dict[str, collections.deque[float]] = {
            kind: collections.deque(maxlen=_RECENT) for kind in ("exploiters", "explorers")
        }
        self._event: Callable[[str], None] = say
        self._reload: Callable[[], Saved | None] = lambda: None
        self._served: collections.Counter[str] = collections.Counter()
        self._started: Crew | None = None
        self._is_attached = False
        if compiled:
            if agent.observe is not None:
                raise UserError("bonus counts has to see every step in order; it is for --engine local.")
            if (
                address is None
            ):  # the replay will be on this machine: what has no room is refused before anything starts
                running, streams = agent.settings, self._actors * config.num_envs
                sizes = {"heads": agent.heads, "memory": running.memory(), "streams": streams}
                check_room(spec, running.shape, running.replay, **sizes)
            self._started = self._start(distributed.connect(address, self._actors), say)
        self._state: State = self._first_state()
        """Of the learner, when it was last asked for."""

    def _first_state(self) -> State:
        seed = environments.own_seed(self._config.env, self._config.seed)
        first = interaction.first_keys(interaction.run_key(seed))[0]
        return jax.tree.map(np.asarray, jax.jit(self._agent.init)(first))

    @property
    def _crew(self) -> Crew:
        assert self._started is not None, "the processes were not started, or have been ended"
        return self._started

    # What a run drives.

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to do."""
        return self.progress.has_reached(self._config.until) or self._budget.spent(self.clock)

    @property
    def clock(self) -> Clock:
        """Environment steps taken and episodes finished."""
        return Clock(steps=self._steps, episodes=self.progress.episode)

    def attach(self, *, event: Callable[[str], None], reload: Callable[[], Saved | None]) -> None:
        """Whom to tell what happens, and where the last checkpoint is; before the first step."""
        self._event, self._reload, self._is_attached = event, reload, True
        self._crew.event = event

    def advance(self, upto_episode: int | None = None) -> list[Row]:
        """What has happened in the last moment: the rows of the episodes that ended in it."""
        del upto_episode  # the cluster does not wait
        until = time.monotonic() + 0.5
        while not self._pending and time.monotonic() < until:
            self._crew.watch(0.2)
        if self._pending:
            if self._moved_at is None:  # the first steps: from here on it is known how fast it is
                self._began = (self._received, time.monotonic())
            self._moved_at = time.monotonic()
        elif self._moved_at is not None and time.monotonic() - self._moved_at > PATIENCE:
            raise TrainingError(
                f"no step was taken for {PATIENCE:.0f} seconds, with {self._crew.alive} of {self._actors} actors alive; "
                "see whether the cluster has room for them, and continue with --resume."
            )
        rows: list[Row] = []
        while self._pending and not self.finished:
            rows += self._rows(self._pending.pop(0))
        if self._steps - self._told_at >= _TELLS_EVERY:
            self._tell()
        return rows

    def learner_rows(self) -> list[Row]:
        """What the learner has told since this was last asked."""
        if self.finished:
            self._tell()
        rows, self._learner_rows = self._learner_rows, []
        return rows

    def status(self) -> str:
        """What a progress line says beside the usual."""
        frames, (steps, since) = self.spec.frames_per_step, self._began
        rate = max(self._steps - steps, 0) * frames / max(time.monotonic() - since, 1e-9)
        parts = [
            f"{self._steps * frames:,} frames, acting {rate:,.0f} frames/s",
            f"learning {self._trained / max(self._learning_seconds, 1e-9):,.0f} steps/s ({self._updates:,} learning steps)",
            f"replay {self._filled['sequences'] / self._filled['capacity']:.0%}",
        ]
        if self._agent.heads > self._agent.exploiters:
            parts.append(f"σ {float(self._learned.bonus) / max(float(self._learned.updates), 1.0):.3g}")
        parts += [f"{kind} return {np.mean(recent):.3g}" for kind, recent in self._recent.items() if recent]
        return "; ".join([*parts, f"{self._crew.alive} of {self._actors} actors alive"])

    def save(self) -> Saved:
        """The run as it is now; before it is attached, what a checkpoint looks like."""
        if not self._is_attached:
            return Saved(RayCarry(self._state), {}, {})
        news, there, priorities = self._crew.ask("replay", "snapshot")
        self._receive(news)
        self._learns_from = there["learns_from"]
        self._state, self._updates = self._crew.ask("learner", "state")
        self._state = jax.tree.map(np.array, self._state)
        plain = {
            "steps": self._steps,
            "pending": self._pending,
            "updates": self._updates,
            "spawned": self._spawned,
            "told_at": self._told_at,
            "learned": [float(x) for x in self._learned],
            "lately": [float(x) for x in self._lately],
            "replay": there,
            "progress": self.progress.to_plain(),
        }
        # JSON's own kinds, and apart from what goes on: these lists grow.
        plain["pending"] = [[*entry[:3], [list(episode) for episode in entry[3]]] for entry in self._pending]
        return Saved(RayCarry(self._state), {"priorities": np.array(priorities)}, plain, self._segments(there))

    def _segments(self, there: dict[str, Any]) -> Mapping[str, Callable[[], dict[str, np.ndarray]]]:
        lineage, oldest, end = there["lineage"], there["oldest"], there["next"]
        segments = {}
        for first in range(oldest // SEGMENT * SEGMENT, end, SEGMENT):
            last = min(first + SEGMENT, end)
            open_ = "" if last == first + SEGMENT else f"-{last - first}"
            segments[f"{lineage}-{first:010d}{open_}"] = functools.partial(self._segment, lineage, first, last)
        return segments

    def _segment(self, *which: int) -> dict[str, np.ndarray]:
        found = self._crew.ask("replay", "segment", *which)
        if found is None:
            raise Gone("the replay died while it was being saved.")
        return found

    def restore(self, saved: Saved) -> None:
        """Goes on counting from there; the learner and the replay are given their parts when they start."""
        plain = saved.plain
        self._steps, self._updates, self._spawned = plain["steps"], plain["updates"], plain["spawned"]
        self._told_at, self._learns_from = plain["told_at"], plain["replay"]["learns_from"]
        self._learned, self._lately = (Learned(*map(np.float32, plain[name])) for name in ("learned", "lately"))
        self.progress = Progress.from_plain(self.spec, self._agent.discount, plain["progress"])
        self._pending = [(*entry[:3], [Episode(*episode) for episode in entry[3]]) for entry in plain["pending"]]
        self._received = self._steps + sum(steps for _, _, steps, _ in self._pending)
        self._state = saved.state.learner

    def params(self, saved: Saved | None = None) -> Params:
        """What the trained agent acts on: now, or as it was saved."""
        if saved is None and self._is_attached and not self.finished:
            self._state, self._updates = self._crew.ask("learner", "state")
        state = self._state if saved is None else saved.state.learner
        return self._agent.params(jax.tree.map(lambda x: jnp.asarray(np.array(x)), state))

    def play(self, params: Params, *, episodes: int, longest: int) -> np.ndarray:
        """Returns of the policy with those parameters, played by a process of its own while the others go on."""
        arguments = (self._config, jax.tree.map(np.asarray, params), episodes, longest)
        return np.array(self._crew.ask("evaluator", "play", *arguments))

    @contextlib.contextmanager
    def environment_aside(self) -> Iterator[None]:
        """Every process has its own."""
        yield

    def close(self) -> None:
        """Ends what was started on the cluster."""
        if self._started is not None:
            self._started.close()
            self._started = None

    # What has happened.

    def _receive(self, news: list[News]) -> None:
        """Takes in what rollouts have handed over, each of it once."""
        for rollout, number, steps, episodes in news:
            if number > self._seen.get(rollout, 0):
                self._seen[rollout] = number
                self._received += steps
                self._pending.append((rollout, number, steps, [Episode(*e) for e in episodes]))

    def _rows(self, news: News) -> list[Row]:
        rollout, _, steps, episodes = news
        rows = []
        means = told(self._learned)
        for episode in episodes:
            if self.progress.has_reached(self._config.until) or self._budget.has_episodes(self.progress.episode):
                break
            kind = "exploiters" if episode.head < self._agent.exploiters else "explorers"
            self._recent[kind].append(episode.episode_return)
            rows.append(
                self.progress.row(
                    steps=self._steps + episode.offset,
                    length=episode.length,
                    episode_return=episode.episode_return,
                    head=episode.head,
                    possible_return=episode.possible_return,
                    told=means,
                    bad=episode.bad,
                    totals=self._with(rollout, episode.totals),
                )
            )
        self._steps += steps
        return rows

    def _with(self, rollout: int, totals: dict[str, float]) -> dict[str, float]:
        """Totals of the run: counts add up; bests and numbers of one episode do not."""
        before, self._totals[rollout] = self._totals.get(rollout, {}), totals
        mine = self.progress.totals
        return {
            name: x
            if name in self.spec.per_episode
            else max(mine[name], x)
            if name.startswith("best")
            else mine[name] + x - before.get(name, 0)
            for name, x in totals.items()
        }

    def _tell(self) -> None:
        for row in learner_row(self._steps, self._lately):
            more = {"frames": self._steps * self.spec.frames_per_step, "learning_steps": self._updates}
            self._learner_rows.append(row | more | {"sequences": self._filled["sequences"]})
        self._lately, self._told_at = NOTHING, self._steps

    # What the processes are given to do.

    def _start(self, ray: Any, say: Callable[[str], None]) -> Crew:
        """Asks the cluster for all processes; they begin to work one by one."""
        there = ray.cluster_resources()
        cores = int(there.get("CPU", 0))
        if cores < 1:
            raise UserError("the Ray cluster has no core for actors; add machines to it.")
        if cores < self._actors:
            say(f"the cluster has room for {cores} of {self._actors} actors; the others begin when there is more.")
        gpus = min(1, int(there.get("GPU", 0)))
        crew = Crew(ray, give_work=self._give_work, take_in=self._take_in, event=say)
        # The learner and the replay ask for no core: wherever one is left they can begin again at once.
        for _ in range(2):
            crew.hire("replay", threads=self._actors + 16)
        for _ in range(2):
            crew.hire("learner", threads=self._actors + 16, num_gpus=gpus)
        for rung in range(self._actors):
            crew.hire("rollout", threads=2, rung=rung, num_cpus=1)
        say(
            f"{self._actors} actors of {self._config.num_envs} environments on {_machines(crew.machines)}, learning on "
            f"{'a GPU' if gpus else 'a CPU'}; a learning step for every {self._agent.settings.learn_period} environment "
            f"steps, acting at most {slack(self._config, self._agent)} steps ahead."
        )
        return crew

    def _take_in(self, kind: str, found: Any) -> None:
        if kind == "replay":
            news, self._filled = found
            self._receive(news)
            self._learns_from = self._filled["learns_from"]
        else:
            lately, self._updates, seconds = found
            sums = Learned(*map(np.float32, lately))
            if sums.updates:
                self._learned, self._lately = sums, _together(self._lately, sums)
                running = self._agent.settings
                self._trained += int(sums.updates) * running.batch_size * running.shape.trace
                self._learning_seconds += seconds

    def _give_work(self, process: Process) -> None:
        """Gives a process that is there what it needs, and its work."""
        crew = self._crew
        match process.kind:
            case "replay" | "learner" if process.kind in crew.serving:
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
                    self._event(f"{process.called} is there again; {crew.alive} of {self._actors} alive.")

    def _begin_replay(self, process: Process) -> None:
        ray, saved = self._crew.ray, self._reload()
        there = saved.plain["replay"] if saved is not None else {"oldest": 0, "lineage": 0}
        counters = Counters(self._received, dict(self._seen), self._learns_from, self._updates)
        sentence = ray.get(process.call("begin", self._config, counters, there["oldest"], there["lineage"]))
        if not self._served["replay"]:
            self._event(sentence)
        for name, read in saved.segments.items() if saved is not None else ():
            assert saved is not None
            try:
                arrays = read()
            except RunError as e:
                self._event(f"segment {name} of the replay cannot be used ({e}); the others are.")
                continue
            ray.get(process.call("put_back", arrays, there["oldest"], saved.arrays["priorities"]))
        count = ray.get(process.call("open", there.get("next")))
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


def _together(a: Learned, b: Learned) -> Learned:
    """Two stretches of learning as one."""
    sums = {name: getattr(a, name) + getattr(b, name) for name in ("bonus", "loss", "updates")}
    most = {name: np.maximum(getattr(a, name), getattr(b, name)) for name in ("largest_q", "largest_extra")}
    return Learned(**sums, **most)


def _machines(count: int) -> str:
    return "one machine" if count == 1 else f"{count} machines"


def _of(saved: Saved | None) -> str:
    return ", there is no checkpoint yet" if saved is None else f" of the checkpoint at step {saved.plain['steps']}"
