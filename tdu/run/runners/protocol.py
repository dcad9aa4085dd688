"""What a run drives: something that advances, can be saved and put back, and keeps a clock of Python's own numbers."""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from tdu.run.runners.rows import Progress, Row
from tdu.types import EnvSpec


class Budget(NamedTuple):
    """When a run ends: after so many episodes or so many environment steps, whichever is first; None is no limit.

    Environments that are stepped together are stepped to the end of the round.
    """

    episodes: int | None
    steps: int | None = None

    def spent(self, clock: "Clock") -> bool:
        """Whether a run that is so far has come to its end."""
        return self.has_episodes(clock.episodes) or (self.steps is not None and clock.steps >= self.steps)

    def has_episodes(self, episodes: int) -> bool:
        """Whether there are as many as there may be."""
        return self.episodes is not None and episodes >= self.episodes


class Clock(NamedTuple):
    """How far a run is. Python's whole numbers do not overflow."""

    steps: int
    episodes: int


class Saved(NamedTuple):
    """A run between two calls of `advance`."""

    state: Any
    """A pytree of arrays whose structure, shapes and types are the same at every moment of the run."""
    arrays: dict[str, np.ndarray]
    """Arrays of any length."""
    plain: dict[str, Any]
    """What JSON can hold."""
    segments: Mapping[str, Callable[[], dict[str, np.ndarray]]] = {}
    """What is too much to be in memory at once: each gives its arrays when asked. One name is one content, for ever."""


class Gone(Exception):
    """What was to be saved is there no more: a process that held it has died. It can be saved anew."""


class Runner(Protocol):
    """A run of an agent on an environment."""

    spec: EnvSpec
    progress: Progress
    """Totals over the finished episodes."""
    exact: bool
    """Whether a run that is put back goes on as if never interrupted; where not, its environments begin new episodes."""
    notes: tuple[str, ...]
    """What is worth saying before it starts."""

    @property
    def finished(self) -> bool:
        """Whether there is nothing left to do."""

    @property
    def clock(self) -> Clock:
        """Environment steps taken and episodes finished."""

    def advance(self, upto_episode: int | None = None) -> list[Row]:
        """Runs some steps, not beyond the end of that episode; the rows of the episodes that ended in them."""

    def learner_rows(self) -> list[Row]:
        """What the learner has told since this was last asked: a row for every thousand steps or so."""

    def status(self) -> str:
        """What a progress line says of this run beside the usual; may be empty."""

    def save(self) -> Saved:
        """The run as it is now."""

    def restore(self, saved: Saved) -> None:
        """Puts back what `save` gave."""

    def params(self, saved: Saved | None = None) -> Any:
        """What the trained agent acts on: now, or as it was saved."""

    def environment_aside(self) -> contextlib.AbstractContextManager[None]:
        """While it lasts, somebody else may use the environment; then it is as it was."""

    def close(self) -> None:
        """Gives up what the environment holds."""


class Trace(NamedTuple):
    """States that were met one after the other, [T], and the head that acted in each, [T]."""

    states: np.ndarray
    heads: np.ndarray


@runtime_checkable
class Traced(Protocol):
    """A runner that can also be looked into, for pictures of a run."""

    traces: bool
    """Whether it keeps which states were met; to be set before the run goes on."""

    def trace(self) -> list[Trace]:
        """The states met since this was last asked, where observations are one-hot."""

    def learner(self) -> Any:
        """The learner's state now, to look at before the run goes on."""


@runtime_checkable
class Remote(Protocol):
    """A runner whose processes live elsewhere, die, and begin again."""

    def attach(self, *, event: Callable[[str], None], reload: Callable[[], Saved | None]) -> None:
        """Whom to tell what happens, and where the last checkpoint is; before the first step."""

    def play(self, params: Any, *, episodes: int, longest: int) -> np.ndarray:
        """Returns of the policy with those parameters, played there while the run goes on."""
