"""A combination lock: a task in which one wrong step leads back to the start.

    python examples/lock.py [SEED]
    cd examples && tdu sweep python:lock:make --grid return_cut=never,worse --seeds 5 --episodes 500 --evaluate-every 20

There are twelve positions with four buttons each, and the only reward comes after the last. With plain n-step returns, a head
counts the wrong buttons that other heads pressed, and the lock stays closed. `return_cut="worse"` excludes those steps
(docs/your-task.md).
"""

import sys

import gymnasium
from gymnasium import spaces

COMBINATION = (2, 0, 3, 1, 1, 0, 2, 3, 0, 1, 3, 2)


class Lock(gymnasium.Env):
    """Press the right button twelve times in a row. The observation is the number of right buttons so far."""

    observation_space = spaces.Discrete(len(COMBINATION) + 1)
    action_space = spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.right, self.time = 0, 0
        return self.right, {}

    def step(self, action):
        self.right = self.right + 1 if action == COMBINATION[self.right] else 0
        self.time += 1
        opened = self.right == len(COMBINATION)
        return self.right, float(opened), opened, self.time >= 60, {}


def make():
    """For the command line: python:lock:make."""
    return Lock()


if __name__ == "__main__":
    import tdu

    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    run = tdu.train(Lock(), seed=seed, return_cut="worse", evaluate_every=20, until_return=0.95)
    print(run)
    print("the combination is", [run.agent.act(right) for right in range(len(COMBINATION))])
