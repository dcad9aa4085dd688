"""What runs in the processes of a Ray cluster for one agent with a memory: rollouts, the replay, the learner, an evaluator.

    Rollout ─Rolled→ Replay ─batch→ Learner ─weights→ Rollout

Each is a plain object whose methods several threads of its process may call (`distributed_recurrent` starts them and watches
over them). None of them touches the disk, and each may die at any moment.

**The ratio** of learning to acting is stated (`learn_period` environment steps per learning step) and held by the replay: it
gives out a batch when one is due, and a rollout's `put` comes back once acting is not further ahead than `slack` steps.

**Spares:** of the replay and of the learner there are two processes, and one of them serves. The other has imported and
compiled what it needs, and takes over when that one dies. Who asks the wrong one is told `ELSEWHERE`, and turns to the other.

**Counted once:** what a rollout hands over has the rollout's name, which nobody had before it, and a number. Whatever was
handed over before is refused, so it may be handed over again whenever the answer got lost.
"""

import threading
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tdu import agents, environments, random
from tdu.environments.vector import Ended
from tdu.greedy import greedy_returns
from tdu.r2d2 import replay as replays
from tdu.r2d2.actor import ladder
from tdu.r2d2.learner import Batch
from tdu.r2d2.sequences import Sequence, Writer, nothing
from tdu.runners import interaction
from tdu.runners.acting import CompiledActing, CompiledCarry, Roll, SteppedActing
from tdu.runners.parallel import use_one_core
from tdu.runners.recurrent import NOTHING, plus, stream_steps
from tdu.runners.rows import possible_return
from tdu.runs.records import RunConfig
from tdu.trained import TrainedAgent
from tdu.types import Environment, EnvSpec, Params, RecurrentAgent

SEGMENT = 256
"""Sequences that are stored together."""

_PUBLISH_SECONDS = 0.25
"""Weights are given out no more often."""

_BATCHES, _MASKS = 1, 2
"""What a generator is for."""


ELSEWHERE = "elsewhere"
"""The answer of a process that does not serve."""


class Episode(NamedTuple):
    """An episode that has ended, in plain numbers."""

    offset: int
    """Steps that were taken up to its end, of those handed over with it."""
    length: int
    episode_return: float
    head: int
    possible_return: float
    bad: bool
    totals: dict[str, float]
    """What the rollout's environments have counted so far."""


class Rolled(NamedTuple):
    """What a rollout hands over."""

    rollout: int
    number: int
    """1, 2, … of this rollout's."""
    steps: int
    episodes: list[Episode]
    sequences: list[Sequence]


News = tuple[int, int, int, list[Episode]]
"""Of something handed over, all but the sequences."""


class Counters(NamedTuple):
    """What a replay that begins, or begins again, has to know of all that was."""

    steps: int
    handed_over: dict[int, int]
    """The last number of every rollout."""
    learns_from: int | None
    """Steps that were taken before learning began."""
    updates: int


def make_agent(config: RunConfig, spec: EnvSpec) -> RecurrentAgent:
    """The agent of a run."""
    made = agents.find(config.agent).make(spec, agents.configure(config.agent, config.config))
    assert isinstance(made, RecurrentAgent)
    return made


def slack(config: RunConfig, agent: RecurrentAgent) -> int:
    """Steps that acting may be ahead of learning: two learning steps, and what every rollout has at hand."""
    assert config.actors is not None
    return 2 * agent.settings.learn_period + config.actors * config.num_envs * agent.settings.rollout


def _spec(config: RunConfig) -> EnvSpec:
    made = environments.make(config.env, config.seed)
    environments.close(made)
    return made.spec


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
        self._spec = _spec(config)
        self._agent = agent = make_agent(config, self._spec)
        self._running = running = agent.settings
        self._memory = jax.tree.map(np.asarray, running.memory())
        assert config.actors is not None
        sizes = {"heads": agent.heads, "memory": self._memory, "streams": config.actors * config.num_envs}
        sentence = replays.check_room(self._spec, running.shape, running.replay, **sizes)
        self._replay = replays.Replay(self._spec, running.shape, running.replay, **sizes)
        self._replay.start_at(start_at)
        self._slack, self._seed = slack(config, agent), config.seed
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

    def open(self) -> int:
        """Lets everybody in; how many sequences there are."""
        with self._changed:
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
                    self._replay.add(sequence)
                self._steps += rolled.steps
                self._news.append(rolled[:4])
                if self._learns_from is None and self._has_enough:
                    self._learns_from = self._steps
                self._changed.notify_all()
            self._changed.wait_for(lambda: not self._has_enough or self._ahead <= self._slack)
            return is_new

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
            return self._life, self._replay.sample(self._running.batch_size, rng)

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

    def snapshot(self) -> tuple[list[News], dict[str, Any], np.ndarray]:
        """All of one moment: the news until then, what there is to store, and the priorities."""
        with self._changed:
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
            spec = _spec(config)
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
        replay = _Served(replays_)
        coming = replay.ask("sample", self._updates)
        while True:
            found = replay.answer(coming)
            if found is None or isinstance(found, str):
                coming = replay.ask("sample", self._updates)
                continue
            life, drawn = found
            coming = replay.ask("sample", self._updates + 1)
            began = time.monotonic()
            batch = Batch(*jax.tree.map(np.array, (drawn.steps, drawn.memory, drawn.mask, drawn.weights)))
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

    def state(self) -> tuple[Any, int]:
        """All of it between two learning steps, and how many there were."""
        with self._lock:
            return jax.tree.map(np.array, self._state), self._updates

    def news(self) -> tuple[list[float], int, float]:
        """What the learning steps since this was last asked amount to, how many there were in all, and their seconds."""
        with self._lock:
            lately, self._lately = self._lately, NOTHING
            seconds, self._seconds = self._seconds, 0.0
            return [float(x) for x in lately], self._updates, seconds


class Rollout:
    """Some environments, and what acts in them."""

    def __init__(self) -> None:
        use_one_core()

    def run(self, name: int, rung: int, config: RunConfig, replays_: list[Any], learners: list[Any]) -> None:
        """Acts for ever, as number `rung` of all rollouts on the ladder of ε."""
        made = environments.make(config.env, f"{config.seed} rollout {name}", num_envs=config.num_envs, vectorises=True)
        agent = make_agent(config, made.spec)
        replay, weights = _Served(replays_), _Weights(learners)
        gathering = _Gathering(made, agent, config, name, rung, weights.wait())
        handed: tuple[Any, Rolled] | None = None
        while True:
            rolled = gathering.roll(weights.newest())
            if handed is not None:
                _hand_over(replay, *handed)
            handed = replay.ask("put", rolled), rolled


def _hand_over(replay: "_Served", answer: Any, rolled: Rolled) -> None:
    """Waits for the replay's answer. If it died meanwhile, the next one is given the same, which it may know already."""
    while isinstance(replay.answer(answer), str):
        answer = replay.ask("put", rolled)


class _Served:
    """Processes of which one serves, as others see them."""

    def __init__(self, handles: list[Any]):
        import ray

        self._ray, self._handles, self._at = ray, handles, 0

    def ask(self, method: str, *arguments: Any) -> Any:
        """A reference to the answer of the one that served last."""
        return self._handles[self._at].call.remote(method, *arguments)

    def answer(self, asked: Any) -> Any:
        """The answer; ELSEWHERE, and the next question goes to another one, where it does not serve or is dead."""
        try:
            found = self._ray.get(asked)
        except self._ray.exceptions.RayTaskError:
            raise
        except self._ray.exceptions.RayError:
            found = ELSEWHERE
        if isinstance(found, str):
            self._at = (self._at + 1) % len(self._handles)
            time.sleep(0.1)
        return found


class _Weights:
    """The learner's weights, asked for all the time and never waited for; without a learner, the last ones there were."""

    def __init__(self, learners: list[Any]):
        import ray

        self._ray, self._learner = ray, _Served(learners)
        self._version: Any = None
        self._params: Params = None
        self._asked = self._learner.ask("weights", None)

    def wait(self) -> Params:
        while self._params is None:
            self._ray.wait([self._asked], timeout=1.0)
            if self.newest() is None:
                time.sleep(0.1)
        return self._params

    def newest(self) -> Params:
        ray = self._ray
        if ray.wait([self._asked], timeout=0)[0]:
            found = self._learner.answer(self._asked)
            if found is not None and not isinstance(found, str):
                try:
                    params = ray.get(found[1])
                    self._version, self._params = found[0], jax.tree.map(lambda x: jnp.asarray(np.array(x)), params)
                except ray.exceptions.RayError:
                    pass  # the learner died, and its weights with it: those before do meanwhile
            self._asked = self._learner.ask("weights", self._version)
        return self._params


class _Gathering:
    """Steps of a rollout's environments, as they are handed over."""

    def __init__(self, env: Any, agent: RecurrentAgent, config: RunConfig, name: int, rung: int, params: Params):
        assert config.actors is not None
        self._agent, self._seed, self._name = agent, config.seed, name
        self._size = config.num_envs
        own = random.for_use(interaction.run_key(config.seed), random.Use.ROLLOUT)
        self._key = jax.random.fold_in(own, name)
        self._acting: CompiledActing | SteppedActing
        if isinstance(env, Environment):
            self._acting = CompiledActing(env, agent, self._size, params, self._key)
        else:
            self._acting = SteppedActing(env, agent, params, self._key)
        mine = slice(rung * self._size, (rung + 1) * self._size)
        epsilons = jnp.asarray(ladder(config.actors * self._size)[mine])
        carry = self._acting.carry
        if isinstance(carry, CompiledCarry):
            self._acting.carry = carry._replace(acting=carry.acting._replace(epsilon=epsilons))
        else:
            self._acting.carry = carry._replace(epsilon=epsilons)
        memory = jax.tree.map(np.asarray, agent.settings.memory())
        self._writers = [Writer(agent.settings.shape, memory) for _ in range(self._size)]
        self._rounds = self._number = self._sequences = 0
        self._lengths = np.zeros(self._size, np.int64)
        self._returns, self._reward_sizes = np.zeros(self._size), np.zeros(self._size)

    def roll(self, params: Params) -> Rolled:
        """Some steps of every environment."""
        at = interaction.key_and_number(self._key, self._rounds, self._size)
        ages = interaction.FOLDED_STEPS // self._size
        count = min(self._agent.settings.rollout, ages - self._rounds % ages)
        roll, ends = self._acting.roll(params, at, count)
        self._rounds += count
        self._number += 1
        sequences = [sequence for row in range(self._size) for sequence in self._cut(roll, row)]
        steps, episodes = self._episodes(roll, {(end.t, end.row): end.ended for end in ends})
        return Rolled(self._name, self._number, steps, episodes, sequences)

    def _cut(self, roll: Roll, row: int) -> list[Sequence]:
        steps, memory = stream_steps(roll, row)
        found = []
        for piece in self._writers[row].extend(steps, memory):
            draws = np.random.default_rng([self._seed, _MASKS, self._name, self._sequences]).random(self._agent.heads)
            mask = (draws < self._agent.settings.mask_prob).astype(np.float32)
            stream = self._name * self._size + row
            found.append(Sequence(stream, piece.start, piece.steps, piece.memory, mask))
            self._sequences += 1
        return found

    def _episodes(self, roll: Roll, ends: dict[tuple[int, int], Ended]) -> tuple[int, list[Episode]]:
        """Steps that counted, and the episodes that ended in them, in order."""
        steps, episodes = 0, []
        for t in range(len(roll.action)):
            taken, reward = roll.taken[t], np.where(roll.taken[t], roll.after.reward[t], 0.0)
            self._lengths += taken
            self._returns += reward
            self._reward_sizes += np.abs(reward)
            steps += int(np.count_nonzero(taken))
            for row in range(self._size):
                ended = ends.get((t, row))
                if ended is None:
                    continue
                possible = possible_return(
                    self._reward_sizes[row], self._lengths[row], roll.after.discount[t, row], self._agent.discount
                )
                length, total, head = int(self._lengths[row]), float(self._returns[row]), int(roll.head[t, row])
                episodes.append(Episode(steps, length, total, head, float(possible), ended.bad, ended.totals))
                self._lengths[row], self._returns[row], self._reward_sizes[row] = 0, 0.0, 0.0
        return steps, episodes


class Evaluator:
    """Plays with what was learned, while the others go on."""

    def __init__(self) -> None:
        use_one_core()

    def play(self, config: RunConfig, params: Params, episodes: int, longest: int) -> np.ndarray:
        """Returns of some episodes."""
        spec = _spec(config)
        trained = TrainedAgent(spec, make_agent(config, spec), jax.tree.map(np.array, params))
        return greedy_returns(config.env, trained, episodes=episodes, longest=longest)


KINDS = {"rollout": Rollout, "replay": Replay, "learner": Learner, "evaluator": Evaluator}
