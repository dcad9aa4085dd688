"""What the processes of a run on a Ray cluster say to each other, and how one finds the other that serves.

What a rollout hands over has the rollout's name, which nobody had before it, and a number: whatever was handed over before is
refused, so it may be handed over again whenever the answer got lost. Stacks of frames travel with every frame once.
"""

import time
from typing import Any, NamedTuple

from tdu import agents, environments
from tdu.agents.r2d2 import frames
from tdu.agents.r2d2.agent import RecurrentAgent
from tdu.agents.r2d2.sequences import Sequence, Steps
from tdu.run.folder.records import RunConfig
from tdu.types import EnvSpec

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


def lightened(spec: EnvSpec, sequence: Sequence) -> Sequence:
    """A sequence as it travels."""
    if not spec.is_stacked:
        return sequence
    thin = frames.thin(sequence.steps.observation[:, None])
    return sequence._replace(steps=sequence.steps._replace(observation=thin))


def arrived(steps: Steps) -> Steps:
    """Steps that have travelled, [T, B, …], or [T, …] of one sequence, with their observations whole."""
    if not isinstance(steps.observation, frames.Thin):
        return steps
    stacks = frames.whole(steps.observation)
    return steps._replace(observation=stacks[:, 0] if steps.action.ndim == 1 else stacks)


class Served:
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


def make_agent(config: RunConfig, spec: EnvSpec) -> RecurrentAgent:
    """The agent of a run."""
    made = agents.find(config.agent).make(spec, agents.configure(config.agent, config.config))
    assert isinstance(made, RecurrentAgent)
    return made


def slack(config: RunConfig, agent: RecurrentAgent) -> int:
    """Steps that acting may be ahead of learning: two learning steps, and what every rollout has at hand."""
    assert config.actors is not None
    return 2 * agent.settings.learn_period + config.actors * config.num_envs * agent.settings.rollout


def spec_of(config: RunConfig) -> EnvSpec:
    made = environments.make(config.env, config.seed)
    environments.close(made)
    return made.spec
