"""Messages between the processes of a run on a Ray cluster, and how a process finds the one that serves.

A rollout's message has the rollout's name, which no rollout before it had, and a number. The replay refuses a message that
it has already received, so a message can be sent again whenever its answer was lost. Stacks of frames are sent with every
frame once.
"""

import time
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tdu import agents, environments
from tdu.agents.r2d2 import frames
from tdu.agents.r2d2.agent import RecurrentAgent
from tdu.agents.r2d2.sequences import Sequence, Steps
from tdu.run.folder.records import RunConfig
from tdu.run.runners.meter import Episode
from tdu.types import EnvSpec

if TYPE_CHECKING:
    from ray import ObjectRef
    from ray.actor import ActorHandle

Ref: TypeAlias = "ObjectRef[Any]"
"""A reference to a result that a process is working on."""
Handle: TypeAlias = "ActorHandle[Any]"
"""Ray's handle of a process."""

ELSEWHERE = "elsewhere"
"""The answer of a process that does not serve."""


Version = tuple[int, int]
"""Of weights: the learner's life and its learning steps."""

Stored = dict[str, int | None]
"""Numbers that describe the replay, by name."""


class Rolled(NamedTuple):
    """The message of a rollout to the replay. The driver gets it without the sequences."""

    rollout: int
    number: int
    """1, 2, … within this rollout."""
    steps: int
    """Environment steps taken since the message before."""
    episodes: list[Episode]
    """Those that ended; their `steps` count from the message before."""
    sequences: list[Sequence]


class Counters(NamedTuple):
    """The counters that a replay starts with."""

    steps: int
    received: dict[int, int]
    """The last number of every rollout."""
    learns_from: int | None
    """Environment steps before learning began."""
    updates: int


def pack(spec: EnvSpec, sequence: Sequence) -> Sequence:
    if not spec.is_stacked:
        return sequence
    packed = frames.pack(sequence.steps.observation[:, None])
    return sequence._replace(steps=sequence.steps._replace(observation=packed))


def unpack(steps: Steps) -> Steps:
    """Received steps, [T, B, …], or [T, …] of one sequence, with their observations whole."""
    if not isinstance(steps.observation, frames.PackedStacks):
        return steps
    stacks = frames.unpack(steps.observation)
    return steps._replace(observation=stacks[:, 0] if steps.action.ndim == 1 else stacks)


class Service:
    """Several processes of one kind, of which one serves, for the processes that call it."""

    def __init__(self, handles: list[Handle]):
        import ray

        self._ray, self._handles, self._at = ray, handles, 0

    def call(self, method: str, *arguments: object) -> Ref:
        return self._handles[self._at].call.remote(method, *arguments)

    def result(self, reference: Ref) -> Any:
        """The result; ELSEWHERE if that process does not serve or is dead. The next call then goes to another one."""
        try:
            found = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError:
            raise
        except self._ray.exceptions.RayError:
            found = ELSEWHERE
        if isinstance(found, str):
            self._at = (self._at + 1) % len(self._handles)
            time.sleep(0.1)
        return found


def make_agent(config: RunConfig, spec: EnvSpec) -> RecurrentAgent:
    made = agents.find(config.agent).make(spec, agents.configure(config.agent, config.config))
    assert isinstance(made, RecurrentAgent)
    return made


def slack(config: RunConfig, agent: RecurrentAgent) -> int:
    """Steps that acting may be ahead of learning: two learning steps, and a roll of every rollout."""
    assert config.actors is not None
    return 2 * agent.config.learn_period + config.actors * config.num_envs * agent.config.rollout


def spec_of(config: RunConfig) -> EnvSpec:
    made = environments.make(config.env, config.seed)
    environments.close(made)
    return made.spec
