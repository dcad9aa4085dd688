"""Random play that finds what is wrong with an environment, before an agent is trained on it."""

import time
from collections.abc import Sequence
from contextlib import closing
from typing import NamedTuple

import numpy as np

from tdu.environments import doubts, make, notes
from tdu.environments.vector import JaxVector, PythonVector, VectorEnvironment
from tdu.errors import EnvironmentFault, several
from tdu.types import Environment, EnvSpec

_REPEATED = 200
"""Steps that are taken again with the same seed and actions."""
_SECONDS = 20.0
"""Longest time of random play."""


class Findings(NamedTuple):
    """What a check found, in sentences."""

    facts: list[str]
    hints: list[str]
    """What may be intended."""
    problems: list[str]


class _Play(NamedTuple):
    """Random steps, in order."""

    observations: list[np.ndarray]
    rewards: list[float]
    ends: list[int]
    """Steps, counted from 1, that ended an episode."""
    seconds: float
    """Time of all steps but the first, which may be compiled."""
    fault: str = ""
    """Why it stopped early."""


def check(env: object, *, steps: int, seed: int = 0) -> Findings:
    """Plays at random, twice with the same seed. `env` is whatever `environments.make` accepts."""
    with closing(_made(env, seed)) as vector:
        first = _play(vector, steps)
        problems = doubts(vector) + ([first.fault] if first.fault else [])
        if not problems:
            again = PythonVector(vector.environments) if isinstance(vector, PythonVector) else _made(env, seed)
            problems += _differences(first, again)
    if isinstance(env, str) and isinstance(vector, PythonVector) and not problems:
        with closing(_made(env, seed)) as anew:
            problems += _differences(first, anew)
    return Findings([*notes(vector.spec), *_facts(vector.spec, first)], _hints(vector.spec, first), problems)


def _made(env: object, seed: int) -> VectorEnvironment:
    made = make(env, seed)
    return JaxVector(made, seed, 1) if isinstance(made, Environment) else made


def _play(vector: VectorEnvironment, steps: int) -> _Play:
    draws = np.random.default_rng(0)
    started = time.perf_counter()
    play = _Play([], [], [], 0.0)
    try:
        play.observations.append(vector.start()[0])
        while len(play.rewards) < steps and time.perf_counter() - started < _SECONDS:
            stepped = vector.step(draws.integers(0, vector.spec.num_actions, vector.size))
            for what, x in (("observation", stepped.after.observation[0]), ("reward", stepped.after.reward[0])):
                if not np.all(np.isfinite(x)):
                    raise EnvironmentFault(
                        f"the {what} of step {len(play.rewards) + 1} is not finite; correct the step."
                    )
            play.observations.append(stepped.now[0])
            play.rewards.append(float(stepped.after.reward[0]))
            play.ends.extend([len(play.rewards)] if 0 in stepped.ended else [])
            if len(play.rewards) == 1:
                started = time.perf_counter()
    except EnvironmentFault as e:
        return play._replace(fault=str(e), seconds=time.perf_counter() - started)
    return play._replace(seconds=time.perf_counter() - started)


def _differences(first: _Play, vector: VectorEnvironment) -> list[str]:
    """Where the environment, made or begun again with the same seed, does something else."""
    second = _play(vector, min(_REPEATED, len(first.rewards)))
    if second.fault:
        return [f"played a second time: {second.fault}"]
    advice = "draw all random numbers from self.np_random, which super().reset(seed=seed) seeds."
    for t, (one, other) in enumerate(zip(first.observations, second.observations, strict=False)):
        if not np.array_equal(one, other):
            return [
                f"with the same seed and actions, the observation after {f'step {t}' if t else 'reset'} differs; {advice}"
            ]
    for t, (r, s) in enumerate(zip(first.rewards, second.rewards, strict=False)):
        if r != s:
            return [f"with the same seed and actions, the reward of step {t + 1} differs; {advice}"]
    return []


def _facts(spec: EnvSpec, play: _Play) -> list[str]:
    seen = f"{spec.num_states} states" if spec.num_states else f"arrays {spec.observation_shape} of {spec.dtype}"
    facts = [f"{spec.name} has {spec.num_actions} actions and observes {seen}."]
    count = len(play.rewards)
    if count > 1:
        facts.append(f"{count:,} random steps were taken, {(count - 1) / play.seconds:,.0f} per second.")
    if play.ends:
        lengths = _lengths(play)
        returns = [sum(play.rewards[end - length : end]) for end, length in zip(play.ends, lengths, strict=True)]
        facts.append(
            f"{several(len(lengths), 'episode')} ended, with {_span(lengths)} steps and a return of {_span(returns)}."
        )
    return facts


def _lengths(play: _Play) -> list[int]:
    """Lengths of the episodes that ended."""
    return [end - begin for begin, end in zip([0, *play.ends], play.ends, strict=False)]


def _span(numbers: Sequence[float]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:,g}" if low == high else f"{low:,g} to {high:,g}"


def _hints(spec: EnvSpec, play: _Play) -> list[str]:
    hints, count = [], len(play.rewards)
    if not count or play.fault:
        return []
    if not play.ends:
        hints.append(
            f"no episode ended in {count:,} steps; if none ever ends, train with --steps or add a time limit "
            "(gymnasium.wrappers.TimeLimit)."
        )
    if not any(play.rewards):
        hints.append(
            f"no reward was found in {count:,} random steps; either it is rare, and the agent has to explore, or it is "
            "missing."
        )
    is_bandit = max(_lengths(play), default=0) == 1
    if not is_bandit and all(np.array_equal(play.observations[0], x) for x in play.observations):
        hints.append("the observation never changed; does step return the new one?")
    if (
        spec.num_states is None
        and len(spec.observation_shape) == 3
        and spec.dtype != "uint8"
        and max(np.abs(x).max() for x in play.observations) > 10
    ):
        hints.append(
            "the observation looks like an image of bytes; give it dtype uint8, which the network divides by 255."
        )
    return hints
