"""A recurrent agent on a Ray cluster: counters, the ratio of learning to acting, replay segments, and kills."""

import csv
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest

import tdu
from tdu import cli, environments
from tdu.agents.r2d2.actor import ladder
from tdu.cluster import actors as distributed_actors
from tdu.cluster import connection
from tdu.cluster import rollouts as distributed_rollouts
from tdu.cluster.messages import ELSEWHERE, Counters, make_agent
from tdu.cluster.runner import RayRunner
from tdu.errors import RunError, TrainingError, UserError
from tdu.run.folder import checkpoints
from tdu.run.folder.log import EMPTY
from tdu.run.plan import resolve
from tdu.run.runners.protocol import Budget, Gone, Saved

OPTIONS = {
    "exploiters": 2, "explorers": 2, "hidden_sizes": "4", "lstm_size": 4, "head_size": 4, "batch_size": 2,
    "trace_length": 6, "burn_in": 2, "replay_period": 3, "replay_capacity": 500, "min_replay": 4, "learn_period": 40,
    "rollout": 10,
}  # fmt: skip
CONFIG = resolve("deep_sea:size=4", "tdu_r2d2", engine="ray", actors=3, num_envs=2, steps=10**6, **OPTIONS).config
NOTHING_YET = Counters(0, {}, None, 0)


@pytest.fixture(scope="module")
def rolls():
    """What two rollouts return in turn."""
    env = environments.make(CONFIG.env)
    agent = make_agent(CONFIG, env.spec)
    params = agent.params(agent.init(jax.random.key(0)))
    gathering = [
        distributed_rollouts.Rollout(env, agent, CONFIG, name, rung, params) for name, rung in ((1, 0), (2, 2))
    ]
    np.testing.assert_allclose(gathering[1]._actors.acting.carry.acting.epsilon, ladder(6)[4:])
    return [one.roll(params) for _ in range(40) for one in gathering]


def opened(counters=NOTHING_YET, start_at=0, lineage=0):
    replay = distributed_actors.ReplayProcess()
    assert "500 sequences" in replay.begin(CONFIG, counters, start_at, lineage)
    return replay


def filled(rolls):
    """A replay that makes no actor wait, although nothing learns from it."""
    replay = opened()
    replay.open()
    replay._slack = 10**9
    for rolled in rolls:
        assert replay.put(rolled)
    return replay


def wait_until(condition):
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_two_rollouts_see_and_do_different_things(rolls):
    one, other = rolls[:2]
    assert (one.steps, other.steps) == (20, 20)
    assert {s.stream for s in one.sequences}.isdisjoint(s.stream for s in other.sequences)
    assert not all(
        np.array_equal(a.steps.action, b.steps.action) for a, b in zip(one.sequences, other.sequences, strict=True)
    )
    assert [e.length for e in one.episodes] == [4] * 4
    assert [e.steps for e in one.episodes] == [8, 8, 16, 16]


def test_a_process_that_does_not_serve_reports_it(rolls):
    spare = opened()
    assert spare.put(rolls[0]) == spare.sample(0) == ELSEWHERE
    assert distributed_actors.LearnerProcess().weights(None) == ELSEWHERE
    assert distributed_actors.LearnerProcess().state() == spare.snapshot() == ELSEWHERE
    assert spare.open() == 0
    assert spare.put(rolls[0]) is True


def test_duplicates_count_once(rolls):
    replay = filled(rolls[:4])
    sequences = len(replay._replay)
    assert [replay.put(rolled) for rolled in rolls[:4]] == [False] * 4
    news, filling = replay.news(0.0)
    assert [entry[:3] for entry in news] == [(1, 1, 20), (2, 1, 20), (1, 2, 20), (2, 2, 20)]
    assert filling["sequences"] == sequences == len(replay._replay)
    # A replay restarted from the counters refuses what was counted and accepts the rest.
    again = opened(Counters(40, {1: 1, 2: 1}, None, 0))
    again.open()
    assert [again.put(rolled) for rolled in rolls[:4]] == [False, False, True, True]
    assert sum(rolled.steps for rolled in again.news(0.0)[0]) + 40 == 80


def test_the_ratio_is_held_from_both_sides(rolls):
    replay = opened()
    replay.open()
    handing = threading.Thread(target=lambda: [replay.put(rolled) for rolled in rolls], daemon=True)
    handing.start()
    for updates in range(20):
        assert replay.sample(updates, patience=20) is not None
        with replay._changed:
            begun = replay._steps - replay._learns_from
            assert begun >= 40 * (updates + 1)  # a batch is due and is returned
            assert (
                begun <= 40 * (updates + 1) + replay._slack + 20
            )  # acting is ahead by the slack and one message at most
    wait_until(lambda: not replay._may_act)
    held = replay._steps
    time.sleep(0.1)
    assert replay._steps == held  # without learning, acting stops
    assert handing.is_alive()
    assert replay.sample(10**6, patience=0.01) is None  # the learner is far ahead, so no batch is due
    handing.join(20)
    assert not handing.is_alive()  # and acting continues


def test_no_actor_acts_beyond_the_budget(rolls):
    replay = distributed_actors.ReplayProcess()
    replay.begin(dataclasses.replace(CONFIG, steps=200), NOTHING_YET, 0, 0)
    replay.open()
    replay._slack = 10**9
    handing = threading.Thread(target=lambda: [replay.put(rolled) for rolled in rolls], daemon=True)
    handing.start()
    wait_until(lambda: replay._steps >= 200)
    handing.join(0.1)
    assert handing.is_alive()
    assert replay._steps == 200


def test_a_checkpoint_counts_messages_that_are_on_their_way(rolls):
    """A checkpoint may be made before an answer of `news` arrives. Its messages are sent again and count once."""
    replay = filled(rolls[:4])
    on_their_way, _ = replay.news(0.0)
    found, *_ = replay.snapshot()
    assert len(on_their_way) == 4
    assert [rolled[:3] for rolled in found] == [rolled[:3] for rolled in on_their_way]
    assert replay.news(0.0)[0] == []
    assert replay.snapshot()[0] == []


def test_a_replay_comes_back_from_its_segments(rolls):
    replay = filled(rolls)
    ids = replay._replay.ids
    assert ids.start > 0, "the oldest have made room"
    replay._replay.update_priorities(np.arange(ids.start, ids.stop), np.linspace(0.1, 3, len(ids)))
    _, there, priorities = replay.snapshot()
    size = distributed_actors.SEGMENT
    parts = [
        replay.segment(0, first, min(first + size, ids.stop))
        for first in range(ids.start // size * size, ids.stop, size)
    ]
    assert len(parts) == 3
    assert replay.segment(1, 0, 10) is None  # of another lineage
    again = opened(start_at=there["oldest"])
    for part in parts:
        again.put_back(part, there["oldest"], priorities)
    assert again.open() == len(ids)
    assert again._replay.ids == ids
    for id_ in (*ids[:3], *ids[-3:]):
        jax.tree.map(np.testing.assert_array_equal, again._replay.sequence(id_), replay._replay.sequence(id_))
    np.testing.assert_allclose(again._replay.priorities(), replay._replay.priorities(), rtol=1e-12)
    assert again.snapshot()[1]["lineage"] == 0
    # Without the middle segment the others are used. The lineage changes, so that no segment name has two contents.
    holed = opened(start_at=there["oldest"])
    for part in (parts[0], parts[2]):
        holed.put_back(part, there["oldest"], priorities)
    assert holed.open() == len(ids) - size
    assert holed.snapshot()[1]["lineage"] == 1
    # The same holds if the last segment is lost, or all of them.
    for left in (parts[:2], []):
        shortened = opened(start_at=there["oldest"])
        for part in left:
            shortened.put_back(part, there["oldest"], priorities)
        shortened.open(there["next"])
        assert shortened.snapshot()[1]["lineage"] == 1
    jax.tree.map(
        np.testing.assert_array_equal, holed._replay.sequence(holed._replay.ids[-1]), replay._replay.sequence(ids[-1])
    )


def test_a_damaged_segment_is_named_and_the_others_are_read(tmp_path):
    fetched = []

    def segment(name, number):
        def read():
            fetched.append(name)
            return {"x": np.full(5, number)}

        return read

    def save(step, **segments):
        saved = Saved({"w": np.ones(2)}, {}, {"step": step}, segments)
        settings = {"run": {}, "seconds": 0.0, "log": EMPTY, "other_logs": {}, "versions": [{"tdu": "1"}]}
        return checkpoints.save(tmp_path, saved, step=step, **settings)

    save(1, a=segment("a", 1), b=segment("b", 2))
    save(2, a=segment("a", 1), b=segment("b", 2), c=segment("c", 3))
    assert fetched == ["a", "b", "c"]  # existing segments are not fetched again
    old, new = (tmp_path / f"{step:012d}" / "segment-a.safetensors" for step in (1, 2))
    assert old.stat().st_ino == new.stat().st_ino
    new.write_bytes(new.read_bytes()[:-1] + b"!")
    saved, _ = checkpoints.load_latest(tmp_path, Saved({"w": np.ones(2)}, {}, {}), lambda manifest: None, pytest.fail)
    assert saved.plain == {"step": 2}
    with pytest.raises(RunError, match="checksum"):
        saved.segments["a"]()
    assert saved.segments["c"]()["x"].tolist() == [3] * 5

    def gone():
        raise Gone

    with pytest.raises(Gone):
        save(3, d=gone)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["000000000001", "000000000002"]


def test_a_run_names_a_damaged_segment_and_goes_on_with_the_others(rolls):
    replay, size = filled(rolls), distributed_actors.SEGMENT
    ids, (_, there, priorities) = replay._replay.ids, replay.snapshot()
    firsts = range(ids.start // size * size, ids.stop, size)
    parts = [replay.segment(0, first, min(first + size, ids.stop)) for first in firsts]

    def damaged():
        raise RunError("its checksum is another")

    again, events = distributed_actors.ReplayProcess(), []
    segments = {f"0-{i}": (lambda part=part: part) for i, part in enumerate(parts)} | {"0-1": damaged}
    runner = SimpleNamespace(
        _crew=SimpleNamespace(ray=SimpleNamespace(get=lambda answer: answer)),
        _reload=lambda: Saved({}, {"priorities": priorities}, {"replay": there, "steps": 800}, segments),
        _config=CONFIG, _received=0, _last_numbers={}, _learns_from=None, _updates=0, _served={"replay": 1},
        _event=events.append,
    )  # fmt: skip
    process = SimpleNamespace(call=lambda name, *given: getattr(again, name)(*given))
    RayRunner._begin_replay(runner, process)
    assert "segment 0-1" in events[0]
    assert "its checksum is another" in events[0]
    assert events[1].startswith(f"the replay goes on with {len(ids) - size} sequences")
    assert len(again._replay) == len(ids) - size


def test_a_cluster_of_another_version_is_reported_in_one_sentence(monkeypatch, capsys):
    """The exception is Ray's own."""
    import ray
    from ray._private.utils import check_version_info

    def init(**_):
        check_version_info({"ray_version": "2.9.0", "python_version": "3.9.2"}, "here")

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(connection, "_refuse_silence", lambda address: None)
    typed = "train deep_sea:size=4 --agent r2d2 --engine ray --actors 1 --address 127.0.0.1:6379 --progress none"
    assert cli.main(typed.split()) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert "the Ray cluster at 127.0.0.1:6379 has Ray 2.9.0 on Python 3.9.2, and this is Ray" in message
    assert "Traceback" not in message


def test_a_listener_that_is_no_cluster_is_refused_soon(monkeypatch):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        monkeypatch.setattr(connection, "_SILENCE", 0.1)
        monkeypatch.setattr("ray.init", lambda **_: pytest.fail("Ray would try for minutes"))
        with pytest.raises(UserError, match="no Ray cluster answers at 127"):
            connection.connect(f"127.0.0.1:{silent.getsockname()[1]}", None)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--agent", "tdu_r2d2", "--actors", "2"], "add --engine ray"),
        (["--agent", "tdu_r2d2", "--address", "here:1"], "add --engine ray"),
        (["--agent", "tdu", "--engine", "ray", "--actors", "2"], "tdu is not recurrent"),
        (["--agent", "r2d2", "--engine", "ray", "--actors", "0"], "actors must be"),
        (["--agent", "r2d2", "--engine", "ray", "--seeds", "2"], "--seed"),
        (["--agent", "r2d2", "--engine", "ray", "--address", "127.0.0.1:1"], "no Ray cluster answers at 127"),
        (["--agent", "r2d2", "--engine", "ray", "--address", "here"], "write host:port"),
        (["--agent", "tdu_r2d2", "--engine", "ray", "--bonus", "counts"], "--engine local"),
    ],
)
def test_a_mistake_is_one_sentence(arguments, words, capsys, tmp_path):
    assert cli.main(["train", "deep_sea:size=4", *arguments, "--out", str(tmp_path / "new"), "--progress", "none"]) == 2
    assert words in capsys.readouterr().err.splitlines()[-1]


def refuse_to_start(monkeypatch):
    import ray

    def init(**_):
        raise Exception("The current node timed out during startup.")

    monkeypatch.setattr(ray, "init", init)


def allow_few_processes(monkeypatch):
    monkeypatch.setattr(connection.resource, "getrlimit", lambda which: (100, 100))
    monkeypatch.setattr(connection.os, "getuid", lambda: 12345)


@pytest.mark.parametrize("command", ["train deep_sea:size=4 --agent r2d2 --actors 1", "sweep deep_sea:size=4"])
@pytest.mark.parametrize("fault", [refuse_to_start, allow_few_processes])
def test_ray_that_cannot_start_is_one_sentence_and_leaves_no_folder(fault, command, monkeypatch, capsys, tmp_path):
    fault(monkeypatch)
    out = tmp_path / "new"
    assert cli.main([*command.split(), "--engine", "ray", "--out", str(out), "--progress", "none"]) == 2
    assert "`ulimit -u`" in capsys.readouterr().err.splitlines()[-1]
    assert not out.exists()


def test_a_driver_notices_that_it_has_lost_its_cluster(monkeypatch):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        head = f"127.0.0.1:{closed.getsockname()[1]}"
    nodes = [{"NodeID": "a", "NodeManagerAddress": "1.2.3.4", "Alive": True}]
    context = SimpleNamespace(get_node_id=lambda: "a", gcs_address=head)
    machines = connection.Machines(SimpleNamespace(get_runtime_context=lambda: context, nodes=lambda: nodes))
    assert machines.living() is None  # it may come back
    monkeypatch.setattr(connection, "_HEAD_PATIENCE", -1)
    with pytest.raises(TrainingError, match=r"GCS .* has died"):
        machines.living()
    monkeypatch.setattr(connection, "_greet", lambda address: None)
    assert machines.living() == {"a": "1.2.3.4"}
    nodes[0]["Alive"] = False
    with pytest.raises(TrainingError, match=r"raylet of this machine.* has died"):
        machines.living()


def test_a_run_whose_processes_do_not_start_reports_it(monkeypatch):
    env = environments.make(CONFIG.env)
    runner = RayRunner(env.spec, make_agent(CONFIG, env.spec), CONFIG, budget=Budget(None, 100), compiled=False)
    monkeypatch.setattr(runner, "_started", SimpleNamespace(ready=1, processes=[0] * 7))
    assert runner.status() == "starting: 1 of 7 processes are ready"
    monkeypatch.setattr("tdu.cluster.runner.PATIENCE", -1)
    with pytest.raises(TrainingError, match="started no process"):
        runner._check_advanced(0)


def test_a_cluster_that_cannot_be_used_is_left(monkeypatch, tmp_path):
    shut_down = []
    ray = SimpleNamespace(cluster_resources=dict, shutdown=lambda: shut_down.append(True))
    monkeypatch.setattr(connection, "connect", lambda address, workers: ray)
    with pytest.raises(UserError, match="no core"):
        tdu.train(config=CONFIG, out=tmp_path / "run")
    assert shut_down == [True]


def test_a_connection_of_the_user_s_is_left_alone(monkeypatch):
    monkeypatch.setattr("ray.is_initialized", lambda: True)
    monkeypatch.setattr("ray.shutdown", lambda: pytest.fail("it is the user's"))
    with pytest.raises(UserError, match="connected to Ray already"):
        connection.connect(None, 1)


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"pip install 'tdu\[ray\]'\.$"):
        connection.connect(None, None)


def test_a_replay_without_room_is_refused_before_ray_starts(tmp_path, capsys):
    out = tmp_path / "run"
    arguments = ["--agent", "r2d2", "--engine", "ray", "--actors", "1", "--replay-capacity", "100000000"]
    assert cli.main(["train", "deep_sea:size=4", *arguments, "--out", str(out), "--progress", "none"]) == 2
    assert "the largest replay_capacity that fits" in capsys.readouterr().err.splitlines()[-1]
    assert not out.exists()


def children(pid):
    return map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


def test_a_run_on_a_cluster_finishes(tmp_path):
    """Runs `tdu train`, first with a killed head. The best agent is the evaluated one, and acting ends with the budget."""
    out, steps = tmp_path / "run", 3000
    options = [word for name, value in OPTIONS.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    typed = f"train key_door:size=3,limit=8 --agent tdu_r2d2 --engine ray --actors 1 --num-envs 2 --steps {steps}"
    command = [
        sys.executable,
        "-m",
        "tdu",
        *typed.split(),
        "--evaluate-every",
        "100",
        "--out",
        str(out),
        "--progress",
        "json",
        *options,
    ]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | _ROOT)
    assert "starting: " in json.loads(first.stdout.readline())["status"]
    (head,) = (child for child in children(first.pid) if "gcs_server" in Path(f"/proc/{child}/comm").read_text())
    os.kill(head, signal.SIGKILL)
    _, messages = first.communicate(timeout=300)
    assert first.returncode == 2
    assert "GCS" in messages.splitlines()[-1]
    assert "Traceback" not in messages
    assert not out.exists()  # nothing had been computed yet
    process = subprocess.run(command, capture_output=True, text=True, timeout=300, env=os.environ | _ROOT)
    assert process.returncode == 0, process.stderr
    assert "os.fork" not in process.stderr
    assert "1 of 1 actors alive" in process.stdout + process.stderr
    result = json.loads((out / "result.json").read_text())
    assert steps <= result["steps"] <= steps + 20
    with open(out / "evaluations.csv", newline="") as f:
        evaluations = list(csv.DictReader(f))
    assert len(evaluations) >= 2
    (best,), *_, last = (sorted((out / place).glob("*/manifest.json")) for place in ("best", "checkpoints"))
    there = json.loads(last[-1].read_text())["plain"]
    assert there["pending"] == []
    assert there["updates"] <= steps / 40
    tried = json.loads(best.read_text())["plain"]
    received = tried["steps"] + sum(message["steps"] for message in tried["pending"])
    assert 40 * tried["replay"]["updates"] <= received - tried["replay"]["learns_from"]
    assert tdu.load(out, best=True).agent.act(0) in range(4)


def test_a_run_outlives_its_processes_on_a_real_cluster(tmp_path):
    """A short version of `benchmarks/ray_chaos.py`: an actor, the learner, the replay and a node are killed."""
    script = Path(__file__).parents[2] / "benchmarks" / "ray_chaos.py"
    out = tmp_path / "chaos.json"
    command = [sys.executable, str(script), "--minutes", "0.1", "--patience", "10", "--out", str(out)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=2400, env=os.environ | _ROOT)
    assert out.exists(), process.stderr
    outcome = json.loads(out.read_text())
    assert outcome["violations"] == []
    assert outcome["kills_of"] == {"actor": 1, "learner": 1, "replay": 1, "node": 1}
    assert outcome["steps_counted"] > 1000
    assert outcome["object_store_MiB_after"] == 0


_ROOT = {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])}
