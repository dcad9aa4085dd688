"""Runs on Python environments, which no compiled loop can hold: B ≥ 1 of them, stepped together."""

import contextlib
import time
from collections.abc import Callable, Iterator
from functools import lru_cache

import jax
import numpy as np

from tdu.environments.vector import VectorEnvironment
from tdu.errors import UserError
from tdu.metrics import on_host
from tdu.run.runners import mastery
from tdu.run.runners.meter import EpisodeMeter
from tdu.run.runners.player import Round, StepwiseCarry, StepwisePlayer
from tdu.run.runners.protocol import Budget, Runner, Saved, Trace
from tdu.run.runners.rows import Progress, Row
from tdu.types import Agent, Array, Params, State, TimeStep

_MOST_STEPS = 1000
"""Most steps of one call of `advance`."""

_MOST_SECONDS = 5.0
"""Most seconds of one call, for slow environments."""

ENVIRONMENT = "environment."
"""Prefix of the environment's own arrays in what is saved."""


class StepwiseRunner(Runner):
    """A run over Python environments."""

    def __init__(
        self,
        env: VectorEnvironment,
        agent: Agent,
        seed: int,
        *,
        budget: Budget,
        until: mastery.Until,
        compiled: bool = True,
    ):
        if agent.one_stream and env.size > 1:
            raise UserError(
                f"this agent learns from consecutive steps of one environment and cannot take {env.size}; use num_envs 1."
            )
        super().__init__(env.spec, agent, budget, until)
        self.exact = env.exact
        self._env, self._agent = env, agent
        self._player = StepwisePlayer(agent, seed, size=env.size, skips=env.skips)
        self._meter = EpisodeMeter(env.size, agent.discount)
        self._now: TimeStep | None = None
        """The time steps to act on; None before the environments are started."""
        if compiled:
            self._compile()

    def _compile(self) -> None:
        """Compiles both calls on a state that is then discarded."""
        player, size = self._player, self._env.size
        now = first_steps(np.zeros((size, *self.spec.carried_shape), self.spec.carried_dtype))
        actions = player.select(now)
        player.update(Round(now.observation, actions, now, np.ones(size, bool)), now)
        player.learn_gathered(now)
        player.begin()

    def _advance(self, upto_episode: int | None) -> list[Row]:
        """Runs until an episode ends, or for some steps."""
        del upto_episode  # it never goes further
        if self._now is None:
            self._now = first_steps(self._env.start())
        began = time.monotonic()
        for _ in range(max(_MOST_STEPS // self._env.size, 1)):
            now = self._now
            actions = self._player.select(now)
            stepped = self._env.step(actions)
            after, taken = stepped.after, stepped.taken
            self._meter.add(after.reward, taken)
            self._steps = self._meter.steps
            self._now = following(after, stepped.now, waits=after.last & taken & self._env.skips)
            self._player.update(Round(now.observation, actions, after, taken), self._now)
            if stepped.ended:
                assert self._player.note is not None
                heads, metrics = np.asarray(self._player.note.head), on_host(self._player.note.metrics)
                rows: list[Row] = []
                for row, ended in stepped.ended.items():
                    episode = self._meter.end(row, ended, discount=after.discount[row], head=heads[row])
                    summary = {name: x[row] for name, x in metrics.items()}
                    rows += self._log_episode(episode, summary, self._greedy_depth)
                return rows
            if self._budget.spent(self.clock) or time.monotonic() - began > _MOST_SECONDS:
                break
        return []

    def _greedy_depth(self) -> int:
        return int(_greedy_depth(self._agent, self.spec.optimal_path)(self.params()))

    def learner_rows(self) -> list[Row]:
        """New rows of learner.csv."""
        if self.finished:
            self._player.log_learning()
        rows, self._player.learner_rows = self._player.learner_rows, []
        return rows

    @property
    def traces(self) -> bool:
        """Whether it keeps the visited states."""
        return self._player.traces is not None

    @traces.setter
    def traces(self, wanted: bool) -> None:
        self._player.traces = [] if wanted and self.spec.num_states is not None else None

    def trace(self) -> list[Trace]:
        """The states visited since the last call, of the steps that were learned from."""
        traces = self._player.traces or []
        self._player.traces = None if self._player.traces is None else []
        return traces

    def learner(self) -> State:
        """The learner's current state."""
        self._player.learn_gathered()
        return self._player.carry.learner

    def save(self) -> Saved:
        """The run as it is now."""
        self._player.learn_gathered()
        plain = {"rounds": self._player.rounds, "steps": self._steps, "progress": self.progress.to_plain()}
        if self._now is None:
            return Saved(self._player.carry, {}, plain)
        arrays, plain_env = self._env.save()
        arrays = {f"{ENVIRONMENT}{name}": x for name, x in arrays.items()}
        arrays |= {"reward": np.asarray(self._now.reward), "discount": np.asarray(self._now.discount)}
        return Saved(self._player.carry, arrays | self._meter.save(), plain | {"environment": plain_env})

    def restore(self, saved: Saved) -> None:
        """Restores what `save` returned; environments that cannot be restored begin new episodes."""
        arrays, plain = saved.arrays, saved.plain
        self._player.restore(saved.state, rounds=plain["rounds"], steps=plain["steps"])
        self._steps = self._meter.steps = plain["steps"]
        self.progress = Progress.from_plain(self.spec, self._agent.discount, plain["progress"])
        if "environment" not in plain:
            return
        now = first_steps(self._env.restore(without_prefix(arrays, ENVIRONMENT), plain["environment"]))
        if self.exact:
            now = now._replace(reward=arrays["reward"], discount=arrays["discount"])
            self._meter.restore(arrays)
        else:
            self._player.begin_again()
        self._now = now

    def params(self, saved: Saved | None = None) -> Params:
        """What the trained agent acts on: now, or when it was saved."""
        self._player.learn_gathered()
        carry: StepwiseCarry = self._player.carry if saved is None else saved.state
        return self._agent.params(carry.learner)

    def borrow_environment(self) -> contextlib.AbstractContextManager[None]:
        """Within it, the environments can be used by others; afterwards they are as they were."""
        return borrowed(self._env, started=self._now is not None)

    def close(self) -> None:
        """Closes the environments."""
        self._env.close()


@lru_cache(maxsize=8)
def _greedy_depth(agent: Agent, path: mastery.Path) -> Callable[[Params], Array]:
    """`mastery.greedy_depth`, compiled."""
    return jax.jit(mastery.greedy_depth(agent.values, path))


@contextlib.contextmanager
def borrowed(env: VectorEnvironment, *, started: bool) -> Iterator[None]:
    """Lets others use environments that can be restored exactly; refuses to lend any other."""
    if not env.exact:
        raise UserError(f"{env.spec.name} cannot be restored to its present state, so it cannot be used meanwhile.")
    state = env.save() if started else None
    yield
    if state is not None:
        env.restore(*state)


def without_prefix(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """The arrays whose names have the prefix, by the rest of their names."""
    return {name.removeprefix(prefix): x for name, x in arrays.items() if name.startswith(prefix)}


def first_steps(observations: np.ndarray) -> TimeStep:
    """Time steps at the beginning of episodes."""
    size = len(observations)
    return TimeStep(observations, np.zeros(size, np.float32), np.ones(size, np.float32), np.zeros(size, bool))


def following(after: TimeStep, now: np.ndarray, *, waits: np.ndarray) -> TimeStep:
    """The time steps to act on: what the environments returned, or the next episode's first where one ended.

    A row that waits spends the next call on beginning an episode. Until then it has nothing to act on.
    """
    reward = np.where(after.last, np.float32(0), after.reward)
    discount = np.where(after.last, np.float32(1), after.discount)
    return TimeStep(now, reward, discount, waits)
