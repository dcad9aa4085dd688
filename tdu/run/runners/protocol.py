"""A runner advances a run, can be saved and restored, and keeps the run's clock. `run.loop` drives it."""

import abc
import contextlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from tdu.agents.r2d2.agent import RecurrentAgent
from tdu.environments.vector import Plain
from tdu.errors import TrainingError
from tdu.metrics import Metrics
from tdu.run.runners import mastery
from tdu.run.runners.meter import Episode
from tdu.run.runners.rows import Progress, Row
from tdu.run.runners.stepped import SteppedEnvironments
from tdu.run.trained import Played, TrainedAgent, play
from tdu.types import Agent, EnvSpec, Params, State


class Budget(NamedTuple):
    """When a run ends: after a number of episodes or of environment steps, whichever comes first; None is no limit.

    Environments that are stepped together are stepped to the end of the round.
    """

    episodes: int | None
    steps: int | None = None

    def spent(self, clock: "Clock") -> bool:
        return self.has_episodes(clock.episodes) or (self.steps is not None and clock.steps >= self.steps)

    def has_episodes(self, episodes: int) -> bool:
        return self.episodes is not None and episodes >= self.episodes


class Clock(NamedTuple):
    """Environment steps taken and episodes finished. Python integers do not overflow."""

    steps: int
    episodes: int


class Saved(NamedTuple):
    """A run between two calls of `advance`."""

    state: State
    """A pytree of arrays whose structure, shapes and types never change during the run."""
    arrays: dict[str, np.ndarray]
    """Arrays of any length."""
    plain: Plain
    """What JSON can hold."""
    segments: Mapping[str, Callable[[], dict[str, np.ndarray]]] = {}
    """Arrays that do not fit in memory together: each function returns its own. A name always has the same content."""


class Gone(Exception):
    """What was to be saved is lost because the process that held it has died. Saving can be tried again."""


class Trace(NamedTuple):
    """States that were visited one after the other, [T], and the head that acted in each, [T]."""

    states: np.ndarray
    heads: np.ndarray


class Runner(abc.ABC):
    """A run of an agent on an environment. Subclasses implement `_advance`, `_save`, `_restore` and `params`."""

    is_concurrent = False
    """Whether other processes continue the run between two calls of `advance`."""
    notes: tuple[str, ...] = ()
    """Messages for the user before the run starts."""

    def __init__(
        self,
        spec: EnvSpec,
        agent: Agent | RecurrentAgent,
        budget: Budget,
        until: mastery.Until,
        environments: SteppedEnvironments | None = None,
    ):
        self.spec, self._budget, self._until = spec, budget, until
        self._reducers = agent.reducers
        self._environments = environments  # those in Python; None for environments without state of their own
        self.exact = environments is None or environments.env.exact
        """Whether a restored run continues as if never interrupted; where not, its environments begin new episodes."""
        self._steps = 0  # environment steps taken
        self.progress = Progress(spec, agent.discount)  # totals over the finished episodes
        self._learner_rows: list[Row] = []

    @property
    def finished(self) -> bool:
        return self.progress.has_reached(self._until) or self._budget.spent(self.clock)

    @property
    def may_end_early(self) -> bool:
        """Whether the task has a goal at which the run ends."""
        return self._until != "budget" and self.spec.solved is not None

    @property
    def clock(self) -> Clock:
        return Clock(steps=self._steps, episodes=self.progress.episode)

    def advance(self, upto_episode: int | None = None) -> list[Row]:
        """Runs some steps, not beyond the end of that episode where possible; returns the rows of finished episodes."""
        before = self._steps
        rows = self._advance(upto_episode)
        self._check_advanced(before)
        return rows

    @abc.abstractmethod
    def _advance(self, upto_episode: int | None) -> list[Row]: ...

    def _check_advanced(self, steps_before: int) -> None:
        if self._steps == steps_before:
            raise TrainingError(f"the run does not advance after episode {self.progress.episode}; start it again.")

    def _log_episode(
        self, episode: Episode, metrics: Metrics, greedy_depth: Callable[[], int] = lambda: 0
    ) -> list[Row]:
        """The row of an episode; none if the run was over before, as may be where several end at once."""
        if self.progress.has_reached(self._until) or self._budget.has_episodes(self.progress.episode):
            return []
        return [self.progress.row(episode, metrics, greedy_depth)]

    def learner_rows(self) -> list[Row]:
        """New rows of learner.csv: one for every thousand steps or so."""
        rows, self._learner_rows = self._learner_rows, []
        return rows

    def status(self) -> str:
        """What a progress line adds for this run; may be empty."""
        return ""

    @property
    def can_save(self) -> bool:
        """Whether there is a state to save yet."""
        return True

    def save(self) -> Saved:
        """The run as it is now."""
        saved = self._save()
        return saved._replace(plain=saved.plain | {"steps": self._steps, "progress": self.progress.to_plain()})

    def restore(self, saved: Saved) -> None:
        """Restores what `save` returned. Environments that cannot be restored begin new episodes."""
        self._steps = saved.plain["steps"]
        self.progress.restore(saved.plain["progress"])
        self._restore(saved)

    @abc.abstractmethod
    def _save(self) -> Saved: ...

    @abc.abstractmethod
    def _restore(self, saved: Saved) -> None: ...

    @abc.abstractmethod
    def params(self, saved: Saved | None = None) -> Params:
        """What the trained agent acts on: now, or when it was saved."""

    def play(self, env: object, trained: TrainedAgent, *, episodes: int, longest: int) -> Played:
        """Evaluation episodes on an environment, given by its id or as an object."""
        return play(env, trained, episodes=episodes, longest=longest)

    def attach(self, *, event: Callable[[str], None], reload: Callable[[Saved], Saved | None]) -> None:
        """Called before the first step, for a run in several processes.

        `event` reports what happens to them. `reload` reads the last checkpoint, given an example of one.
        """
        del event, reload

    def borrow_environment(self) -> contextlib.AbstractContextManager[None]:
        """Within it, the environment can be used by others; afterwards it is as it was."""
        return contextlib.nullcontext() if self._environments is None else self._environments.borrowed()

    def close(self) -> None:
        """Releases the resources of the run."""
        if self._environments is not None:
            self._environments.env.close()
