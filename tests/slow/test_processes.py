"""Processes that execute runs, locally and on a real Ray cluster: their output, their end and what they send back."""

import contextlib
import fcntl
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import zipfile
from pathlib import Path

import pytest

import tdu
from tdu.cluster import sweep as distributed
from tdu.errors import RunError
from tdu.run import folder as runs
from tdu.run import processes as parallel
from tdu.run import sweeps

REPORT = {
    "episode": 1,
    "episodes": 2,
    "steps": 10,
    "most_steps": None,
    "greedy_return": None,
    "greedy_episode": None,
    "greedy_length": None,
    "success_rate": None,
    "seconds": 1.5,
    "share": 0.5,
    "return": 0.5,
    "regret": None,
    "bonus": 0,
    "steps_per_second": 9,
    "seconds_left": 1,
    "greedy_depth": 0,
    "optimal_depth": None,
}
OURS = os.pathsep.join(filter(None, (str(Path(tdu.__file__).parents[1]), os.environ.get("PYTHONPATH"))))


def run_scripts(folder, scripts, *, tell=lambda name, report: None, **settings):
    """The outcomes of Python scripts in place of runs, or what `run_all` raised. Fails if a script hangs."""
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
    thread.join(600)
    assert found, "the sweep hangs"
    return found[0]


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_run_may_print_anything(tmp_path):
    reports = []
    script = """
        for _ in range(3000):
            sys.stdout.buffer.write(b"\\xff no text" * 10 + b"\\n")
            sys.stderr.buffer.write(b"\\xfe" * 100)
        print("[" * 100_000)
        print(sys.argv[1], flush=True)
        sys.stderr.write("\\ntdu: the last\\nwords.\\n")
        sys.exit(3)
    """
    (outcome,) = run_scripts(tmp_path, {"run": script}, tell=lambda *words: reports.append(words), done=lambda o: None)
    assert reports == [("run", REPORT)]
    assert outcome.code == 3
    assert outcome.stderr.endswith("\N{REPLACEMENT CHARACTER} tdu: the last words.")


def test_only_a_report_is_one():
    assert parallel.parse_report(json.dumps(REPORT)) == REPORT
    for odd in ({"steps": None}, {"episode": "1"}, {"share": None}, {"seconds_left": []}):
        assert parallel.parse_report(json.dumps(REPORT | odd)) is None
    for text in ("", "3", "[]", '{"episode": 2}', "\N{REPLACEMENT CHARACTER}"):
        assert parallel.parse_report(text) is None


def test_a_run_may_leave_a_process_behind(tmp_path):
    """The process keeps the pipes open and keeps printing. The run still ends, and nothing more of it is reported."""
    left = "import os, sys, time\nwhile os.path.exists(sys.argv[2]):\n print(sys.argv[1], flush=True); time.sleep(0.05)"
    left += "\n open(os.path.join(sys.argv[2], 'printed'), 'a').close()"
    scripts = {
        "parent": f"""
            left = subprocess.Popen([sys.executable, "-c", {left!r}, *sys.argv[1:]])
            open(os.path.join(sys.argv[2], "pid"), "w").write(str(left.pid))
            while not os.path.exists(os.path.join(sys.argv[2], "printed")):
                time.sleep(0.05)
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


@pytest.mark.parametrize(("script", "grace"), [("saves", 600), ("stays", 1)])
def test_processes_get_time_to_end_and_no_more(tmp_path, script, grace):
    """One process saves its work and prints more than a pipe can hold. The other one ignores the signal."""
    scripts = {
        "saves": """
            def save(*_):
                print("x" * 300_000, flush=True)
                time.sleep(0.5)
                open(os.path.join(sys.argv[2], "saved"), "w").close()
                sys.exit()
            signal.signal(signal.SIGTERM, save)
            print(sys.argv[1], flush=True)
            time.sleep(1000)
        """,
        "stays": """
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            open(os.path.join(sys.argv[2], "pid"), "w").write(str(os.getpid()))
            print(sys.argv[1], flush=True)
            time.sleep(1000)
        """,
    }

    def interrupt(name, report):
        raise KeyboardInterrupt

    begun = time.monotonic()
    chosen = {script: scripts[script]}
    raised = run_scripts(tmp_path, chosen, workers=1, tell=interrupt, done=lambda o: None, grace=grace)
    assert isinstance(raised, KeyboardInterrupt)
    if script == "saves":
        assert (tmp_path / "saved").exists()
    else:
        assert time.monotonic() - begun >= grace
        assert not alive(int((tmp_path / "pid").read_text()))


def packed(**files):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, text in files.items():
            archive.writestr(name.replace("__", "/"), text)
    return data.getvalue()


def test_what_is_sent_back_is_never_mixed_with_what_lies_there(tmp_path):
    out = tmp_path / "sweep" / "run"
    assert distributed._place(packed(), out) == ""
    assert not out.exists()
    sent = packed(**{"config.json": "1", "checkpoints__a": "1"})
    assert distributed._place(sent, out) == ""
    (out / "notes").write_text("mine")
    sentence = distributed._place(packed(**{"config.json": "2", "checkpoints__b": "2"}), out)
    kept = out.parent / "run.before" / "1"
    assert str(out) in sentence
    assert str(kept) in sentence
    assert {p.relative_to(out).as_posix() for p in out.rglob("*")} == {"config.json", "checkpoints", "checkpoints/b"}
    assert {p.name: p.read_text() for p in kept.rglob("*") if p.is_file()} == {
        "config.json": "1",
        "a": "1",
        "notes": "mine",
    }
    assert "run.before/2" in distributed._place(sent, out)
    assert runs.find_runs(out.parent) == [out]
    assert {p.name for p in out.parent.iterdir()} == {"run", "run.before"}


def test_what_is_sent_back_replaces_a_lock_and_nothing_that_is_locked(tmp_path):
    out = tmp_path / "run"
    out.mkdir()
    (out / ".lock").touch()
    with open(out / ".lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(RunError, match=r"in use by another process; .* is in .*run\.sent/1\."):
            distributed._place(packed(**{"log.csv": "1"}), out)
    assert (tmp_path / "run.sent" / "1" / "log.csv").read_text() == "1"
    assert distributed._place(packed(**{"log.csv": "2"}), out) == ""
    assert [(p.name, p.read_text()) for p in out.iterdir()] == [("log.csv", "2")]


@pytest.mark.parametrize("name", ["../escaped", "checkpoints/../../../escaped", "ROOT/escaped"])
def test_what_is_sent_back_stays_in_its_folder(tmp_path, name):
    out = tmp_path / "sweep" / "run"
    with pytest.raises(RunError, match="not the folder of a run"):
        distributed._place(packed(**{"log.csv": "1", name.replace("ROOT", str(tmp_path)): "2"}), out)
    assert [*tmp_path.rglob("*")] == [tmp_path / "sweep"]


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


def run_in(folder, *arguments, timeout=600, **variables):
    """Runs Python like a console script: the working folder is not on its path."""
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
    look = "from tdu import user_code; user_code.see_current_folder(); import parts, ray; ray.init"
    ended = run_in(users_folder, "-c", look)
    assert ended.returncode == 0


@pytest.mark.parametrize("engine", ["local", "ray"])
def test_a_user_s_modules_are_found_and_hide_no_package(users_folder, engine):
    grid = [word for name, (value,) in SMALL.items() for word in ("--grid", f"{name}={value}")]
    sweep = ["-m", "tdu", "sweep", "python:mine:make", "--episodes", "2", "--out", "out", "--engine", engine, *grid]
    ended = run_in(users_folder, *sweep)
    assert ended.returncode == 0, ended.stderr
    assert "1 of 1 runs" in ended.stdout


@pytest.fixture(scope="module")
def other_cluster():
    """The address of a cluster that reports another Ray version, and variables by which Ray finds it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # Ray's sockets need a short path
    variables = {"RAY_TMPDIR": folder, "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
    address = f"127.0.0.1:{port}"
    start = "from ray.scripts.scripts import main; main()"
    start = [sys.executable, "-c", start, "start", "--head", "--block", f"--port={port}", "--num-cpus=1"]
    head = subprocess.Popen(
        [*start, "--include-dashboard=false", "--node-ip-address=127.0.0.1"],
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        for line in head.stdout:
            if "Ray runtime started" in line:
                break
        else:
            raise AssertionError("Ray does not start")
        pretend = f"""
            import json
            from ray._raylet import GcsClient

            versions = {{"ray_version": "2.0.1", "python_version": "3.9.8"}}
            found = GcsClient(address="{address}")
            found.internal_kv_put(b"CLUSTER_METADATA", json.dumps(versions).encode(), True, b"cluster")
        """
        assert run_in(folder, "-c", textwrap.dedent(pretend), **variables).returncode == 0
        yield address, variables
    finally:
        head.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            head.communicate(timeout=30)
        head.kill()
        shutil.rmtree(folder, ignore_errors=True)


def test_a_cluster_of_another_version_is_one_sentence(other_cluster, tmp_path):
    address, _ = other_cluster
    sweep = ["-m", "tdu", "sweep", "deep_sea:size=4", "--out", "out", "--engine", "ray", "--address", address]
    ended = run_in(tmp_path, *sweep)
    assert ended.returncode == 2
    assert f"the Ray cluster at {address} has Ray 2.0.1 on Python 3.9.8, and this is Ray 2." in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_a_file_in_place_of_ray_is_one_sentence(users_folder):
    (users_folder / "ray.py").write_text("")
    sweep = ["sweep", "deep_sea:size=4", "--out", "out", "--engine", "ray"]
    ended = run_in(
        users_folder, "-c", f"import jax, tdu.cli, sys; sys.path.insert(0, '.'); sys.exit(tdu.cli.main({sweep}))"
    )
    assert ended.returncode == 2
    assert "ray.py and not Ray; rename it" in ended.stderr
    assert ended.stderr.count("\n") == 1


ON_RAY = """
    import json, os, sys
    from pathlib import Path

    from tdu.cluster import connection
    from tdu.cluster import sweep as distributed
    from tdu.run import processes as parallel

    locked, unseen = (parallel.Job(*job[:2], Path(job[2]), job[3]) for job in json.loads(sys.argv[1]))
    print("connecting", flush=True)
    ray = connection.connect(None, 2)
    make_latest, work = distributed._shipped()
    latest = ray.remote(num_cpus=0)(make_latest).remote()
    waiting = {
        job.name: ray.remote(work).remote(os.getcwd(), False, tuple(job), marker, latest)
        for job, marker in ((locked, "."), (unseen, "/no/such/marker"))
    }
    ready, _ = ray.wait([waiting[locked.name]], timeout=8)
    print("waiting" if not ready else "ended", flush=True)
    sys.stdin.readline()
    for job in (locked, unseen):
        outcome = distributed._outcome(ray, waiting[job.name], job)
        print(json.dumps([outcome.code, outcome.stderr]), flush=True)
    ray.shutdown()
"""


def test_on_ray_a_run_waits_for_a_lock_and_comes_back_whole(other_cluster, users_folder, tmp_path):
    """A cluster starts although another one exists. One run finds a lock; the other cannot see the sweep's folder."""
    address, variables = other_cluster
    cells = sweeps.plan(["deep_sea:size=3"], ["tdu"], seeds=2, grid=SMALL, episodes=3)
    jobs = [cell.job(tmp_path / "out") for cell in cells]
    for job in jobs:
        job.out.mkdir(parents=True)
    (jobs[1].out / "config.json").write_text("{")
    with open(jobs[0].out / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", textwrap.dedent(ON_RAY), json.dumps(jobs, default=str)],
            cwd=users_folder,
            env=os.environ | {"PYTHONPATH": OURS, "RAY_ADDRESS": address} | variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout.readline() == "connecting\n"
            assert process.stdout.readline() == "waiting\n"
            lock.close()
            out, _ = process.communicate("\n", timeout=400)
        finally:
            process.kill()
            process.communicate()
    assert process.returncode == 0
    (code, words), (unseen_code, unseen_words) = map(json.loads, out.splitlines())
    assert code == 0
    assert "no checkpoint yet" in words
    assert "episode 1" in words
    assert unseen_code == 0
    assert "is now in" in unseen_words
    for job in jobs:
        assert json.loads((job.out / "result.json").read_text())["episodes"] == 3
    assert runs.find_runs(tmp_path / "out") == sorted(job.out for job in jobs)
    assert not (jobs[1].out / ".lock").exists()


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system does not tell where processes run")
def test_a_process_stays_on_its_core_until_it_is_crowded(tmp_path):
    """Its child processes may use every core."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("there is one core only")
    script = """
        import hashlib, multiprocessing, os, sys, threading, time
        from tdu.run import one_core

        everywhere = os.sched_getaffinity(0)
        one_core._WORKS, one_core._CROWDED = 0.0, 1e9  # other processes use the cores too

        def busy(until):
            while time.monotonic() < until:
                hashlib.sha256(bytes(1 << 20))  # without Python's lock

        def child(queue):
            queue.put(os.sched_getaffinity(0))

        let_go = one_core.stay_on_one_core(every=0.1)
        deadline = time.monotonic() + 300
        while os.sched_getaffinity(0) == everywhere and time.monotonic() < deadline:
            busy(time.monotonic() + 0.1)
        assert len(os.sched_getaffinity(0)) == 1, "it stays"
        queue = multiprocessing.get_context("fork").SimpleQueue()
        forked = multiprocessing.get_context("fork").Process(target=child, args=(queue,))
        forked.start()
        assert queue.get() == everywhere, "a child does not"
        let_go()
        assert os.sched_getaffinity(0) == everywhere, "nor does it afterwards"
        busy(time.monotonic() + 0.3)
        assert os.sched_getaffinity(0) == everywhere, "and that lasts"
        one_core.stay_on_one_core(every=0.1)
        while len(os.sched_getaffinity(0)) > 1 and time.monotonic() < deadline:
            busy(time.monotonic() + 0.1)
        one_core._CROWDED = -1.0
        while os.sched_getaffinity(0) != everywhere and time.monotonic() < deadline:
            time.sleep(0.01)
        assert os.sched_getaffinity(0) == everywhere, "nor does one that is not alone"
        print("fine")
    """
    (tmp_path / "busy.py").write_text(textwrap.dedent(script))
    command = [sys.executable, "-W", "ignore", str(tmp_path / "busy.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, env=os.environ | {"PYTHONPATH": OURS})
    assert done.stdout == "fine\n", done.stderr
