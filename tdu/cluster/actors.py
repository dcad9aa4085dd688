"""The processes of a run on a Ray cluster, for one agent with a memory: rollouts, the replay, the learner, an evaluator.

    Rollout ─Rolled→ Replay ─Batch→ Learner ─weights→ Rollout

Each is a plain object, and several threads of its process may call its methods. `cluster.runner` starts the processes and
`cluster.crew` watches them. None of them uses the disk, and each may die at any time.

**The ratio** of learning to acting is an option (`learn_period` environment steps per learning step). The replay enforces
it: it returns a batch when one is due, and a rollout's `put` returns once acting is at most `slack` steps ahead. Where the
run has a budget of steps, `put` does not return after the last.

**Spares:** there are two processes for the replay and two for the learner, and one of each serves. The spare has imported and
compiled what it needs, and takes over when the other dies. A process that does not serve answers `ELSEWHERE`, and the caller
calls the other one.
"""

import threading
import time

import jax
import jax.numpy as jnp
import numpy as np

from tdu import environments
from tdu.agents.r2d2.agent import RecurrentAgent
from tdu.agents.r2d2.replay import Replay, ReplayCounts, check_room
from tdu.agents.r2d2.sequences import Batch, empty_batch
from tdu.cluster.messages import (
    ELSEWHERE,
    Counters,
    Handle,
    Ref,
    Rolled,
    Service,
    Stored,
    Version,
    make_agent,
    slack,
    spec_of,
    unpack,
)
from tdu.cluster.rollouts import RolloutProcess
from tdu.metrics import Metrics, on_host
from tdu.run.folder.records import RunConfig
from tdu.run.processes import use_one_core
from tdu.run.runners import interaction
from tdu.run.runners.recurrent import BATCHES
from tdu.run.trained import Played, TrainedAgent, play
from tdu.types import Params, State

SEGMENT = 256
"""Sequences of one segment of a checkpoint."""

_PUBLISH_SECONDS = 0.25  # shortest time between two publications of weights


class ReplayProcess:
    """The process with the replay, which also counts steps."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._is_open = False
        self._news: list[Rolled] = []
        self._sent: list[Rolled] = []  # the last answer of `news`, which may not have arrived yet

    def begin(self, config: RunConfig, counters: Counters, start_at: int, lineage: int) -> str:
        """Makes an empty replay; refuses one that does not fit in this machine's memory."""
        self._spec = spec_of(config)
        self._agent = agent = make_agent(config, self._spec)
        self._settings = agent.config
        self._memory = jax.tree.map(np.asarray, agent.empty_memory())
        assert config.actors is not None
        streams = config.actors * config.num_envs
        sentence = check_room(self._spec, agent.config, memory=self._memory, streams=streams)
        self._replay = Replay(self._spec, agent.config, memory=self._memory, streams=streams)
        self._replay.start_at(start_at)
        self._slack, self._seed = slack(config, agent), environments.own_seed(config.env, config.seed)
        self._most = float("inf") if config.steps is None else config.steps
        self._steps, self._learns_from, self._updates = counters.steps, counters.learns_from, counters.updates
        self._received = dict(counters.received)
        self._lineage, self._has_holes = lineage, False
        """Increased whenever sequences were lost, so that no segment's name has two contents."""
        self._life = time.time_ns()  # distinguishes its ids from those of a replay before it
        return sentence

    def put_back(self, arrays: dict[str, np.ndarray], oldest: int, priorities: np.ndarray) -> None:
        """Adds a stored segment. Priorities are those of the ids from `oldest` on."""
        arrays = dict(arrays)
        ids = arrays.pop("ids")
        part = self._part(len(ids))
        counts: ReplayCounts = {"oldest": 0, "next": len(ids), "largest_priority": 1.0}
        part.restore({name: np.array(x) for name, x in arrays.items()}, counts)
        with self._changed:
            for i, id_ in enumerate(ids.tolist()):
                if oldest <= id_ < oldest + len(priorities):
                    if not len(self._replay) and id_ > self._replay.ids.start:
                        self._replay.start_at(id_)  # the ones before it were overwritten
                    self._has_holes |= id_ != self._replay.ids.stop
                    self._replay.add(part.sequence(i), float(priorities[id_ - oldest]))

    def open(self, next_id: int | None = None) -> int:
        """Begins to serve; returns the number of sequences. `next_id` follows the last one that was stored."""
        with self._changed:
            self._has_holes |= next_id is not None and self._replay.ids.stop != next_id
            self._lineage += self._has_holes
            self._is_open = True
            self._changed.notify_all()
            return len(self._replay)

    def put(self, rolled: Rolled) -> bool | str:
        """Adds a rollout's message, and returns when the rollout may go on: whether the message was new.

        Ray's arrays belong to its object store; the replay copies them.
        """
        with self._changed:
            if not self._is_open:
                return ELSEWHERE
            is_new = rolled.number > self._received.get(rolled.rollout, 0)
            if is_new:
                self._received[rolled.rollout] = rolled.number
                for sequence in rolled.sequences:
                    self._replay.add(sequence._replace(steps=unpack(sequence.steps)))
                self._steps += rolled.steps
                self._news.append(rolled._replace(sequences=[]))
                if self._learns_from is None and self._has_enough:
                    self._learns_from = self._steps
                self._changed.notify_all()
            self._changed.wait_for(lambda: self._may_act)
            return is_new

    @property
    def _may_act(self) -> bool:
        return self._steps < self._most and (not self._has_enough or self._ahead <= self._slack)

    @property
    def _has_enough(self) -> bool:
        return len(self._replay) >= max(self._settings.min_replay, 1)

    @property
    def _ahead(self) -> int:
        """Environment steps that acting is ahead of learning."""
        begun = self._steps if self._learns_from is None else self._learns_from
        return self._steps - begun - self._updates * self._settings.learn_period

    def sample(self, updates: int, patience: float = 5.0) -> tuple[int, Batch] | str | None:
        """A batch for learning step number `updates`, when it is due; None if that takes longer than `patience` seconds."""
        with self._changed:
            if not self._is_open:
                return ELSEWHERE
            self._updates = updates
            self._changed.notify_all()
            period = self._settings.learn_period
            if not self._changed.wait_for(lambda: self._has_enough and self._ahead >= period, patience):
                return None
            rng = np.random.default_rng([self._seed, BATCHES, updates])
            return self._life, self._replay.sample(self._settings.batch_size, rng, packed=True)

    def set_priorities(self, life: int, ids: np.ndarray, priorities: np.ndarray) -> None:
        """Sets the priorities of a batch, if it came from this replay."""
        with self._changed:
            if self._is_open and life == self._life:
                self._replay.update_priorities(np.array(ids), np.array(priorities))

    def news(self, patience: float) -> tuple[list[Rolled], Stored]:
        """The messages since the last call, as soon as there is one, without their sequences; and the replay's state."""
        with self._changed:
            self._changed.wait_for(lambda: self._news, patience)
            news, self._news = self._news, []
            self._sent = news
            filled = {"sequences": len(self._replay), "capacity": self._replay.capacity}
            return news, filled | {"learns_from": self._learns_from, "ahead": max(self._ahead, 0)}

    def snapshot(self) -> tuple[list[Rolled], Stored, np.ndarray] | str:
        """Of one moment: the messages until then, those of the last answer again; what there is to store; the priorities."""
        with self._changed:
            if not self._is_open:
                return ELSEWHERE
            news, self._news = [*self._sent, *self._news], []
            ids = self._replay.ids
            there = {
                "oldest": ids.start, "next": ids.stop, "lineage": self._lineage,
                "learns_from": self._learns_from, "updates": self._updates,
            }  # fmt: skip
            return news, there, self._replay.priorities()

    def segment(self, lineage: int, first: int, last: int) -> dict[str, np.ndarray] | None:
        """Sequences first … last − 1, those that are still there; None if the replay is another one by now."""
        with self._changed:
            if not self._is_open or lineage != self._lineage or last > self._replay.ids.stop:
                return None
            ids = np.arange(max(first, self._replay.ids.start), last)
            part = self._part(max(len(ids), 1))
            for id_ in ids.tolist():
                part.add(self._replay.sequence(id_))
        arrays, _ = part.save()
        return {"ids": ids, **{name: np.array(x) for name, x in arrays.items()}}

    def _part(self, count: int) -> Replay:
        """A replay for `count` sequences, through which segments are stored and restored."""
        return Replay(self._spec, self._settings, memory=self._memory, streams=count, capacity=count)


class LearnerProcess:
    """The process that learns and publishes the weights."""

    def __init__(self) -> None:
        self._lock, self._preparing = threading.Lock(), threading.Lock()
        self._agent: RecurrentAgent | None = None
        self._published: tuple[Version, Ref] | None = None

    def prepare(self, config: RunConfig) -> None:
        """Compiles a learning step, on a state that is then discarded."""
        with self._preparing:
            if self._agent is not None:
                return
            spec = spec_of(config)
            agent = make_agent(config, spec)
            self._update = jax.jit(agent.update, donate_argnums=0)
            settings, memory = agent.config, jax.tree.map(np.asarray, agent.empty_memory())
            batch = empty_batch(spec, settings.shape, settings.batch_size, heads=settings.heads, memory=memory)
            self._update(jax.tree.map(jnp.copy, jax.jit(agent.init)(interaction.run_key(0))), batch)
            self._agent = agent

    def begin(self, config: RunConfig, state: State, updates: int, life: int) -> None:
        """Sets the state to go on from. `life` distinguishes its weights from those of a learner before it."""
        self.prepare(config)
        assert self._agent is not None
        self._state = jax.tree.map(jnp.array, state)
        self._updates, self._life = updates, life
        self._unreported, self._seconds = self._agent.reducers.zeros(), 0.0
        self._publish()

    def _publish(self) -> None:
        import ray

        assert self._agent is not None
        params = jax.tree.map(np.array, self._agent.params(self._state))
        self._published = ((self._life, self._updates), ray.put(params))
        self._published_at = time.monotonic()

    def run(self, replays: list[Handle]) -> None:
        """Learns until the process is ended. The next batch is requested before the learning step on the last one."""
        assert self._agent is not None
        replay = Service(replays)
        coming = replay.call("sample", self._updates)
        while True:
            found = replay.result(coming)
            if found is None or isinstance(found, str):
                coming = replay.call("sample", self._updates)
                continue
            life, received = found
            coming = replay.call("sample", self._updates + 1)
            began = time.monotonic()
            batch = jax.tree.map(np.array, received)
            batch = batch._replace(steps=unpack(batch.steps))
            with self._lock:
                self._state, priorities, metrics = self._update(self._state, batch)
                sizes = np.asarray(priorities)
                self._updates += 1
                self._unreported = self._agent.reducers.add(self._unreported, on_host(metrics))
                if time.monotonic() - self._published_at >= _PUBLISH_SECONDS:
                    self._publish()
                self._seconds += time.monotonic() - began
            replay.call("set_priorities", life, batch.ids, sizes)

    def weights(self, version: Version | None) -> tuple[Version, Ref] | str | None:
        """The newest version and a reference to its weights; None if the caller has that version."""
        published = self._published
        if published is None:
            return ELSEWHERE
        return None if published[0] == version else published

    def state(self) -> tuple[State, int] | str:
        """The learner's state between two learning steps, and the number of learning steps."""
        if self._published is None:
            return ELSEWHERE
        with self._lock:
            return jax.tree.map(np.array, self._state), self._updates

    def news(self) -> tuple[Metrics, int, float]:
        """Totals over the learning steps since the last call, their number in the whole run, and their seconds."""
        assert self._agent is not None
        with self._lock:
            totals, self._unreported = self._unreported, self._agent.reducers.zeros()
            seconds, self._seconds = self._seconds, 0.0
            return totals, self._updates, seconds


class EvaluatorProcess:
    """A process that plays evaluation episodes while the others go on."""

    def __init__(self) -> None:
        use_one_core()

    def play(self, config: RunConfig, params: Params, episodes: int, longest: int) -> Played:
        spec = spec_of(config)
        trained = TrainedAgent(spec, make_agent(config, spec), jax.tree.map(np.array, params))
        return play(config.env, trained, episodes=episodes, longest=longest)


KINDS = {"rollout": RolloutProcess, "replay": ReplayProcess, "learner": LearnerProcess, "evaluator": EvaluatorProcess}
