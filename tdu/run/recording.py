"""`--record`: snapshots of what a run's agent knows, at moments that depend on episodes alone.

A snapshot has, of a few hundred transitions that the agent remembers, the quantiles of the bonus and of the TD error. Where
the environment has a map (`environments.maps`), it also has for every state, of single steps whatever `return_steps` is,

    visits [G, S]    times it was met since the snapshot before, by exploiters and by explorers
    sigma  [S]       the exploiters' disagreement about the TD error, of the action on which it is largest; from two on
    bonus  [S]       what the agent pays for the state, if that is not sigma; of the action that is paid most
    spread [G, S]    the heads' disagreement about Q in each group of two at least, of the action on which it is largest
    value  [S]       the largest Q of the exploiters' mean, and with it the path of the greedy policy

Moments are ten episodes or a tenth apart at first and evenly spaced later, so that recording costs little and their number,
and with it the size of the file, is bounded however long the run is. Looking changes nothing: it draws from a key of its own
and learns nothing.
"""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tdu import agents, random
from tdu.agents.r2d2.agent import RecurrentAgent
from tdu.environments import maps
from tdu.environments.maps import Map
from tdu.errors import UserError
from tdu.run.folder import snapshots
from tdu.run.runners.interaction import run_key
from tdu.run.runners.protocol import Clock, Runner, Saved, Traced
from tdu.types import Agent, Array, EnvSpec, Key, State, Transition

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)

EVEN_MOMENTS = 100
"""Of a run whose number of episodes is known."""
GROWTH = 1.1
_GAP = 10
"""Episodes between moments, at least …"""
_CHEAP_STATES, _USUAL_STATES = 500, 1300
"""… on maps up to Deep Sea of size 30; and from size 50 on there are fewer altogether."""
_MOST_STATES = 50_000
"""Larger maps are not recorded."""
_BATCHES = 4
_LARGEST = float(np.finfo(np.float16).max)
_VISITS, _MOMENTS = "record.visits", "record.moments"
"""What a checkpoint holds of a recorder, by name."""


def next_moment(
    episode: int, episodes: int | None, *, gap: int = 1, pace: float = 1.0, every: int | None = None
) -> int:
    """The first moment after an episode, of a run of so many: `gap` apart at least; or `every` so many, to the thousandth."""
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
    """Refuses an agent that cannot be looked into, before anything is made for it."""
    if not agents.find(agent).can_be_recorded:
        raise _cannot(f"agent {agent}")


def _cannot(whom: str) -> UserError:
    return UserError(f"{whom} cannot be recorded: it does not tell its heads' values; leave --record out.")


class _Looks(NamedTuple):
    """What is compiled to look at an agent."""

    quantiles: Any
    layers: Any


class Recorder:
    """What a run records: the visits since the last snapshot, and when the next one is due."""

    def __init__(
        self,
        runner: Runner,
        agent: Agent | RecurrentAgent,
        *,
        seed: int,
        episodes: int | None,
        every: int | None = None,
    ):
        if isinstance(agent, RecurrentAgent) or agent.examiner is None or not isinstance(runner, Traced):
            raise _cannot("this agent")  # one of the user's own, of which nothing was known before
        self._examiner, self._episodes = agent.examiner, episodes
        self._runner: Traced = runner
        self._map = _map_of(runner.spec)
        self._looks = _looks(agent, runner.spec)
        self._key = random.for_use(run_key(seed), random.Use.RECORD)
        self._every = every
        self.due = 0
        """The episode of the next snapshot."""
        self.latest = -1
        """That of the last one."""
        states = (self._map.states.max() + 1) if self._map is not None else 0
        self._visits = np.zeros((2, states), np.int64)
        self._number = np.zeros(0, np.int64) if self._map is None else self._map.states
        runner.traces = self._map is not None

    def about(self) -> snapshots.Json:
        """The first line of the record."""
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

    def look(self) -> None:
        """Counts the states that were met since the last look."""
        for trace in self._runner.trace():
            group = (trace.heads >= self._examiner.exploiters).astype(np.int64)
            met = trace.states < self._visits.shape[1]  # what is seen at the end of an episode is no place
            np.add.at(self._visits, (group[met], trace.states[met]), 1)

    def snapshot(self, clock: Clock) -> bytes:
        """The line of this moment; the visits are counted anew from here."""
        self.look()
        learner = self._runner.learner()
        bonus, td, size = jax.tree.map(
            np.asarray, self._looks.quantiles(learner, self._key, np.uint32(clock.steps % 2**32))
        )
        told: snapshots.Json = {"episode": clock.episodes, "steps": clock.steps}
        told |= {"bonus": _numbers(bonus), "td": _numbers(td), "td_size": _numbers(size)}
        if self._map is not None:
            layers = jax.tree.map(np.asarray, self._looks.layers(learner))
            path = self._map.path(layers.pop("greedy"))
            shapes = self._shapes()
            kept = {name: _half(layer) for name, layer in layers.items() if name in shapes}
            visits = np.minimum(self._visits[:, self._number], 2**31 - 1).astype(np.int32)
            self._visits[:] = 0
            told |= {
                "path": path,
                "maps": {name: snapshots.packed(x) for name, x in {"visits": visits, **kept}.items()},
            }
        self.due, self.latest = self.after(clock.episodes), clock.episodes
        return snapshots.line(told)

    def after(self, episode: int) -> int:
        """The moment that follows one."""
        count = 0 if self._map is None else len(self._map.states)
        gap, pace = math.ceil(_GAP * max(1.0, count / _CHEAP_STATES)), max(1.0, count / _USUAL_STATES)
        return next_moment(episode, self._episodes, gap=gap, pace=pace, every=self._every)

    def added_to(self, saved: Saved) -> Saved:
        """What a checkpoint has to hold, with what the recorder has counted."""
        self.look()
        mine = {_VISITS: self._visits.copy(), _MOMENTS: np.asarray([self.due, self.latest, self._every or 0])}
        return saved._replace(arrays=saved.arrays | mine)

    def restore(self, saved: Saved, clock: Clock) -> None:
        """Goes on from a checkpoint; where the run has not recorded so far, from now on."""
        if is_in(saved):
            self._visits = saved.arrays[_VISITS].copy()
            self.due, self.latest, every = saved.arrays[_MOMENTS].tolist()
            self._every = every or None
        else:
            self.due = clock.episodes


def is_in(saved: Saved) -> bool:
    """Whether a checkpoint is of a run that records."""
    return _VISITS in saved.arrays


def _map_of(spec: EnvSpec) -> Map | None:
    here = maps.find(spec)
    return None if here is None or len(here.states) > _MOST_STATES else here


@lru_cache(maxsize=8)
def _looks(agent: Agent, spec: EnvSpec) -> _Looks:
    """Compiled once for runs that differ in their seed alone."""
    examiner, here = agent.examiner, _map_of(spec)
    assert examiner is not None
    exploiters = examiner.exploiters or 1  # where none does nothing else, the explorer learns the task

    def quantiles(learner: State, key: Key, step: Array) -> tuple[Array, Array, Array]:
        keys = jax.random.split(jax.random.fold_in(key, step), _BATCHES)
        batch = jax.tree.map(
            lambda x: x.reshape(-1, *x.shape[2:]),
            jax.vmap(lambda k: examiner.remembered(learner, k))(keys),
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

        def of_action(action: Array) -> Any:
            """One action in every state: a batch of S at a time, so that little memory is needed."""
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

    return _Looks(jax.jit(quantiles), jax.jit(layers))


def _disagreement(x: Array) -> Array:
    """[H, S, A] -> [S]; nothing where fewer than two could disagree."""
    if x.shape[0] < 2:
        return jnp.zeros(x.shape[1])
    return jnp.max(jnp.std(x, axis=0, ddof=1), axis=-1)


def _half(layer: np.ndarray) -> np.ndarray:
    return np.clip(layer, -_LARGEST, _LARGEST).astype(np.float16)


def _numbers(quantiles: np.ndarray) -> list[float] | None:
    return [float(f"{x:.6g}") for x in quantiles.tolist()] if np.isfinite(quantiles).all() else None
