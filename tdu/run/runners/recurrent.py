"""Runs of agents with a memory, in one process: B actors and one learner take turns.

A round is some steps of every environment, then as many learning steps as are due: one for every `learn_period` environment
steps since the replay held enough sequences. So the ratio of learning to acting is stated and held. Steps go through one
`Writer` per environment into the replay. A batch is drawn from (seed, number of the learning step), a mask from (seed, number
of the sequence), an action from `interaction`'s keys.
"""

import collections
import contextlib
import time
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tdu.agents.r2d2.agent import RecurrentAgent
from tdu.agents.r2d2.learner import Batch
from tdu.agents.r2d2.replay import Replay, check_room
from tdu.agents.r2d2.sequences import Sequence, Steps, Writer, nothing
from tdu.environments.vector import VectorEnvironment
from tdu.errors import UserError
from tdu.run.runners import interaction, mastery
from tdu.run.runners.acting import CompiledActing, End, Roll, SteppedActing
from tdu.run.runners.interaction import Learned
from tdu.run.runners.protocol import Budget, Clock, Saved
from tdu.run.runners.rows import Progress, Row, learner_row, possible_return
from tdu.types import Environment, Params, State, Transition

_TELLS_EVERY = 1000
"""Environment steps between two rows of the learner's own log, or a round where that is longer."""

_REPLAY, _WRITER, _ACTING = "replay.", "writer.", "acting."

_BATCHES, _MASKS = 1, 2
"""What a generator is for."""

_RECENT = 100


NOTHING = Learned(*[np.float32(0)] * len(Learned._fields))
"""`Learned.nothing` in NumPy."""


class RecurrentCarry(NamedTuple):
    """What lies on the device."""

    learner: State
    acting: State


class _Programs:
    """What is compiled for an agent."""

    def __init__(self, agent: RecurrentAgent):
        self.init = jax.jit(agent.init)
        self.update = jax.jit(agent.update, donate_argnums=0)
        self.observe = None if agent.observe is None else jax.jit(agent.observe, donate_argnums=0)


_programs = lru_cache(maxsize=8)(_Programs)


class RecurrentRunner:
    """A run of an agent with a memory over B environments."""

    def __init__(
        self,
        env: Environment | VectorEnvironment,
        agent: RecurrentAgent,
        seed: int,
        *,
        budget: Budget,
        until: mastery.Until,
        num_envs: int,
        compiled: bool = True,
    ):
        self.spec = env.spec._replace(optimal_path=())  # values that depend on a memory are not those of a state
        self._agent, self._seed, self._budget = agent, seed, budget
        self._until = until
        if agent.observe is not None and not isinstance(env, Environment) and env.skips:
            raise UserError(
                f"bonus counts needs environments of which every call is a step, and {env.spec.name} spends some on "
                "beginning an episode; make it with autoreset SAME_STEP."
            )
        running = agent.settings
        size = num_envs if isinstance(env, Environment) else env.size
        self._size = size
        self._memory = jax.tree.map(np.asarray, running.memory())
        sizes = {"heads": agent.heads, "memory": self._memory, "streams": size}
        self.notes: tuple[str, ...] = ()
        if compiled:
            self.notes = (check_room(env.spec, running.shape, running.replay, **sizes),)
        self._replay = Replay(env.spec, running.shape, running.replay, **sizes)
        self._programs = _programs(agent)
        self._key = interaction.run_key(seed)
        self._learner: State = self._programs.init(interaction.first_keys(self._key)[0])
        params = agent.params(self._learner)
        self._acting: CompiledActing | SteppedActing
        if isinstance(env, Environment):
            self._acting = CompiledActing(env, agent, size, params, self._key)
        else:
            self._acting = SteppedActing(env, agent, params, self._key)
        self.exact = self._acting.exact
        self._writers = [Writer(running.shape, self._memory) for _ in range(size)]
        self._streams = list(range(size))
        """The number of each row's stream."""
        self.progress = Progress(self.spec, agent.discount)
        self._rounds = self._steps = self._updates = self._sequences = 0
        self._learns_from: int | None = None
        """The step at which there were enough sequences."""
        self._lengths = np.zeros(size, np.int64)
        self._returns, self._reward_sizes = np.zeros(size), np.zeros(size)
        self._learned = self._lately = NOTHING
        """Over the last round that learned, and since the learner last told of itself."""
        self._told_at = 0
        self._learner_rows: list[Row] = []
        self._seconds = {"acting": 0.0, "learning": 0.0}
        self._began = (0, 0)
        """Steps and learning steps before this sitting."""
        self._recent: dict[str, collections.deque[float]] = {
            kind: collections.deque(maxlen=_RECENT) for kind in ("exploiters", "explorers")
        }
        if compiled:
            self._compile(params)

    def _compile(self, params: Params) -> None:
        """Compiles learning and acting ahead of the run, on states that are thrown away."""
        running = self._agent.settings
        key = interaction.run_key(0)
        self._acting.warm_up(params, key)
        size, length = running.batch_size, running.shape.length
        steps = jax.tree.map(lambda x: np.zeros((length, size, *x.shape[1:]), x.dtype), nothing(self.spec, 1))
        memory = jax.tree.map(lambda x: np.zeros((size, *x.shape), x.dtype), self._memory)
        batch = Batch(steps, memory, np.ones((size, self._agent.heads), np.float32), np.ones(size, np.float32))
        self._programs.update(jax.tree.map(jnp.copy, self._learner), batch)

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to do."""
        return self.progress.has_reached(self._until) or self._budget.spent(self.clock)

    @property
    def clock(self) -> Clock:
        """Environment steps taken and episodes finished."""
        return Clock(steps=self._steps, episodes=self.progress.episode)

    def advance(self, upto_episode: int | None = None) -> list[Row]:
        """One round: some steps of every environment, and the learning that is due."""
        del upto_episode  # environments that are stepped together are stepped to the end of the round
        began = time.perf_counter()
        at = interaction.key_and_number(self._key, self._rounds, self._size)
        count = min(self._agent.settings.rollout, self._left_of_this_key())
        if self._budget.steps is not None:
            count = min(count, max(-(-(self._budget.steps - self._steps) // self._size), 1))
        roll, ends = self._acting.roll(self._agent.params(self._learner), at, count)
        self._rounds += count
        for row in range(self._size):
            self._record(roll, row)
        if self._programs.observe is not None:
            self._learner = self._programs.observe(self._learner, _transitions(roll))
        rows = self._rows(roll, ends)
        acted = time.perf_counter()
        self._learn()
        self._seconds["acting"] += acted - began
        self._seconds["learning"] += time.perf_counter() - acted
        if self._steps - self._told_at >= _TELLS_EVERY:
            self._tell()
        return rows

    def _left_of_this_key(self) -> int:
        ages = interaction.FOLDED_STEPS // self._size
        return ages - self._rounds % ages

    def _record(self, roll: Roll, row: int) -> None:
        """Puts one environment's steps into its stream, and the sequences that are whole now into the replay."""
        steps, memory = stream_steps(roll, row)
        for piece in self._writers[row].extend(steps, memory):
            mask_prob, heads = self._agent.settings.mask_prob, self._agent.heads
            mask = np.ones(heads, np.float32)
            if mask_prob < 1:
                draws = np.random.default_rng([self._seed, _MASKS, self._sequences]).random(heads)
                mask = (draws < mask_prob).astype(np.float32)
            self._replay.add(Sequence(self._streams[row], piece.start, piece.steps, piece.memory, mask))
            self._sequences += 1

    def _learn(self) -> None:
        """Takes the learning steps that are due."""
        running = self._agent.settings
        if self._learns_from is None:
            if len(self._replay) < max(running.min_replay, 1):
                return
            self._learns_from = self._steps
        due = (self._steps - self._learns_from) // running.learn_period - self._updates
        if due > 0:
            self._learned = NOTHING
        for _ in range(due):
            rng = np.random.default_rng([self._seed, _BATCHES, self._updates])
            drawn = self._replay.sample(running.batch_size, rng)
            batch = Batch(drawn.steps, drawn.memory, drawn.mask, drawn.weights)
            self._learner, priorities, metrics = self._programs.update(self._learner, batch)
            self._replay.update_priorities(drawn.ids, np.asarray(priorities))
            numbers = {name: np.asarray(x) for name, x in metrics.items()}
            self._learned, self._lately = plus(self._learned, numbers), plus(self._lately, numbers)
            self._updates += 1

    def _rows(self, roll: Roll, ends: list[End]) -> list[Row]:
        """Counts the steps of a round, and gives the rows of the episodes that ended in it."""
        by_time: dict[int, list[End]] = {}
        for end in ends:
            by_time.setdefault(end.t, []).append(end)
        rows: list[Row] = []
        means = told(self._learned)
        for t in range(len(roll.action)):
            taken, reward = roll.taken[t], np.where(roll.taken[t], roll.after.reward[t], 0.0)
            self._lengths += taken
            self._returns += reward
            self._reward_sizes += np.abs(reward)
            self._steps += int(np.count_nonzero(taken))
            for end in by_time.get(t, []):
                if not (self.progress.has_reached(self._until) or self._budget.has_episodes(self.progress.episode)):
                    rows.append(self._row(roll, end, means))
                self._lengths[end.row], self._returns[end.row], self._reward_sizes[end.row] = 0, 0.0, 0.0
        return rows

    def _row(self, roll: Roll, end: End, told: np.ndarray) -> Row:
        row, head = end.row, int(roll.head[end.t, end.row])
        kind = "exploiters" if head < self._agent.exploiters else "explorers"
        self._recent[kind].append(float(self._returns[row]))
        possible = possible_return(
            self._reward_sizes[row], self._lengths[row], roll.after.discount[end.t, row], self._agent.discount
        )
        return self.progress.row(
            steps=self._steps,
            length=int(self._lengths[row]),
            episode_return=float(self._returns[row]),
            head=head,
            possible_return=possible,
            told=told,
            bad=end.ended.bad,
            totals=end.ended.totals,
        )

    def _tell(self) -> None:
        for row in learner_row(self._steps, self._lately):
            frames = self._steps * self.spec.frames_per_step
            more = {"frames": frames, "learning_steps": self._updates, "sequences": len(self._replay)}
            self._learner_rows.append(row | more)
        self._lately, self._told_at = NOTHING, self._steps

    def learner_rows(self) -> list[Row]:
        """What the learner has told since this was last asked."""
        if self.finished:
            self._tell()
        rows, self._learner_rows = self._learner_rows, []
        return rows

    def status(self) -> str:
        """What a progress line says beside the usual: speeds, the replay, σ, and the returns of both kinds of heads."""
        running, frames = self._agent.settings, self.spec.frames_per_step
        acted, learned = self._steps - self._began[0], self._updates - self._began[1]
        trained = learned * running.batch_size * running.shape.trace
        bonus, updates = float(self._learned.bonus), float(self._learned.updates)
        parts = [
            f"{self._steps * frames:,} frames, acting {acted * frames / max(self._seconds['acting'], 1e-9):,.0f} frames/s",
            f"learning {trained / max(self._seconds['learning'], 1e-9):,.0f} steps/s ({self._updates:,} learning steps)",
            f"replay {len(self._replay) / self._replay.capacity:.0%}",
        ]
        if self._agent.heads > self._agent.exploiters:
            parts.append(f"σ {bonus / max(updates, 1.0):.3g}")
        parts += [f"{kind} return {np.mean(recent):.3g}" for kind, recent in self._recent.items() if recent]
        return "; ".join(parts)

    def save(self) -> Saved:
        """The run as it is now."""
        arrays, plain_replay = self._replay.save()
        arrays = {f"{_REPLAY}{name}": x for name, x in arrays.items()}
        starts = []
        for row, writer in enumerate(self._writers):
            held, start = writer.save()
            starts.append(start)
            arrays |= {f"{_WRITER}{row}.{name}": x for name, x in held.items()}
        theirs, plain_acting = self._acting.save()
        arrays |= {f"{_ACTING}{name}": x for name, x in theirs.items()}
        arrays |= {"lengths": self._lengths, "returns": self._returns, "reward_sizes": self._reward_sizes}
        plain = {
            "rounds": self._rounds,
            "steps": self._steps,
            "updates": self._updates,
            "sequences": self._sequences,
            "learns_from": self._learns_from,
            "streams": self._streams,
            "starts": starts,
            "told_at": self._told_at,
            "learned": [float(x) for x in self._learned],
            "lately": [float(x) for x in self._lately],
            "replay": plain_replay,
            "acting": plain_acting,
            "progress": self.progress.to_plain(),
        }
        return Saved(RecurrentCarry(self._learner, self._acting.carry), arrays, plain)

    def restore(self, saved: Saved) -> None:
        """Puts back what `save` gave, into a run that has not begun; the replay's arrays are given up on the way."""
        plain, arrays = saved.plain, saved.arrays
        carry: RecurrentCarry = saved.state
        self._learner = jax.tree.map(jnp.asarray, carry.learner)
        self._rounds, self._steps, self._updates = plain["rounds"], plain["steps"], plain["updates"]
        self._sequences, self._learns_from = plain["sequences"], plain["learns_from"]
        self._told_at = plain["told_at"]
        self._learned, self._lately = (Learned(*map(np.float32, plain[name])) for name in ("learned", "lately"))
        self.progress = Progress.from_plain(self.spec, self._agent.discount, plain["progress"])
        self._acting.restore(carry.acting, _of(arrays, _ACTING), plain["acting"])
        self._began = (self._steps, self._updates)
        if self.exact:
            self._streams = list(plain["streams"])
            for row, writer in enumerate(self._writers):
                writer.restore(_of(arrays, f"{_WRITER}{row}."), plain["starts"][row])
            self._lengths, self._returns, self._reward_sizes = (
                arrays[name].copy() for name in ("lengths", "returns", "reward_sizes")
            )
        else:  # what comes next does not follow what was seen before: other streams begin
            self._streams = [stream + self._size for stream in plain["streams"]]
        kept = {name.removeprefix(_REPLAY): arrays.pop(name) for name in list(arrays) if name.startswith(_REPLAY)}
        self._replay.restore(kept, plain["replay"])

    def params(self, saved: Saved | None = None) -> Params:
        """What the trained agent acts on: now, or as it was saved."""
        return self._agent.params(self._learner if saved is None else saved.state.learner)

    @contextlib.contextmanager
    def environment_aside(self) -> Iterator[None]:
        """Environments that can be brought back are, to where they were; others have to be left alone."""
        acting = self._acting
        if isinstance(acting, CompiledActing):  # its functions keep nothing: anybody may use them
            yield
            return
        if not self.exact:
            raise UserError(
                f"{self.spec.name} cannot be brought back to where it is, so nobody else can use it meanwhile."
            )
        where = acting.aside()
        yield
        acting.back(where)

    def close(self) -> None:
        """Lets the environments give up what they hold."""
        self._acting.close()


def stream_steps(roll: Roll, row: int) -> tuple[Steps, Any]:
    """One environment's steps of a round as its stream has them, and what was remembered after each.

    An episode that was cut off is followed by its true last observation, as a step that nothing is learned on.
    """
    after, last = roll.after, roll.after.last[:, row]
    cut_off = last & (after.discount[:, row] > 0) & roll.taken[:, row]
    # Every step that counted, each followed by the end of its episode where that is needed.
    order = [
        place for t in np.flatnonzero(roll.taken[:, row]) for place in ([(t, 0), (t, 1)] if cut_off[t] else [(t, 0)])
    ]
    times = np.array([t for t, _ in order], np.int64)
    ends = np.array([end for _, end in order], bool)

    def column(x: np.ndarray) -> np.ndarray:
        return x[times, row]

    observation = column(roll.observation)
    observation[ends] = after.observation[times[ends], row]
    steps = Steps(
        observation=observation,
        previous_action=np.where(ends, column(roll.action), column(roll.previous_action)).astype(np.int32),
        previous_reward=np.where(ends, column(after.reward), column(roll.previous_reward)).astype(np.float32),
        first=np.where(ends, False, column(roll.first)),
        action=np.where(ends, 0, column(roll.action)).astype(np.int32),
        reward=np.where(ends, 0, column(after.reward)).astype(np.float32),
        discount=np.where(ends, 0, column(after.discount)).astype(np.float32),
        valid=~ends,
    )
    return steps, jax.tree.map(column, roll.memory)


def _transitions(roll: Roll) -> Transition:
    """Every step of a round once, [n, …]; only of environments of which every step counts."""
    flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), roll)
    after = flat.after
    return Transition(flat.observation, flat.action, after.reward, after.discount, after.observation, {})


def plus(sums: Learned, metrics: dict[str, np.ndarray]) -> Learned:
    """`Learned.plus` in NumPy."""
    both = {name: getattr(sums, name) + metrics[name] for name in ("bonus", "loss", "updates")}
    most = {name: np.maximum(getattr(sums, name), metrics[name]) for name in ("largest_q", "largest_extra")}
    return Learned(**both, **most)


def told(sums: Learned) -> np.ndarray:
    """`Learned.told` in NumPy."""
    updates = max(float(sums.updates), 1.0)
    return np.array([sums.bonus / updates, sums.loss / updates, sums.largest_q, sums.largest_extra], np.float32)


def _of(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): x for name, x in arrays.items() if name.startswith(prefix)}
