"""Small Gymnasium environments for tests. They have their own file so that a subprocess imports nothing else."""

import gymnasium
import numpy as np
from gymnasium import spaces


class Diary(gymnasium.Env):
    """Observations are (row, episode, step, episode length), so a transition that crosses episodes is visible.

    Episodes have 2 to 5 steps, drawn from the seed. Even-numbered episodes end by a time limit.
    """

    action_space = spaces.Discrete(2, start=1)
    observation_space = spaces.Box(-1, 2**20, (4,), np.float32)

    def __init__(self, row=0, *, endless=False, repeatable=True):
        self.row, self.endless, self.repeatable = row, endless, repeatable
        self.seeds, self.closed, self.episode = [], 0, 0

    def observe(self):
        return np.array([self.row, self.episode, self.time, self.length], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seeds.append(seed)
        self.episode, self.time = self.episode + 1, 0
        generator = self.np_random if self.repeatable else np.random.default_rng()
        self.length = 10**6 if self.endless else int(generator.integers(2, 6))
        if not self.repeatable:
            self.length += int(generator.integers(1000))
        return self.observe(), {}

    def step(self, action):
        assert action in (1, 2)
        self.time += 1
        over = self.time == self.length
        return self.observe(), float(action), over and self.episode % 2 == 1, over and self.episode % 2 == 0, {}

    def close(self):
        self.closed += 1


class Sign(gymnasium.Env):
    """Name the sign that is shown, one of two. A right answer is worth 1. A constant answer is right half of the time."""

    action_space = spaces.Discrete(2)
    observation_space = spaces.Box(-1, 1, (4,), np.float32)

    def show(self):
        self.sign = int(self.np_random.integers(2))
        return np.array([2.0 * self.sign - 1, 0, 0, 0], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.show(), {}

    def step(self, action):
        reward, self.time = float(action == self.sign), self.time + 1
        return self.show(), reward, self.time == 2, False, {}


class Corridor(gymnasium.Env):
    """Five cells with a reward of 1 at the right end. `see` turns a cell into an observation."""

    action_space = spaces.Discrete(2)

    def __init__(self, space=None, see=None):
        self.observation_space = spaces.Discrete(5) if space is None else space
        self._see = int if see is None else see
        self.resets = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell, self.time = int(self.np_random.integers(2)), 0
        self.resets += 1
        return self._see(self.cell), {}

    def step(self, action):
        self.cell, self.time = max(self.cell + 2 * int(action) - 1, 0), self.time + 1
        there = self.cell == 4
        return self._see(self.cell), float(there), there, self.time >= 9, {}


SEVERAL = spaces.Dict(
    compass=spaces.Discrete(4, start=1),
    camera=spaces.Box(0, 255, (2, 2), np.uint8),
    arms=spaces.Tuple((spaces.MultiDiscrete([2, 3]), spaces.Box(-1, 1, (1,)))),
    mission=spaces.Text(20),
)


def several(cell):
    arms = (np.array([1, cell % 3]), np.array([0.5], np.float32))
    return {"compass": 1 + cell % 4, "camera": np.full((2, 2), 51, np.uint8), "arms": arms, "mission": "go"}
