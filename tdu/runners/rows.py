"""The log's rows: one per finished episode, the same from every runner, the same in memory and on the disk."""

from typing import Any, NamedTuple

import numpy as np

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
)
"""bsuite's standard columns, then the acting head and the episode's mean bonus and loss."""

_BY_NAME = {c.name: c for c in (*STANDARD, *(Column(name, whole=True) for name in ("total_bad_episodes", "updates")))}


def column(name: str) -> Column:
    """The column of that name; one that nobody has described holds real numbers."""
    return _BY_NAME.get(name, Column(name, whole=False))


def columns(spec: EnvSpec) -> tuple[Column, ...]:
    """The log's columns for an environment."""
    return (*STANDARD, *map(column, spec.info_names), column(WALL_TIME))


def plain_row(row: Row, its_columns: tuple[Column, ...]) -> Row:
    """A row in Python's own numbers, as the log holds it."""
    return {c.name: c.number(row[c.name]) for c in its_columns}


def learner_row(steps: int, learned: Any) -> list[Row]:
    """A row of the learner's own log: means over its last learning steps (`interaction.Sums`); none where there were none."""
    updates = int(learned.updates)
    if not updates:
        return []
    return [{"steps": steps, "updates": updates, "bonus": learned.bonus / updates, "loss": learned.loss / updates}]


class Progress:
    """Running totals over episodes, in double precision: return, bad episodes, and whether the task is solved."""

    def __init__(self, spec: EnvSpec):
        self._spec = spec
        self.total_return = 0.0
        self.total_bad = 0
        self.streak = 0
        self.episode = 0
        self.solved_episode: int | None = None
        self.totals: dict[str, float] = dict.fromkeys(spec.info_names, 0)
        """Of what the environment counts."""

    def row(
        self,
        *,
        steps: int,
        length: int,
        episode_return: Any,
        head: int,
        bonus: Any,
        loss: Any,
        bad: bool,
        totals: dict[str, Any],
    ) -> Row:
        """Takes in one finished episode and gives its row of the log; `totals` are the environment's, with the episode."""
        self.add(episode_return, bad)
        self.totals = totals
        standard = {
            "episode": self.episode,
            "steps": steps,
            "episode_len": length,
            "episode_return": episode_return,
            "total_return": self.total_return,
            "head": head,
            "bonus": bonus,
            "loss": loss,
        }
        return standard | self.totals

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
        return {name: value for name, value in vars(self).items() if name != "_spec"}

    @classmethod
    def from_plain(cls, spec: EnvSpec, plain: dict[str, Any]) -> "Progress":
        """What `to_plain` gave."""
        progress = cls(spec)
        for name in progress.to_plain():
            setattr(progress, name, plain[name])
        return progress
