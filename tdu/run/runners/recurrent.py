"""Runs of agents with a memory, in one process: B actors and one learner take turns.

A round is some steps of every environment, then the learning steps that are due: one for every `learn_period` environment
steps since the replay held enough sequences. A batch is drawn from (seed, number of the learning step), a mask from (seed,
number of the sequence), an action from the keys of `interaction`.
"""

import abc
import collections
import time
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tdu.agents.r2d2.actor import ladder
from tdu.agents.r2d2.agent import RecurrentAgent
from tdu.agents.r2d2.replay import Replay, check_room
from tdu.agents.r2d2.sequences import Roll, empty_batch
from tdu.environments.vector import VectorEnvironment
from tdu.errors import UserError
from tdu.files import Json
from tdu.metrics import on_host
from tdu.run.runners import interaction, mastery
from tdu.run.runners.acting import Actors
from tdu.run.runners.meter import Episode
from tdu.run.runners.protocol import Budget, Runner, Saved
from tdu.run.runners.rows import Row, learner_row
from tdu.run.runners.stepped import SteppedEnvironments, without_prefix
from tdu.types import Environment, EnvSpec, Params, State, Transition

BATCHES, MASKS = 1, 2
"""Uses of random generators: numbers in their seeds."""

_LOG_PERIOD = 1000  # environment steps between two rows of learner.csv, or a round where that is longer
_RECENT = 100  # episodes over which the status averages returns


class SequenceRunner(Runner):
    """What runs of agents with a memory share, in one process or on a cluster: their logs and their status."""

    def __init__(
        self,
        spec: EnvSpec,
        agent: RecurrentAgent,
        budget: Budget,
        until: mastery.Until,
        environments: SteppedEnvironments | None = None,
    ):
        # The values depend on a memory, so mastery, which is defined on states, is not checked.
        super().__init__(spec._replace(optimal_path=()), agent, budget, until, environments)
        self._agent = agent
        self._updates = 0  # learning steps
        self._learns_from: int | None = None  # the environment step at which the replay held enough sequences
        self._learned = self._unlogged = self._reducers.zeros()
        """Totals over the last learning steps, and since the last row of learner.csv."""
        self._logged_at = 0  # the environment step of that row
        self._recent: dict[str, collections.deque[float]] = {
            kind: collections.deque(maxlen=_RECENT) for kind in ("exploiters", "explorers")
        }

    @property
    @abc.abstractmethod
    def _stored_sequences(self) -> int: ...

    def _log(self, episodes: list[Episode]) -> list[Row]:
        """The rows of finished episodes, with the metrics of the last learning steps."""
        metrics = self._reducers.summary(self._learned)
        rows: list[Row] = []
        for episode in episodes:
            logged = self._log_episode(episode, metrics)
            if logged:
                kind = "exploiters" if episode.head < self._agent.config.exploiters else "explorers"
                self._recent[kind].append(float(episode.episode_return))
            rows += logged
        return rows

    def _learning(self) -> Json:
        """What a checkpoint holds of it, as JSON."""
        totals = {"learned": self._learned, "unlogged": self._unlogged}
        plain = {kind: {name: float(x) for name, x in metrics.items()} for kind, metrics in totals.items()}
        return plain | {"updates": self._updates, "logged_at": self._logged_at}

    def _restore_learning(self, plain: Json) -> None:
        self._updates, self._logged_at = plain["updates"], plain["logged_at"]
        self._learned, self._unlogged = (
            {name: np.float32(x) for name, x in plain[totals].items()} for totals in ("learned", "unlogged")
        )

    def learner_rows(self) -> list[Row]:
        if self.finished:
            self._log_learning()
        return super().learner_rows()

    def _log_learning(self) -> None:
        """Adds a row of learner.csv for what was learned since the last one."""
        counts = {"frames": self._steps * self.spec.frames_per_step, "learning_steps": self._updates}
        counts["sequences"] = self._stored_sequences
        self._learner_rows += learner_row(self._steps, self._reducers, self._unlogged, **counts)
        self._unlogged, self._logged_at = self._reducers.zeros(), self._steps

    def _log_learning_if_due(self) -> None:
        if self._steps - self._logged_at >= _LOG_PERIOD:
            self._log_learning()

    def _status(self, *, acting: float, learning: float, capacity: int) -> str:
        """The status from frames and trained steps per second, and the capacity of the replay."""
        parts = [
            f"{self._steps * self.spec.frames_per_step:,} frames, acting {acting:,.0f} frames/s",
            f"learning {learning:,.0f} steps/s ({self._updates:,} learning steps)",
            f"replay {self._stored_sequences / capacity:.0%}",
        ]
        if self._agent.config.heads > self._agent.config.exploiters:
            parts.append(f"σ {float(self._reducers.summary(self._learned)['bonus']):.3g}")
        parts += [f"{kind} return {np.mean(recent):.3g}" for kind, recent in self._recent.items() if recent]
        return "; ".join(parts)


class RecurrentCarry(NamedTuple):
    """The state on the device."""

    learner: State
    acting: State


class _Programs:
    """The compiled functions for an agent."""

    def __init__(self, agent: RecurrentAgent):
        self.init = jax.jit(agent.init)
        self.update = jax.jit(agent.update, donate_argnums=0)
        self.observe = None if agent.observe is None else jax.jit(agent.observe, donate_argnums=0)


_programs = lru_cache(maxsize=8)(_Programs)


class RecurrentRunner(SequenceRunner):
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
        made = env if isinstance(env, Environment) else SteppedEnvironments(env)
        in_python = made if isinstance(made, SteppedEnvironments) else None
        super().__init__(env.spec, agent, budget, until, in_python)
        if agent.observe is not None and in_python is not None and in_python.env.skips:
            raise UserError(
                f"the bonus counts does not work with {env.spec.name}, because some of its calls only reset an episode; "
                "make it with the autoreset mode SAME_STEP."
            )
        self._seed, config = seed, agent.config
        self._size = num_envs if in_python is None else in_python.size
        memory = jax.tree.map(np.asarray, agent.empty_memory())
        if compiled:
            self.notes = (check_room(env.spec, config, memory=memory, streams=self._size),)
        self._replay = Replay(env.spec, config, memory=memory, streams=self._size)
        self._programs = _programs(agent)
        key = interaction.run_key(seed)
        self._learner: State = self._programs.init(interaction.first_keys(key)[0])
        params = agent.params(self._learner)
        self._actors = Actors(made, agent, params, key, ladder(self._size), seed=(seed, MASKS))
        self._seconds = {"acting": 0.0, "learning": 0.0}
        self._began = (0, 0)  # environment steps and learning steps before this process took over
        if compiled:  # on states that are then discarded
            self._actors.acting.warm_up(params, interaction.run_key(0))
            batch = empty_batch(self.spec, config.shape, config.batch_size, heads=config.heads, memory=memory)
            self._programs.update(jax.tree.map(jnp.copy, self._learner), batch)

    @property
    def _stored_sequences(self) -> int:
        return len(self._replay)

    def _advance(self, upto_episode: int | None) -> list[Row]:
        """One round. Environments that are stepped together are stepped to its end."""
        began = time.perf_counter()
        steps = self._budget.steps
        most = None if steps is None else max(-(-(steps - self._steps) // self._size), 1)
        roll, episodes = self._actors.roll(self._agent.params(self._learner), most)
        for sequence in self._actors.streams.cut(roll):
            self._replay.add(sequence)
        if self._programs.observe is not None:
            self._learner = self._programs.observe(self._learner, _transitions(roll))
        rows = self._log(episodes)
        self._steps = self._actors.meter.steps
        acted = time.perf_counter()
        self._learn()
        self._seconds["acting"] += acted - began
        self._seconds["learning"] += time.perf_counter() - acted
        self._log_learning_if_due()
        return rows

    def _learn(self) -> None:
        config = self._agent.config
        if self._learns_from is None:
            if len(self._replay) < max(config.min_replay, 1):
                return
            self._learns_from = self._steps
        due = (self._steps - self._learns_from) // config.learn_period - self._updates
        if due > 0:
            self._learned = self._reducers.zeros()
        for _ in range(due):
            rng = np.random.default_rng([self._seed, BATCHES, self._updates])
            batch = self._replay.sample(config.batch_size, rng)
            self._learner, priorities, metrics = self._programs.update(self._learner, batch)
            self._replay.update_priorities(batch.ids, np.asarray(priorities))
            metrics = on_host(metrics)
            self._learned = self._reducers.add(self._learned, metrics)
            self._unlogged = self._reducers.add(self._unlogged, metrics)
            self._updates += 1

    def status(self) -> str:
        config = self._agent.config
        acted, learned = self._steps - self._began[0], self._updates - self._began[1]
        trained = learned * config.batch_size * config.shape.trace
        return self._status(
            acting=acted * self.spec.frames_per_step / max(self._seconds["acting"], 1e-9),
            learning=trained / max(self._seconds["learning"], 1e-9),
            capacity=self._replay.capacity,
        )

    def _save(self) -> Saved:
        actors = self._actors
        arrays = actors.meter.save()
        plain = self._learning() | {"rounds": actors.rounds, "learns_from": self._learns_from}
        for part, saves in (("replay", self._replay), ("streams", actors.streams), ("acting", actors.acting)):
            of_part, plain[part] = saves.save()
            arrays |= {f"{part}.{name}": x for name, x in of_part.items()}
        return Saved(RecurrentCarry(self._learner, actors.acting.carry), arrays, plain)

    def _restore(self, saved: Saved) -> None:
        """Restores a run that has not begun. The replay's arrays are removed from `saved`."""
        plain, arrays, actors = saved.plain, saved.arrays, self._actors
        carry: RecurrentCarry = saved.state
        self._learner = jax.tree.map(jnp.asarray, carry.learner)
        self._restore_learning(plain)
        actors.rounds, self._learns_from = plain["rounds"], plain["learns_from"]
        self._began = (self._steps, self._updates)
        actors.acting.restore(carry.acting, without_prefix(arrays, "acting."), plain["acting"])
        actors.streams.restore(without_prefix(arrays, "streams."), plain["streams"], exact=self.exact)
        actors.meter.steps = self._steps
        if self.exact:
            actors.meter.restore(arrays)
        stored = without_prefix(arrays, "replay.")
        for name in stored:
            del arrays[f"replay.{name}"]
        self._replay.restore(stored, plain["replay"])

    def params(self, saved: Saved | None = None) -> Params:
        return self._agent.params(self._learner if saved is None else saved.state.learner)


def _transitions(roll: Roll) -> Transition:
    """Every step of a roll, [n, …]; only for environments of which every call is a step."""
    flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), roll)
    steps = flat.steps
    return Transition(steps.observation, steps.action, steps.reward, steps.discount, flat.next_observation, {})
