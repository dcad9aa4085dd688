"""The log's rows: one per finished episode, the same from every runner."""

from typing import Any

import numpy as np

from tdu.types import EnvSpec

STANDARD = ("episode", "steps", "episode_len", "episode_return", "total_return", "head", "bonus", "loss")
"""bsuite's standard columns, then the acting head and the episode's mean bonus and loss."""

WALL_TIME = "seconds"

Row = dict[str, Any]


def columns(spec: EnvSpec) -> tuple[str, ...]:
    """Names of the log's columns for an environment."""
    return (*STANDARD, *spec.info_names, WALL_TIME)


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
        self.total_return += float(episode_return)
        self.total_bad += int(bad)
        self.streak = 0 if bad else self.streak + 1
        rule = self._spec.solved
        if rule and self.solved_episode is None and rule(self.total_bad, self.episode, self.streak):
            self.solved_episode = self.episode

    @classmethod
    def replay(cls, spec: EnvSpec, log: dict[str, np.ndarray]) -> "Progress":
        """The totals after all episodes of a log."""
        progress = cls(spec)
        if not len(log["episode"]):
            return progress
        bad = np.diff(log["total_bad_episodes"], prepend=0) if "total_bad_episodes" in log else log["episode"] * 0
        for episode_return, failed in zip(log["episode_return"], bad, strict=True):
            progress.add(episode_return, bool(failed))
        progress.total_return = float(log["total_return"][-1])
        return progress
