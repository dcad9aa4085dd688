"""Processes that runs are given to: what they print, how they end, what they send back; local, and on a real Ray cluster."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import tdu

OURS = os.pathsep.join(filter(None, (str(Path(tdu.__file__).parents[1]), os.environ.get("PYTHONPATH"))))


USERS_FOLDER = {
    "ray.py": "raise ImportError('the wrong ray')",
    "numpy.py": "raise ImportError('the wrong numpy')",
    "jax.py": "raise ImportError('the wrong jax')",
    "parts.py": "SIZE = 4",
    "mine.py": """
        import gymnasium, sys
        import parts

        class Talks(gymnasium.Wrapper):
            def step(self, action):
                sys.stdout.buffer.write(b"\\xff")
                return self.env.step(action)

        def make():
            assert open("parts.py").read() == "SIZE = 4"
            return Talks(gymnasium.make("FrozenLake-v1", map_name=f"{parts.SIZE}x{parts.SIZE}"))
    """,
}


@pytest.fixture
def users_folder(tmp_path):
    folder = tmp_path / "user"
    folder.mkdir()
    for name, text in USERS_FOLDER.items():
        (folder / name).write_text(textwrap.dedent(text))
    return folder


def run_in(folder, *arguments, timeout=200, **variables):
    """Python as a console script runs it: the working folder is not on its path."""
    ended = subprocess.run(
        [sys.executable, "-P", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": OURS} | variables,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert "Traceback" not in ended.stderr
    return ended


def test_installed_packages_come_before_a_user_s_modules(users_folder):
    look = "from tdu.environments import python; python.see_current_folder(); import parts, ray; ray.init"
    ended = run_in(users_folder, "-c", look)
    assert ended.returncode == 0
