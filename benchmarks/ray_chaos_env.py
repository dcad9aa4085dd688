"""A small task for `ray_chaos.py`. It records every step in a file and gives every episode a unique return."""

import fcntl
import os
from pathlib import Path

import gymnasium
import numpy as np

LENGTH = 10
BOOKS = "TDU_CHAOS_BOOKS"
"""The environment variable with the folder of records."""
UNIT = 2.0**-20
"""An episode's return is its number times this, which is exact in float32 for the first 16 million."""


class Booked(gymnasium.Env):  # type: ignore[misc]
    """A task without anything to learn; ten steps per episode."""

    observation_space = gymnasium.spaces.Box(-1, 1, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self) -> None:
        self._books = Path(os.environ[BOOKS])
        self._steps = open(self._books / f"steps-{os.getpid()}-{id(self)}", "ab", buffering=0)  # noqa: SIM115
        self._t = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._t = 0
        return self._seen(), {}

    def step(self, action):
        self._t += 1
        self._steps.write(b".")
        over = self._t == LENGTH
        return self._seen(), self._number() * UNIT if over else 0.0, over, False, {}

    def _seen(self):
        return self.np_random.uniform(-1, 1, 4).astype(np.float32)

    def _number(self) -> int:
        """The next episode number, counted over all processes."""
        with open(self._books / "episodes", "a+b") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            f.write(b".")
            f.flush()
            return os.fstat(f.fileno()).st_size


def make() -> Booked:
    return Booked()
