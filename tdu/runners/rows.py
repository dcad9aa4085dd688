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

_BY_NAME = {c.name: c for c in (*STANDARD, Column("total_bad_episodes", whole=True))}


def column(name: str) -> Column:
    """The column of that name; one that nobody has described holds real numbers."""
    return _BY_NAME.get(name, Column(name, whole=False))


def columns(spec: EnvSpec) -> tuple[Column, ...]:
    """The log's columns for an environment."""
    return (*STANDARD, *map(column, spec.info_names), column(WALL_TIME))


def plain_row(row: Row, its_columns: tuple[Column, ...]) -> Row:
    """A row in Python's own numbers, as the log holds it."""
    return {c.name: c.number(row[c.name]) for c in its_columns}


class Progress:
    """Running totals over episodes, in double precision: return, bad episodes, and whether the task is solved."""

    def __init__(self, spec: EnvSpec):
        self._spec = spec
        self.total_return = 0.0
        self.total_bad = 0
        self.streak = 0
        self.episode = 0
        self.solved_episode: int | None = None

    def add(self, episode_return: float, bad: bool) -> None:
        """Takes in one finished episode."""
        self.episode += 1
        self.total_return += real(episode_return)
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
