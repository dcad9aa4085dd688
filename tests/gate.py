"""A user's environment that waits in the middle of a run, so that a test can interrupt even a fast run there."""

import time

_CODE = """
import os, time
import gymnasium

class Gate(gymnasium.Wrapper):
    episodes = 0

    def reset(self, **settings):
        self.episodes += 1
        if self.episodes == 20:
            open(f"waiting-{os.getpid()}", "w").close()
            while not os.path.exists("open"):
                time.sleep(0.05)
        return self.env.reset(**settings)

def make():
    return Gate(gymnasium.make("FrozenLake-v1"))
"""


def gated(folder):
    """A folder in which runs on `python:gate:make` wait until a file `open` exists."""
    (folder / "gate.py").write_text(_CODE)
    return folder


def wait_for_runs(process, folder):
    """Waits until a run is at the gate; returns the process ids of all runs there."""
    for _ in range(6000):
        assert process.poll() is None, process.communicate()
        waiting = [int(path.name.partition("-")[2]) for path in folder.glob("waiting-*")]
        if waiting:
            return waiting
        time.sleep(0.1)
    raise AssertionError("no run has begun")
