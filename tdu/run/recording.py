"""`--record`: snapshots of the values of a run's agent, on a schedule that depends on episodes alone.

A snapshot has the quantiles of the bonus and of the TD error over a few hundred transitions from the replay. If the
environment has a map (`environments.maps`), a snapshot also has for every state, always of single steps,

    visits [G, S]    visits since the last snapshot, by exploiters and by explorers
    sigma  [S]       the exploiters' disagreement about the TD error, the largest over actions; with two or more exploiters
    bonus  [S]       the bonus, the largest over actions
    spread [G, S]    the heads' disagreement about Q in each group of two or more, the largest over actions
    value  [S]       the largest Q of the exploiters' mean, together with the path of the greedy policy

Snapshots are ten episodes or a tenth apart at first and evenly spaced later. So recording costs little, and the number of
snapshots is bounded for any length of run. Recording does not change the run: it has its own random key and learns nothing.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tdu import agents, random
from tdu.agents.r2d2.agent import RecurrentAgent
from tdu.environments import maps
from tdu.environments.maps import Map
from tdu.errors import UserError
from tdu.files import Json
from tdu.run.folder import RunConfig, snapshots
from tdu.run.runners.compiled import CompiledRunner
from tdu.run.runners.interaction import run_key
from tdu.run.runners.protocol import Clock, Runner, Saved
from tdu.run.runners.stepwise import StepwiseRunner
from tdu.types import Agent, Array, EitherArray, EnvSpec, Examined, Key, State, Transition

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)

EVEN_MOMENTS = 100
"""Number of evenly spaced snapshots, in a run with a known number of episodes."""
GROWTH = 1.1
_GAP = 10
"""Minimum number of episodes between snapshots …"""
_CHEAP_STATES, _USUAL_STATES = 500, 1300
"""… on maps up to Deep Sea 30. From Deep Sea 50 on, all of the schedule is slower."""
_MOST_STATES = 50_000  # the largest map that is recorded
_BATCHES = 4
_LARGEST = float(np.finfo(np.float16).max)
_VISITS, _MOMENTS = "record.visits", "record.moments"
"""Names of a recorder's arrays in a checkpoint."""


def next_moment(
    episode: int, episodes: int | None, *, gap: int = 1, pace: float = 1.0, every: int | None = None
) -> int:
    """The episode of the next snapshot, at least `gap` later; with `every`, the first thousand are evenly spaced."""
    grown = math.ceil(episode * GROWTH**pace)
    if every is not None:
        following = (episode // every + 1) * every
        return following if episode < 1000 * every else max(following, grown)
    late = max(episode + gap, grown)
    if episodes is None:
        return late
    even = max(math.ceil(episodes * pace / EVEN_MOMENTS), gap)
    return min(late, (episode // even + 1) * even)


def check(agent: str) -> None:
    if not agents.find(agent).can_be_recorded:
        raise _cannot(f"agent {agent}")


def _cannot(name: str) -> UserError:
    return UserError(f"{name} cannot be recorded: it does not expose its heads' values; leave --record out.")


class _Programs(NamedTuple):
    """Compiled functions of a learner's state."""

    quantiles: Callable[[State, Key, EitherArray], tuple[Array, Array, Array]]
    layers: Callable[[State], dict[str, Array]]


class Recorder:
    """Counts visits and takes snapshots."""

    def __init__(self, runner: Runner, agent: Agent | RecurrentAgent, config: RunConfig):
        # `check` does not cover an agent of the user's own.
        if isinstance(agent, RecurrentAgent) or agent.examiner is None:
            raise _cannot("this agent")
        assert isinstance(runner, CompiledRunner | StepwiseRunner)
        self._examiner, self._episodes = agent.examiner, config.episodes
        self._runner = runner
        self._map = _map_of(runner.spec)
        self._programs = _programs(agent, runner.spec)
        self._key = random.for_use(run_key(config.seed), random.Use.RECORD)
        self._every = config.record_every
        self.due = 0  # the episode of the next snapshot
        self.latest = -1  # the episode of the last snapshot
        states = (self._map.states.max() + 1) if self._map is not None else 0
        self._visits = np.zeros((2, states), np.int64)
        self._number = np.zeros(0, np.int64) if self._map is None else self._map.states
        if self._map is not None:
            runner.start_trace()

    def about(self) -> Json:
        examiner, here = self._examiner, self._map
        described = None
        if here is not None:
            described = {
                "kind": here.kind, "rows": here.rows, "columns": here.columns, "goal": here.goal,
                "cells": here.cells.tolist(), "layers": self._shapes(),
            }  # fmt: skip
        return {
            "format": snapshots.FORMAT,
            "exploiters": examiner.exploiters,
            "explorers": examiner.explorers,
            "quantiles": list(QUANTILES),
            "map": described,
        }

    def _shapes(self) -> dict[str, list[int]]:
        assert self._map is not None
        count, examiner = len(self._map.states), self._examiner
        shapes = {"visits": [2, count], "value": [count], "spread": [2, count], "bonus": [count]}
        if examiner.exploiters > 1:
            shapes["sigma"] = [count]
        if max(examiner.exploiters, examiner.explorers) < 2:
            del shapes["spread"]
        return shapes

    def count_visits(self) -> None:
        for trace in self._runner.trace() if self._map is not None else ():
            group = (trace.heads >= self._examiner.exploiters).astype(np.int64)
            valid = trace.states < self._visits.shape[1]  # the observation after the end of an episode is no state
            np.add.at(self._visits, (group[valid], trace.states[valid]), 1)

    def snapshot(self, clock: Clock) -> bytes:
        """The line of a snapshot; visits are counted from zero again."""
        self.count_visits()
        learner = self._runner.learner()
        bonus, td, size = jax.tree.map(
            np.asarray, self._programs.quantiles(learner, self._key, np.uint32(clock.steps % 2**32))
        )
        content: Json = {"episode": clock.episodes, "steps": clock.steps}
        content |= {"bonus": _numbers(bonus), "td": _numbers(td), "td_size": _numbers(size)}
        if self._map is not None:
            layers = jax.tree.map(np.asarray, self._programs.layers(learner))
            path = self._map.path(layers.pop("greedy"))
            shapes = self._shapes()
            kept = {
                name: np.clip(layer, -_LARGEST, _LARGEST).astype(np.float16)
                for name, layer in layers.items()
                if name in shapes
            }
            visits = np.minimum(self._visits[:, self._number], 2**31 - 1).astype(np.int32)
            self._visits[:] = 0
            content |= {
                "path": path,
                "maps": {name: snapshots.packed(x) for name, x in {"visits": visits, **kept}.items()},
            }
        self.due, self.latest = self.after(clock.episodes), clock.episodes
        return snapshots.line(content)

    def after(self, episode: int) -> int:
        """The episode of the snapshot after `episode`."""
        count = 0 if self._map is None else len(self._map.states)
        gap, pace = math.ceil(_GAP * max(1.0, count / _CHEAP_STATES)), max(1.0, count / _USUAL_STATES)
        return next_moment(episode, self._episodes, gap=gap, pace=pace, every=self._every)

    def added_to(self, saved: Saved) -> Saved:
        """A checkpoint's content with the recorder's state added."""
        self.count_visits()
        arrays = {_VISITS: self._visits.copy(), _MOMENTS: np.asarray([self.due, self.latest, self._every or 0])}
        return saved._replace(arrays=saved.arrays | arrays)

    def restore(self, saved: Saved, clock: Clock) -> None:
        """Continues from a checkpoint; starts now if the run was not recorded so far."""
        if _VISITS in saved.arrays:
            self._visits = saved.arrays[_VISITS].copy()
            self.due, self.latest, every = saved.arrays[_MOMENTS].tolist()
            self._every = every or None
        else:
            self.due = clock.episodes


def _map_of(spec: EnvSpec) -> Map | None:
    here = maps.find(spec)
    return None if here is None or len(here.states) > _MOST_STATES else here


@lru_cache(maxsize=8)
def _programs(agent: Agent, spec: EnvSpec) -> _Programs:
    """Shared by runs that differ only in their seed."""
    examiner, here = agent.examiner, _map_of(spec)
    assert examiner is not None
    exploiters = examiner.exploiters or 1  # without exploiters, the explorer learns the task

    def quantiles(learner: State, key: Key, step: Array) -> tuple[Array, Array, Array]:
        keys = jax.random.split(jax.random.fold_in(key, step), _BATCHES)
        batch = jax.tree.map(
            lambda x: x.reshape(-1, *x.shape[2:]), jax.vmap(lambda k: examiner.remembered(learner, k))(keys)
        )
        seen = examiner.examine(learner, batch)
        at = jnp.asarray(QUANTILES)
        mean_td = jnp.mean(seen.td[:exploiters], axis=0)
        return jnp.quantile(seen.bonus, at), jnp.quantile(mean_td, at), jnp.quantile(jnp.abs(mean_td), at)

    def layers(learner: State) -> dict[str, Array]:
        assert here is not None
        count, actions = here.following.shape
        observed = jnp.asarray(np.append(here.states, spec.num_states or 0), jnp.int32)
        following, rewards, discounts = map(jnp.asarray, (here.following, here.rewards, here.discounts))

        def of_action(action: Array) -> Examined:
            """One action in every state: a batch of S at a time, which needs little memory."""
            o_t = observed[following[:, action]]
            taken = jnp.full(count, action, jnp.int32)
            transitions = Transition(observed[:-1], taken, rewards[:, action], discounts[:, action], o_t, {})
            return examiner.examine(learner, transitions)

        seen = jax.lax.map(of_action, jnp.arange(actions))
        q, td = jnp.moveaxis(seen.q, 0, -1), jnp.moveaxis(seen.td, 0, -1)  # [H, S, A]
        mean = jnp.mean(q[:exploiters], axis=0)
        return {
            "value": jnp.max(mean, axis=1),
            "greedy": jnp.argmax(mean, axis=1),
            "sigma": _disagreement(td[:exploiters]),
            "spread": jnp.stack([_disagreement(q[: examiner.exploiters]), _disagreement(q[examiner.exploiters :])]),
            "bonus": jnp.max(seen.bonus, axis=0),
        }

    return _Programs(jax.jit(quantiles), jax.jit(layers))


def _disagreement(x: Array) -> Array:
    """[H, S, A] -> [S]; zero with fewer than two heads."""
    if x.shape[0] < 2:
        return jnp.zeros(x.shape[1])
    return jnp.max(jnp.std(x, axis=0, ddof=1), axis=-1)


def _numbers(quantiles: np.ndarray) -> list[float] | None:
    return [float(f"{x:.6g}") for x in quantiles.tolist()] if np.isfinite(quantiles).all() else None
