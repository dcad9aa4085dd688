"""What runs in the processes of a Ray cluster for one agent with a memory: rollouts, the replay, the learner, an evaluator.

    Rollout ─Rolled→ Replay ─batch→ Learner ─weights→ Rollout

Each is a plain object whose methods several threads of its process may call (`distributed_recurrent` starts them and watches
over them). None of them touches the disk, and each may die at any moment.

**The ratio** of learning to acting is stated (`learn_period` environment steps per learning step) and held by the replay: it
gives out a batch when one is due, and a rollout's `put` comes back once acting is not further ahead than `slack` steps. Where
the run has a last step, nobody goes on after it.

**Spares:** of the replay and of the learner there are two processes, and one of them serves. The other has imported and
compiled what it needs, and takes over when that one dies. Who asks the wrong one is told `ELSEWHERE`, and turns to the other.
"""

import threading
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tdu import environments
from tdu.agents.r2d2 import replay as replays
from tdu.agents.r2d2.learner import Batch
from tdu.agents.r2d2.sequences import nothing
from tdu.cluster.messages import ELSEWHERE, Counters, News, Rolled, Served, arrived, make_agent, slack, spec_of
from tdu.cluster.rollouts import Rollout
from tdu.run.folder.records import RunConfig
from tdu.run.processes import use_one_core
from tdu.run.runners import interaction
from tdu.run.runners.recurrent import NOTHING, plus
from tdu.run.trained import TrainedAgent, greedy_returns
from tdu.types import Params, RecurrentAgent

SEGMENT = 256
"""Sequences that are stored together."""

_PUBLISH_SECONDS = 0.25
"""Weights are given out no more often."""

_BATCHES = 1
"""What a generator is for, beside the rollouts' masks."""


class Replay:
    """The replay, and the counting."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._is_open = False
        self._news: list[News] = []

    def prepare(self, config: RunConfig) -> None:
        """There is nothing that takes long."""

    def begin(self, config: RunConfig, counters: Counters, start_at: int, lineage: int) -> str:
        """Makes an empty replay; refuses one that this machine has no room for."""
        self._spec = spec_of(config)
        self._agent = agent = make_agent(config, self._spec)
        self._running = running = agent.settings
        self._memory = jax.tree.map(np.asarray, running.memory())
        assert config.actors is not None
        sizes = {"heads": agent.heads, "memory": self._memory, "streams": config.actors * config.num_envs}
        sentence = replays.check_room(self._spec, running.shape, running.replay, **sizes)
        self._replay = replays.Replay(self._spec, running.shape, running.replay, **sizes)
        self._replay.start_at(start_at)
        self._slack, self._seed = slack(config, agent), environments.own_seed(config.env, config.seed)
        self._most = float("inf") if config.steps is None else config.steps
        self._steps, handed_over, self._learns_from, self._updates = counters
        self._handed_over = dict(handed_over)
        self._lineage, self._has_holes = lineage, False
        """One more wherever sequences were lost on the way, so that no segment's name has two contents."""
        self._life = time.time_ns()
        """Tells its ids from those that a replay before this one gave out."""
        return sentence

    def put_back(self, arrays: dict[str, np.ndarray], oldest: int, priorities: np.ndarray) -> None:
        """Takes in a stored segment; priorities are by id from `oldest` on."""
        arrays = dict(arrays)
        ids = arrays.pop("ids")
        part = self._part(len(ids))
        part.restore({name: np.array(x) for name, x in arrays.items()}, {**_WHOLE, "next": len(ids)})
        with self._changed:
            for i, id_ in enumerate(ids.tolist()):
                if oldest <= id_ < oldest + len(priorities):
                    if not len(self._replay) and id_ > self._replay.ids.start:
                        self._replay.start_at(id_)  # those before it have made room
                    self._has_holes |= id_ != self._replay.ids.stop
                    self._replay.add(part.sequence(i), float(priorities[id_ - oldest]))

    def open(self, next_id: int | None = None) -> int:
        """Lets everybody in; how many sequences there are. Where they were stored, `next_id` is the one after the last."""
        with self._changed:
            self._has_holes |= next_id is not None and self._replay.ids.stop != next_id
            self._lineage += self._has_holes
            self._is_open = True
            self._changed.notify_all()
            return len(self._replay)

    def watch(self) -> None:
        """Never comes back; who waits for it learns when this process dies."""
        threading.Event().wait()

    def put(self, rolled: Rolled) -> bool | str:
        """Takes in what a rollout has gathered, and comes back when it is to go on; whether it was new.

        Arrays that Ray hands over are the object store's own: storing them is copying them.
        """
        with self._changed:
            if not self._is_open:
                return ELSEWHERE
            is_new = rolled.number > self._handed_over.get(rolled.rollout, 0)
            if is_new:
                self._handed_over[rolled.rollout] = rolled.number
                for sequence in rolled.sequences:
                    self._replay.add(sequence._replace(steps=arrived(sequence.steps)))
                self._steps += rolled.steps
                self._news.append(rolled[:4])
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
        return len(self._replay) >= max(self._running.min_replay, 1)

    @property
    def _ahead(self) -> int:
        """Environment steps that learning has yet to catch up with."""
        begun = self._steps if self._learns_from is None else self._learns_from
        return self._steps - begun - self._updates * self._running.learn_period

    def sample(self, updates: int, patience: float = 5.0) -> tuple[int, replays.Sample] | str | None:
        """A batch for learning step number `updates`, when it is due; None if it is not for a while."""
        with self._changed:
            if not self._is_open:
                return ELSEWHERE
            self._updates = updates
            self._changed.notify_all()
            period = self._running.learn_period
            if not self._changed.wait_for(lambda: self._has_enough and self._ahead >= period, patience):
                return None
            rng = np.random.default_rng([self._seed, _BATCHES, updates])
            return self._life, self._replay.sample(self._running.batch_size, rng, thin=True)

    def tell(self, life: int, ids: np.ndarray, priorities: np.ndarray) -> None:
        """Takes in how surprising sequences of a batch were, if this replay gave it out."""
        with self._changed:
            if self._is_open and life == self._life:
                self._replay.update_priorities(np.array(ids), np.array(priorities))

    def news(self, patience: float) -> tuple[list[News], dict[str, Any]]:
        """What was handed over since this was last asked, as soon as there is something."""
        with self._changed:
            self._changed.wait_for(lambda: self._news, patience)
            news, self._news = self._news, []
            filled = {"sequences": len(self._replay), "capacity": self._replay.capacity}
            return news, filled | {"learns_from": self._learns_from, "ahead": max(self._ahead, 0)}

    def snapshot(self) -> tuple[list[News], dict[str, Any], np.ndarray] | str:
        """All of one moment: the news until then, what there is to store, and the priorities."""
        with self._changed:
            if not self._is_open:
                return ELSEWHERE
            news, self._news = self._news, []
            ids = self._replay.ids
            there = {"oldest": ids.start, "next": ids.stop, "lineage": self._lineage, "learns_from": self._learns_from}
            return news, there, self._replay.priorities()

    def segment(self, lineage: int, first: int, last: int) -> dict[str, np.ndarray] | None:
        """Sequences first … last − 1, as far as they are still there; None where these are others than were meant."""
        with self._changed:
            if not self._is_open or lineage != self._lineage or last > self._replay.ids.stop:
                return None
            ids = np.arange(max(first, self._replay.ids.start), last)
            part = self._part(max(len(ids), 1))
            for id_ in ids.tolist():
                part.add(self._replay.sequence(id_))
        arrays, _ = part.save()
        return {"ids": ids, **{name: np.array(x) for name, x in arrays.items()}}

    def _part(self, count: int) -> replays.Replay:
        """A replay of so many sequences, to store and to put back."""
        settings = self._running.replay._replace(capacity=count)
        sizes = {"heads": self._agent.heads, "memory": self._memory, "streams": count}
        return replays.Replay(self._spec, self._running.shape, settings, **sizes)


_WHOLE = {"oldest": 0, "largest_priority": 1.0}


class Learner:
    """The learner, and the weights for everybody."""

    def __init__(self) -> None:
        self._lock, self._preparing = threading.Lock(), threading.Lock()
        self._agent: RecurrentAgent | None = None
        self._published: tuple[Any, Any] | None = None

    def prepare(self, config: RunConfig) -> None:
        """Compiles a learning step, on a state that is thrown away."""
        with self._preparing:
            if self._agent is not None:
                return
            spec = spec_of(config)
            agent = make_agent(config, spec)
            self._update = jax.jit(agent.update, donate_argnums=0)
            size, length = agent.settings.batch_size, agent.settings.shape.length
            steps = jax.tree.map(lambda x: np.zeros((length, size, *x.shape[1:]), x.dtype), nothing(spec, 1))
            memory = jax.tree.map(lambda x: np.zeros((size, *x.shape), x.dtype), agent.settings.memory())
            batch = Batch(steps, memory, np.ones((size, agent.heads), np.float32), np.ones(size, np.float32))
            self._update(jax.tree.map(jnp.copy, jax.jit(agent.init)(interaction.run_key(0))), batch)
            self._agent = agent

    def watch(self) -> None:
        """Never comes back; who waits for it learns when this process dies."""
        threading.Event().wait()

    def begin(self, config: RunConfig, state: Any, updates: int, life: int) -> None:
        """Takes a state to go on from; `life` tells its weights from those before."""
        self.prepare(config)
        self._state = jax.tree.map(jnp.array, state)
        self._updates, self._life = updates, life
        self._lately, self._seconds = NOTHING, 0.0
        self._publish()

    def _publish(self) -> None:
        import ray

        assert self._agent is not None
        params = jax.tree.map(np.array, self._agent.params(self._state))
        self._published = ((self._life, self._updates), ray.put(params))
        self._published_at = time.monotonic()

    def run(self, replays_: list[Any]) -> None:
        """Learns for ever: the next batch is on its way while there is learning from one."""
        replay = Served(replays_)
        coming = replay.ask("sample", self._updates)
        while True:
            found = replay.answer(coming)
            if found is None or isinstance(found, str):
                coming = replay.ask("sample", self._updates)
                continue
            life, drawn = found
            coming = replay.ask("sample", self._updates + 1)
            began = time.monotonic()
            steps, *others = jax.tree.map(np.array, (drawn.steps, drawn.memory, drawn.mask, drawn.weights))
            batch = Batch(arrived(steps), *others)
            with self._lock:
                self._state, priorities, metrics = self._update(self._state, batch)
                told = np.asarray(priorities)
                self._updates += 1
                self._lately = plus(self._lately, {name: np.asarray(x) for name, x in metrics.items()})
                if time.monotonic() - self._published_at >= _PUBLISH_SECONDS:
                    self._publish()
                self._seconds += time.monotonic() - began
            replay.ask("tell", life, drawn.ids, told)

    def weights(self, version: Any) -> tuple[Any, Any] | str | None:
        """Version and weights (as a reference), unless they are the ones that are known already."""
        published = self._published
        if published is None:
            return ELSEWHERE
        return None if published[0] == version else published

    def state(self) -> tuple[Any, int] | str:
        """All of it between two learning steps, and how many there were."""
        if self._published is None:
            return ELSEWHERE
        with self._lock:
            return jax.tree.map(np.array, self._state), self._updates

    def news(self) -> tuple[list[float], int, float]:
        """What the learning steps since this was last asked amount to, how many there were in all, and their seconds."""
        with self._lock:
            lately, self._lately = self._lately, NOTHING
            seconds, self._seconds = self._seconds, 0.0
            return [float(x) for x in lately], self._updates, seconds


class Evaluator:
    """Plays with what was learned, while the others go on."""

    def __init__(self) -> None:
        use_one_core()

    def play(self, config: RunConfig, params: Params, episodes: int, longest: int) -> np.ndarray:
        """Returns of some episodes."""
        spec = spec_of(config)
        trained = TrainedAgent(spec, make_agent(config, spec), jax.tree.map(np.array, params))
        return greedy_returns(config.env, trained, episodes=episodes, longest=longest)


KINDS = {"rollout": Rollout, "replay": Replay, "learner": Learner, "evaluator": Evaluator}
