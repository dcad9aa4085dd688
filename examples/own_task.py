"""Your own task: a Gymnasium environment, and five lines that train on it until the policy is good.

    python examples/own_task.py [SEED]

A room of 5 × 5 cells has a key in one corner and a door in another. Opening the door with the key is the only reward. A
random walk finds it in one of forty episodes.
"""

import sys

import gymnasium
from gymnasium import spaces


class Room(gymnasium.Env):
    """Fetch the key, open the door. The observation is one number: the cell, and whether the key was picked up."""

    observation_space = spaces.Discrete(2 * 25)
    action_space = spaces.Discrete(4)  # up, down, left, right

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.row, self.column, self.has_key, self.time = 0, 0, False, 0
        return self._observation(), {}

    def step(self, action):
        down, right = ((-1, 0), (1, 0), (0, -1), (0, 1))[action]
        self.row = min(max(self.row + down, 0), 4)
        self.column = min(max(self.column + right, 0), 4)
        self.time += 1
        self.has_key = self.has_key or (self.row, self.column) == (0, 4)
        opened = self.has_key and (self.row, self.column) == (4, 0)
        return self._observation(), float(opened), opened, self.time >= 40, {}

    def _observation(self):
        return 25 * self.has_key + 5 * self.row + self.column


if __name__ == "__main__":
    import tdu

    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    run = tdu.train(Room(), seed=seed, evaluate_every=20, until_return=0.95)
    print(run)
    print("the trained policy returns", run.result["greedy_return"]["mean"])
    print("in the first cell it goes", ("up", "down", "left", "right")[run.agent.act(0)])
