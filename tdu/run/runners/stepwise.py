"""Runs on Python environments, which no compiled loop can hold: B ≥ 1 of them, stepped together."""

import time
from collections.abc import Callable
from functools import lru_cache

import jax
import numpy as np

from tdu.environments.vector import VectorEnvironment
from tdu.errors import UserError, setting
from tdu.metrics import on_host
from tdu.run.runners import mastery
from tdu.run.runners.meter import EpisodeMeter
from tdu.run.runners.player import Round, StepwiseCarry, StepwisePlayer
from tdu.run.runners.protocol import Budget, Runner, Saved, Trace
from tdu.run.runners.rows import Row
from tdu.run.runners.stepped import SteppedEnvironments, first_steps
from tdu.types import Agent, Array, Params, State

_MOST_STEPS = 1000  # most steps of one call of `advance`
_MOST_SECONDS = 5.0  # most seconds of one call, for slow environments


class StepwiseRunner(Runner):
    """A run over Python environments."""

    _environments: SteppedEnvironments

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
                f"this agent learns from consecutive steps of one environment; use {setting('num_envs')} 1, not {env.size}."
            )
        super().__init__(env.spec, agent, budget, until, SteppedEnvironments(env))
        self._agent = agent
        self._player = StepwisePlayer(agent, seed, size=env.size, skips=env.skips)
        self._meter = EpisodeMeter(env.size, agent.discount)
        if compiled:
            self._compile()

    def _compile(self) -> None:
        """Compiles both calls on a state that is then discarded."""
        player, size = self._player, self._environments.size
        now = first_steps(np.zeros((size, *self.spec.carried_shape), self.spec.carried_dtype))
        actions = player.select(now)
        player.update(Round(now.observation, actions, now, np.ones(size, bool)), now)
        player.learn_gathered(now)
        player.begin()

    def _advance(self, upto_episode: int | None) -> list[Row]:
        """Runs until an episode ends, or for some steps."""
        now = self._environments.now()
        began = time.monotonic()
        for _ in range(max(_MOST_STEPS // self._environments.size, 1)):
            actions = self._player.select(now)
            stepped = self._environments.step(actions)
            after, taken = stepped.after, stepped.taken
            self._meter.add(after.reward, taken)
            self._steps = self._meter.steps
            step, now = Round(now.observation, actions, after, taken), self._environments.now()
            self._player.update(step, now)
            if stepped.ended:
                assert self._player.note is not None
                heads, metrics = np.asarray(self._player.note.head), on_host(self._player.note.metrics)
                rows: list[Row] = []
                for row, ended in stepped.ended.items():
                    episode = self._meter.end(row, ended, discount=after.discount[row], head=heads[row])
                    rows += self._log_episode(
                        episode, {name: x[row] for name, x in metrics.items()}, self._greedy_depth
                    )
                return rows
            if self._budget.spent(self.clock) or time.monotonic() - began > _MOST_SECONDS:
                break
        return []

    def _greedy_depth(self) -> int:
        return int(_greedy_depth(self._agent, self.spec.optimal_path)(self.params()))

    def learner_rows(self) -> list[Row]:
        if self.finished:
            self._player.log_learning()
        rows, self._player.learner_rows = self._player.learner_rows, []
        return rows

    def start_trace(self) -> None:
        self._player.traces = []

    def trace(self) -> list[Trace]:
        """The states visited since the last call, of the steps that were learned from."""
        traces, self._player.traces = self._player.traces or [], []
        return traces

    def learner(self) -> State:
        self._player.learn_gathered()
        return self._player.carry.learner

    def _save(self) -> Saved:
        self._player.learn_gathered()
        arrays, plain = self._environments.save()
        meter = self._meter.save() if plain else {}
        return Saved(self._player.carry, arrays | meter, plain | {"rounds": self._player.rounds})

    def _restore(self, saved: Saved) -> None:
        self._player.restore(saved.state, rounds=saved.plain["rounds"], steps=self._steps)
        self._meter.steps = self._steps
        if not self._environments.restore(saved.arrays, saved.plain):
            return
        if self.exact:
            self._meter.restore(saved.arrays)
        else:
            self._player.begin_again()

    def params(self, saved: Saved | None = None) -> Params:
        self._player.learn_gathered()
        carry: StepwiseCarry = self._player.carry if saved is None else saved.state
        return self._agent.params(carry.learner)


@lru_cache(maxsize=8)
def _greedy_depth(agent: Agent, path: mastery.Path) -> Callable[[Params], Array]:
    """`mastery.greedy_depth`, compiled."""
    return jax.jit(mastery.greedy_depth(agent.values, path))
