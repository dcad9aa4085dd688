"""Processes that runs are given to: what they print, how they end, what they send back; local, and on a real Ray cluster."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

import tdu
from tdu.runners import parallel

REPORT = {
    "episode": 1,
    "episodes": 2,
    "return": 0.5,
    "regret": None,
    "bonus": 0,
    "steps_per_second": 9,
    "seconds_left": 1,
}
OURS = os.pathsep.join(filter(None, (str(Path(tdu.__file__).parents[1]), os.environ.get("PYTHONPATH"))))


def run_scripts(folder, scripts, *, tell=lambda name, report: None, **settings):
    """The outcomes of Python scripts in place of runs; or what `run_all` raised. One that hangs is a failure."""
    jobs = []
    for name, text in scripts.items():
        (folder / f"{name}.py").write_text("import json, os, signal, subprocess, sys, time\n" + textwrap.dedent(text))
        jobs.append(parallel.Job(name, [str(folder / f"{name}.py"), json.dumps(REPORT), str(folder)], folder / name))
    found = []

    def run():
        try:
            found.append(
                parallel.run_all(jobs, tell=tell, command=lambda job: [sys.executable, *job.arguments], **settings)
            )
        except BaseException as e:
            found.append(e)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(60)
    assert found, "the sweep hangs"
    return found[0]


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_run_may_print_anything(tmp_path):
    told = []
    script = """
        for _ in range(3000):
            sys.stdout.buffer.write(b"\\xff no text" * 10 + b"\\n")
            sys.stderr.buffer.write(b"\\xfe" * 100)
        print("[" * 100_000)
        print(sys.argv[1], flush=True)
        sys.stderr.write("\\ntdu: the last\\nwords.\\n")
        sys.exit(3)
    """
    (outcome,) = run_scripts(tmp_path, {"run": script}, tell=lambda *words: told.append(words), done=lambda o: None)
    assert told == [("run", REPORT)]
    assert outcome.code == 3
    assert outcome.words.endswith("\N{REPLACEMENT CHARACTER} tdu: the last words.")


def test_only_a_report_is_one():
    assert parallel.parse_report(json.dumps(REPORT)) == REPORT
    for odd in ({"episodes": 0}, {"episode": "1"}, {"return": None}, {"seconds_left": []}):
        assert parallel.parse_report(json.dumps(REPORT | odd)) is None
    for text in ("", "3", "[]", '{"episode": 2}', "\N{REPLACEMENT CHARACTER}"):
        assert parallel.parse_report(text) is None


def test_a_run_may_leave_a_process_behind(tmp_path):
    """It holds the pipes open and goes on to print; the run is over all the same, and nothing more is told of it."""
    left = "import os, sys, time\nwhile os.path.exists(sys.argv[2]): print(sys.argv[1], flush=True); time.sleep(0.05)"
    scripts = {
        "parent": f"""
            left = subprocess.Popen([sys.executable, "-c", {left!r}, *sys.argv[1:]])
            open(os.path.join(sys.argv[2], "pid"), "w").write(str(left.pid))
            time.sleep(0.5)
        """,
        "next": "time.sleep(0.5)",
    }
    events = []
    try:
        outcomes = run_scripts(
            tmp_path,
            scripts,
            workers=1,
            tell=lambda name, report: events.append(name),
            done=lambda outcome: events.append("over"),
        )
        assert alive(int((tmp_path / "pid").read_text()))
    finally:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    assert [outcome.code for outcome in outcomes] == [0, 0]
    assert "parent" in events
    assert events[events.index("over") :] == ["over", "over"]


def test_processes_get_time_to_end_and_no_more(tmp_path):
    """One saves its work, and says more than a pipe holds; one ignores what it is told."""
    scripts = {
        "saves": """
            def save(*_):
                print("x" * 300_000, flush=True)
                time.sleep(0.5)
                open(os.path.join(sys.argv[2], "saved"), "w").close()
                sys.exit()
            signal.signal(signal.SIGTERM, save)
            print(sys.argv[1], flush=True)
            time.sleep(100)
        """,
        "stays": """
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            open(os.path.join(sys.argv[2], "pid"), "w").write(str(os.getpid()))
            print(sys.argv[1], flush=True)
            time.sleep(100)
        """,
    }
    told = set()

    def interrupt(name, report):
        told.add(name)
        if len(told) == 2:
            raise KeyboardInterrupt

    begun = time.monotonic()
    raised = run_scripts(tmp_path, scripts, workers=2, tell=interrupt, done=lambda o: None, grace=3)
    assert isinstance(raised, KeyboardInterrupt)
    assert (tmp_path / "saved").exists()
    assert 3 <= time.monotonic() - begun < 30
    assert not alive(int((tmp_path / "pid").read_text()))


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
SMALL = {"hidden_sizes": ["4"], "exploiters": ["2"], "explorers": ["1"], "batch_size": ["4"]}


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


@pytest.mark.parametrize("engine", ["local"])
def test_a_user_s_modules_are_found_and_hide_no_package(users_folder, engine):
    grid = [word for name, (value,) in SMALL.items() for word in ("--grid", f"{name}={value}")]
    sweep = ["-m", "tdu", "sweep", "python:mine:make", "--episodes", "2", "--out", "out", "--engine", engine, *grid]
    ended = run_in(users_folder, *sweep)
    assert ended.returncode == 0, ended.stderr
    assert "1 of 1 runs" in ended.stdout
