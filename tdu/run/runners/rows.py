"""Rows of the logs, the same from every runner, in memory and on disk: log.csv has one per episode, learner.csv one per
thousand steps or so with every metric of the learner.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tdu.metrics import UPDATES, Metrics, Reducers
from tdu.run.runners import mastery
from tdu.run.runners.meter import Episode, value_of_ever
from tdu.types import EnvSpec

Row = dict[str, Any]


class Column(NamedTuple):
    """A column of a log."""

    name: str
    whole: bool
    """Whether its numbers are whole, from 0 to `most`."""
    most: int = 2**53

    def number(self, value: Any) -> float:
        return int(value) if self.whole else real(value)


def real(value: Any) -> float:
    """A number in double precision that prints like the given one: 0.1 in single precision becomes 0.1."""
    return float(str(np.asarray(value)[()]))


WALL_TIME = "seconds"
"""The only column in which two runs of one seed differ."""

STANDARD = (
    Column("episode", whole=True),
    Column("steps", whole=True),
    Column("episode_len", whole=True),
    Column("episode_return", whole=False),
    Column("total_return", whole=False),
    Column("head", whole=True, most=2**16),
    Column("bonus", whole=False),
    Column("loss", whole=False),
    Column("largest_q", whole=False),
)
"""bsuite's standard columns, the acting head, and over the episode's learning steps mean bonus, mean loss and largest |Q|."""

_OTHER_COUNTS = (
    "total_bad_episodes", "diagonal_depth", "greedy_depth", "updates",
     "evaluation_episodes", "frames", "learning_steps", "sequences",
)  # fmt: skip

_BY_NAME = {c.name: c for c in (*STANDARD, *(Column(name, whole=True) for name in _OTHER_COUNTS))}


def column(name: str) -> Column:
    """The column of that name; it holds real numbers unless it is listed above."""
    return _BY_NAME.get(name, Column(name, whole=False))


def columns(spec: EnvSpec) -> tuple[Column, ...]:
    """The columns of log.csv for an environment."""
    depth = ("greedy_depth",) if spec.optimal_path else ()
    return (*STANDARD, *map(column, (*spec.info_names, *depth)), column(WALL_TIME))


def plain_row(row: Row, its_columns: tuple[Column, ...]) -> Row:
    return {c.name: c.number(row[c.name]) for c in its_columns}


def learner_row(steps: int, reducers: Reducers, totals: Metrics, **counts: int) -> list[Row]:
    """The row of learner.csv for the learning steps of the totals; none if there were none."""
    updates = int(totals[UPDATES])
    return [{"steps": steps, UPDATES: updates, **reducers.summary(totals), **counts}] if updates else []


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
        self.totals: dict[str, float] = dict.fromkeys(spec.info_names, 0)  # the environment's own counts
        self.greedy_depth = 0  # at the last check (`runners.mastery`)
        self.checks_passed = 0  # checks in a row that the greedy policy has passed
        self.mastered_episode: int | None = None
        self.largest_return = 0.0  # largest possible return of any episode, from its rewards alone
        self.largest_extra = 0.0
        """Largest bonus of a step, where the heads that learn the task are paid one (the metric of that name)."""
        self.first_q: float | None = None
        """Largest |Q| of the first episode with learning steps, in the unit of values: the size of priors and weights."""
        self.reward_unit = 1.0  # the unit of values, where the agent adapts it to the rewards (the metric of that name)

    @property
    def possible_return(self) -> float:
        """The largest value that the rewards and bonuses so far can explain."""
        return self.largest_return + value_of_ever(self.largest_extra, self._gamma)

    def row(self, episode: Episode, metrics: Metrics, greedy_depth: Callable[[], int] = lambda: 0) -> Row:
        """Counts a finished episode and returns its row of log.csv.

        `metrics` is a summary over its learning steps. `greedy_depth` is called where a check of mastery is due.
        """
        self.reward_unit = float(metrics.get("reward_unit", 0.0)) or self.reward_unit
        if self.first_q is None and metrics["largest_q"] > 0:
            self.first_q = float(metrics["largest_q"]) / self.reward_unit
        self.add(float(episode.episode_return), episode.bad, learned=self.first_q is not None)
        self.largest_return = max(self.largest_return, float(episode.possible_return))
        self.largest_extra = max(self.largest_extra, float(metrics.get("largest_extra", 0.0)))
        self.totals = episode.totals
        if self._spec.optimal_path and self.episode % mastery.PERIOD == 0:
            self.check(greedy_depth())
        standard = {
            "episode": self.episode,
            "steps": episode.steps,
            "episode_len": episode.length,
            "episode_return": episode.episode_return,
            "total_return": self.total_return,
            "head": episode.head,
            **{name: metrics[name] for name in ("bonus", "loss", "largest_q")},
        }
        return standard | self.totals | {"greedy_depth": self.greedy_depth}

    def check(self, greedy_depth: int) -> None:
        """Counts a check: the depth of the greedy policy after the last episode."""
        self.greedy_depth = greedy_depth
        self.checks_passed = self.checks_passed + 1 if greedy_depth == len(self._spec.optimal_path) else 0
        if self.mastered_episode is None and self.checks_passed >= mastery.CHECKS:
            self.mastered_episode = self.episode

    def has_reached(self, until: mastery.Until) -> bool:
        return mastery.is_reached(until, self._spec, self.solved_episode, self.mastered_episode)

    def add(self, episode_return: float, bad: bool, *, learned: bool = True) -> None:
        """Counts a finished episode. A streak of successes begins after something was learned."""
        self.episode += 1
        self.total_return += float(episode_return)
        self.total_bad += int(bad)
        self.streak = self.streak + 1 if learned and not bad else 0
        rule = self._spec.solved
        if rule and self.solved_episode is None and rule(self.total_bad, self.episode, self.streak):
            self.solved_episode = self.episode

    def to_plain(self) -> dict[str, Any]:
        """The totals in a form that JSON holds exactly."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def restore(self, plain: dict[str, Any]) -> None:
        for name in self.to_plain():
            setattr(self, name, plain[name])
