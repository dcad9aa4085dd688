"""The log's rows: one per finished episode, the same from every runner, the same in memory and on the disk."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tdu.run.runners import mastery
from tdu.types import EnvSpec

Row = dict[str, Any]


class Column(NamedTuple):
    """A column of a log."""

    name: str
    whole: bool
    """Whether its numbers are whole."""

    def number(self, value: Any) -> float:
        """A value of this column as Python's own number, the very one that its text in a file gives back."""
        return int(value) if self.whole else real(value)


def real(value: Any) -> float:
    """A number in double precision that prints as the given one does: 0.1 in single precision is 0.1."""
    return float(str(np.asarray(value)[()]))


WALL_TIME = "seconds"
"""The only column in which two runs of one seed differ."""

STANDARD = (
    Column("episode", whole=True),
    Column("steps", whole=True),
    Column("episode_len", whole=True),
    Column("episode_return", whole=False),
    Column("total_return", whole=False),
    Column("head", whole=True),
    Column("bonus", whole=False),
    Column("loss", whole=False),
    Column("largest_q", whole=False),
)
"""bsuite's standard columns, the acting head, and of the episode's learning steps mean bonus, mean loss and largest |Q|."""

_OTHER_COUNTS = (
    "total_bad_episodes", "diagonal_depth", "greedy_depth", "updates",
     "evaluation_episodes", "frames", "learning_steps", "sequences",
)  # fmt: skip

_BY_NAME = {c.name: c for c in (*STANDARD, *(Column(name, whole=True) for name in _OTHER_COUNTS))}


def column(name: str) -> Column:
    """The column of that name; one that nobody has described holds real numbers."""
    return _BY_NAME.get(name, Column(name, whole=False))


def columns(spec: EnvSpec) -> tuple[Column, ...]:
    """The log's columns for an environment."""
    depth = ("greedy_depth",) if spec.optimal_path else ()
    return (*STANDARD, *map(column, (*spec.info_names, *depth)), column(WALL_TIME))


def plain_row(row: Row, its_columns: tuple[Column, ...]) -> Row:
    """A row in Python's own numbers, as the log holds it."""
    return {c.name: c.number(row[c.name]) for c in its_columns}


def learner_row(steps: int, learned: Any) -> list[Row]:
    """A row of the learner's own log, of its last learning steps (`interaction.Learned`); none where there were none."""
    updates = int(learned.updates)
    if not updates:
        return []
    means = {"bonus": learned.bonus / updates, "loss": learned.loss / updates}
    return [{"steps": steps, "updates": updates, **means, "largest_q": learned.largest_q}]


def possible_return(reward_size: Any, length: Any, discount: Any, gamma: float) -> Any:
    """The largest value that an episode of rewards like these can have.

    All of them count, undiscounted. One that was cut off (its last discount is not 0) may go on like this for ever.
    """
    return reward_size / (1.0 - (discount > 0) * min(gamma, _NEARLY_ONE) ** length)


_NEARLY_ONE = 1 - 1e-6
"""Stands for γ = 1, with which nothing would limit a value."""


class Progress:
    """Running totals over episodes, in double precision: return, bad episodes, whether the task is solved, and how large
    values can be.
    """

    def __init__(self, spec: EnvSpec, gamma: float):
        self._spec, self._gamma = spec, gamma
        self.total_return = 0.0
        self.total_bad = 0
        self.streak = 0
        self.episode = 0
        self.solved_episode: int | None = None
        self.totals: dict[str, float] = dict.fromkeys(spec.info_names, 0)
        """Of what the environment counts."""
        self.greedy_depth = 0
        """Of the last check (`runners.mastery`)."""
        self.checks_passed = 0
        """The last checks in a row that the greedy policy passed."""
        self.mastered_episode: int | None = None
        self.largest_return = 0.0
        """That was possible in any episode, by its rewards alone."""
        self.largest_extra = 0.0
        """Paid for a step beside the reward, to what learns the task."""
        self.first_largest_q: float | None = None
        """In the first episode that was learned from: what priors and first weights bring with them."""

    @property
    def possible_return(self) -> float:
        """No value should be larger, by the rewards and the bonus seen so far."""
        return self.largest_return + self.largest_extra / (1 - min(self._gamma, _NEARLY_ONE))

    def row(
        self,
        *,
        steps: int,
        length: int,
        episode_return: Any,
        head: int,
        possible_return: Any,
        told: Any,
        bad: bool,
        totals: dict[str, Any],
        greedy_depth: Callable[[], int] = lambda: 0,
    ) -> Row:
        """Takes in one finished episode and gives its row of the log.

        `told` is `interaction.Learned.told`; `totals` are the environment's, with the episode.
        `greedy_depth` is called where a check of mastery is due.
        """
        bonus, loss, largest_q, largest_extra = told
        self.add(episode_return, bad)
        self.largest_return = max(self.largest_return, float(possible_return))
        self.largest_extra = max(self.largest_extra, float(largest_extra))
        if self.first_largest_q is None and largest_q > 0:
            self.first_largest_q = float(largest_q)
        self.totals = totals
        if self._spec.optimal_path and self.episode % mastery.PERIOD == 0:
            self.check(greedy_depth())
        standard = {
            "episode": self.episode,
            "steps": steps,
            "episode_len": length,
            "episode_return": episode_return,
            "total_return": self.total_return,
            "head": head,
            "bonus": bonus,
            "loss": loss,
            "largest_q": largest_q,
        }
        return standard | self.totals | {"greedy_depth": self.greedy_depth}

    def check(self, greedy_depth: int) -> None:
        """Takes in the depth of the greedy policy after the last episode."""
        self.greedy_depth = greedy_depth
        self.checks_passed = self.checks_passed + 1 if greedy_depth == len(self._spec.optimal_path) else 0
        if self.mastered_episode is None and self.checks_passed >= mastery.CHECKS:
            self.mastered_episode = self.episode

    def has_reached(self, until: mastery.Until) -> bool:
        """Whether the run has got to what it goes on for."""
        waits = until == "mastered" and self._spec.optimal_path and self.mastered_episode is None
        return until != "budget" and self.solved_episode is not None and not waits

    def add(self, episode_return: float, bad: bool) -> None:
        """Takes in one finished episode."""
        self.episode += 1
        self.total_return += float(episode_return)
        self.total_bad += int(bad)
        self.streak = 0 if bad else self.streak + 1
        rule = self._spec.solved
        if rule and self.solved_episode is None and rule(self.total_bad, self.episode, self.streak):
            self.solved_episode = self.episode

    def to_plain(self) -> dict[str, Any]:
        """The totals as JSON can hold them, exactly."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    @classmethod
    def from_plain(cls, spec: EnvSpec, gamma: float, plain: dict[str, Any]) -> "Progress":
        """What `to_plain` gave."""
        progress = cls(spec, gamma)
        for name in progress.to_plain():
            setattr(progress, name, plain[name])
        return progress
