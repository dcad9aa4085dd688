"""A run's folder: resuming is exact, damaged checkpoints are skipped, and the user's files are not touched."""

import dataclasses
import errno
import fcntl
import gc
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import tracemalloc
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

import tdu
from tdu.errors import RunError
from tdu.run import folder as runs
from tdu.run.folder import checkpoints
from tdu.run.folder.log import EMPTY
from tdu.run.folder.records import RunConfig, RunResult, canonical
from tdu.run.progress import display, summary
from tdu.run.runners.compiled import CompiledRunner
from tdu.run.runners.protocol import Saved
from tdu.run.runners.rows import WALL_TIME
from tdu.run.signals import SIGNALS, Interrupted
from tdu.types import Environment, EnvSpec, TimeStep

FAST = {"hidden_sizes": (8,), "exploiters": 2, "explorers": 1, "batch_size": 8, "min_replay": 16}
COMPILED = {"env": "deep_sea:size=8,stochastic=true", "episodes": 400, "until": "budget", "seed": 5} | FAST
OTHERWISE = COMPILED | {
    "dense": True,
    "head_choice": "ucb1",
    "mask_prob": 0.5,
    "noise_scale": 0.1,
    "bootstrap": "double",
}
CATCH = {"env": "bsuite:catch/0", "episodes": 30, "seed": 5} | FAST
STEPWISE = {"env": "bsuite:deep_sea_stochastic/0", "episodes": 30, "until": "budget", "seed": 5} | FAST


CASES = {"compiled": COMPILED, "stepwise": STEPWISE, "otherwise": OTHERWISE, "catch": CATCH}


class Killed(BaseException):
    """Represents the end of the process: nothing in the library catches it."""


def killer(after):
    def progress(report):
        if report.episode >= after:
            raise Killed

    return progress


def train(out, settings, **changes):
    return tdu.train(**settings, out=out, **changes)


def log_of(out):
    log = runs.read_log(out / "log.csv")
    return {name: log[name] for name in log if name != WALL_TIME}


def final_state(out):
    newest = sorted(p for p in (out / "checkpoints").iterdir() if p.name.isdigit())[-1]
    parts = [load_file(path) for path in sorted(newest.glob("*.safetensors"))]
    return {name: array for part in parts for name, array in part.items()}


def assert_same_run(a, b):
    text = [[line.rsplit(",", 1)[0] for line in (x / "log.csv").read_text().splitlines()] for x in (a, b)]
    assert text[0] == text[1]
    first, second = final_state(a), final_state(b)
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Runs that were never interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    for name, settings in CASES.items():
        train(folder / name, settings)
    return folder


@pytest.mark.parametrize("name", CASES)
def test_a_resumed_run_is_the_run_never_cut_off(whole, tmp_path, name):
    settings, out = CASES[name], tmp_path / "run"
    after = settings["episodes"] * 2 // 5
    with pytest.raises(Killed):
        train(out, settings, checkpoint_seconds=0, progress=killer(after))
    assert not (out / "result.json").exists()
    with open(out / "log.csv", "a") as f:
        f.write("999,1,1,0.0,")  # half a row, as a kill may leave it
    resumed = train(out, settings, resume=True)
    assert_same_run(out, whole / name)
    assert resumed.result["episodes"] == settings["episodes"]
    unbroken = json.loads((whole / name / "result.json").read_text())
    for field in ("mean_return", "mean_return_episodes", "greedy_return", "steps"):
        assert resumed.result[field] == unbroken[field]


def test_a_run_cut_off_before_its_first_checkpoint_starts_over(whole, tmp_path):
    out = tmp_path / "run"
    with pytest.raises(Killed):
        train(out, COMPILED, checkpoint_seconds=1e9, progress=killer(100))
    assert not (out / "checkpoints").exists()
    train(out, COMPILED, resume=True)
    assert_same_run(out, whole / "compiled")


def test_resuming_a_folder_that_was_hardly_made(whole, tmp_path):
    out = tmp_path / "run"
    out.mkdir()
    (out / ".lock").touch()
    train(out, COMPILED, resume=True)
    assert_same_run(out, whole / "compiled")


@pytest.mark.parametrize("damage", ["truncate", "flip", "manifest", "foreign", "missing"])
def test_a_damaged_checkpoint_is_passed_over(whole, tmp_path, damage):
    out = tmp_path / "run"
    with pytest.raises(Killed):
        train(out, COMPILED, checkpoint_seconds=0, progress=killer(300))
    newest = sorted((out / "checkpoints").iterdir())[-1]
    state = newest / "state-player.safetensors"
    data = bytearray(state.read_bytes())
    if damage == "truncate":
        state.write_bytes(data[: len(data) // 2])
    elif damage == "flip":
        data[-7] ^= 1
        state.write_bytes(data)
    elif damage == "manifest":
        manifest = json.loads((newest / "manifest.json").read_text())
        manifest["log"]["bytes"] -= 40
        (newest / "manifest.json").write_text(json.dumps(manifest))
    elif damage == "missing":
        state.unlink()
    else:
        other = tmp_path / "other"
        with pytest.raises(Killed):
            train(other, COMPILED | {"seed": 6}, checkpoint_seconds=0, progress=killer(300))
        shutil.rmtree(newest)
        shutil.copytree(sorted((other / "checkpoints").iterdir())[-1], newest)
    said = []
    train(out, COMPILED, resume=True, say=said.append)
    assert len(said) == 1
    assert "cannot be used" in said[0]
    assert newest.name in said[0]
    assert_same_run(out, whole / "compiled")


def test_damage_does_not_outlive_the_next_kill(whole, tmp_path):
    """A damaged checkpoint is renamed: it does not displace good ones, and it is not tried again."""
    out = tmp_path / "run"
    with pytest.raises(Killed):
        train(out, COMPILED, checkpoint_seconds=0, progress=killer(300))
    newest = sorted((out / "checkpoints").iterdir())[-1]
    (newest / "state-player.safetensors").write_bytes(b"no")
    with pytest.raises(Killed):
        train(out, COMPILED, resume=True, checkpoint_seconds=0, progress=killer(200), say=lambda words: None)
    names = sorted(p.name for p in (out / "checkpoints").iterdir())
    assert f"{newest.name}.damaged" in names
    said = []
    train(out, COMPILED, resume=True, say=said.append)
    assert said == []
    assert_same_run(out, whole / "compiled")


@pytest.mark.parametrize("damage", ["checkpoints", "log"])
def test_nothing_is_lost_where_nothing_can_be_used(tmp_path, damage):
    out = tmp_path / "run"
    with pytest.raises(Killed):
        train(out, COMPILED, checkpoint_seconds=0, progress=killer(300))
    log = out / "log.csv"
    if damage == "log":
        log.write_bytes(log.read_bytes().replace(b"\n", b"\r\n"))
    else:
        for path in (out / "checkpoints").iterdir():
            (path / "manifest.json").write_text("null")
    before = {p: p.read_bytes() for p in out.rglob("*") if p.is_file()}
    with pytest.raises(RunError, match="none of the checkpoints"):
        train(out, COMPILED, resume=True)
    assert {p: p.read_bytes() for p in out.rglob("*") if p.is_file()} == before


def test_a_finished_run_is_not_run_again(whole):
    before = (whole / "compiled" / "log.csv").read_bytes()
    said = []
    run = train(whole / "compiled", COMPILED, resume=True, say=said.append)
    assert "finished already" in said[0]
    assert run.result["episodes"] == 400
    assert (whole / "compiled" / "log.csv").read_bytes() == before


def test_load_gives_the_same_run(whole):
    run = tdu.load(whole / "compiled")
    again = tdu.train(**COMPILED)
    assert run.result.keys() == again.result.keys()
    assert run.result["mean_return"] == again.result["mean_return"] == np.mean(run.log["episode_return"][-100:])
    for name in run.log.keys() - {WALL_TIME}:  # the log in memory equals the log on disk
        np.testing.assert_array_equal(run.log[name], again.log[name])
        assert run.log[name].dtype == again.log[name].dtype
    for state in (*range(64), np.zeros((8, 8))):
        np.testing.assert_array_equal(run.agent.values(state), again.agent.values(state))
    grid = np.zeros((8, 8))
    grid[2, 1] = 1
    assert run.agent.act(grid) == run.agent.act(17)


@pytest.mark.parametrize("name", ["compiled", "catch"])
def test_evaluation_is_the_greedy_policy_s_return(whole, name):
    found = tdu.evaluate(whole / name, episodes=20, seed=1)
    assert found == tdu.evaluate(whole / name, episodes=20, seed=1)
    assert found == tdu.evaluate(tdu.load(whole / name), episodes=20, seed=1)
    assert found["min_return"] <= found["mean_return"] <= found["max_return"]
    best = {"compiled": 4.0, "catch": 1.0}[name]
    assert -best <= found["min_return"]
    assert found["max_return"] <= best
    with pytest.raises(tdu.UserError, match="episodes must be a whole number"):
        tdu.evaluate(whole / name, episodes=0)


def test_invalid_calls_are_refused(whole, tmp_path):
    out = whole / "compiled"
    with pytest.raises(RunError, match="already exists; continue it"):
        train(out, COMPILED)
    with pytest.raises(RunError, match=r"seed=5 and not 6"):
        train(out, COMPILED | {"seed": 6}, resume=True)
    with pytest.raises(RunError, match=r"exploiters=2 and not 3"):
        train(out, COMPILED | {"exploiters": 3}, resume=True)
    stranger = tmp_path / "stranger"
    stranger.mkdir()
    (stranger / "thesis.tex").write_text("mine")
    for resume in (False, True):
        with pytest.raises(RunError, match="choose another"):
            train(stranger, COMPILED, resume=resume)
    assert [p.name for p in stranger.iterdir()] == ["thesis.tex"]
    with pytest.raises(RunError, match="is a file"):
        train(stranger / "thesis.tex", COMPILED)
    with pytest.raises(RunError, match="nothing to resume"):
        tdu.train(**COMPILED, resume=True)
    with pytest.raises(RunError, match=r"not a run's folder\.$"):
        tdu.load(stranger)
    count = len(list(whole.glob("*/config.json")))
    with pytest.raises(RunError, match=rf"not a run's folder: it holds {count} runs.*{whole}/"):
        tdu.load(whole)


def test_a_folder_in_use_is_refused(tmp_path):
    folder = runs.Folder(tmp_path / "run", resume=False)
    with pytest.raises(RunError, match="in use by another process"):
        train(tmp_path / "run", COMPILED)
    folder.close()


def test_a_loss_that_explodes_is_reported(tmp_path):
    with pytest.raises(tdu.UserError, match="try a smaller learning_rate"):
        tdu.train("deep_sea:size=5", episodes=300, until="budget", **(FAST | {"learning_rate": 1e30}))


STATE = {
    "bool": jnp.array([True, False]),
    "bytes": jnp.arange(7, dtype=jnp.uint8),
    "whole": jnp.int32(-3),
    "unsigned": np.array([[2**32 - 1]], np.uint32),
    "half": jnp.array([1.5, -2.0], jnp.bfloat16),
    "real": {"nested": [np.float32(0.1), jnp.zeros((0, 3))]},
    "key": jax.random.key(7),
    "keys": jax.random.split(jax.random.key(7), 3),
}


def save(folder, step, state, **arrays):
    saved = Saved(state, arrays, {"count": 3})
    checkpoints.save(folder, saved, step=step, run={}, seconds=1.5, log=EMPTY, other_logs={}, versions=[{"tdu": "1"}])


def load_latest(folder, state):
    return checkpoints.load_latest(folder, Saved(state, {}, {}), lambda manifest: None, print)


def test_arrays_of_every_type_come_back(tmp_path):
    save(tmp_path, 5, STATE, ragged=np.arange(11), flags=np.zeros((2, 2), bool))
    saved, manifest = load_latest(tmp_path, jax.tree.map(lambda x: x, STATE))
    assert manifest.step == 5
    assert saved.plain == {"count": 3}
    assert saved.arrays["ragged"].tolist() == list(range(11))
    assert saved.arrays["flags"].dtype == bool
    for name, before, after in zip(STATE, jax.tree.leaves(STATE), jax.tree.leaves(saved.state), strict=False):
        assert before.dtype == after.dtype, name
        is_key = jnp.issubdtype(before.dtype, jax.dtypes.prng_key)
        unpack = jax.random.key_data if is_key else np.asarray
        np.testing.assert_array_equal(unpack(before), unpack(after))
    names = sorted(p.name for p in (tmp_path / f"{5:012d}").iterdir())
    assert names == sorted(["manifest.json", "arrays.safetensors", *(f"state-{name}.safetensors" for name in STATE)])


def test_a_checkpoint_saved_again_is_never_missing(tmp_path, monkeypatch):
    def delete_and_die(path, **options):
        delete(path, **options)
        raise SystemExit

    save(tmp_path, 5, STATE, ragged=np.arange(2))
    delete = shutil.rmtree
    monkeypatch.setattr(shutil, "rmtree", delete_and_die)
    with pytest.raises(SystemExit):
        save(tmp_path, 5, STATE, ragged=np.arange(3))
    assert load_latest(tmp_path, STATE)[0].arrays["ragged"].tolist() == [0, 1, 2]


def test_a_checkpoint_costs_little_memory_beside_the_state(tmp_path):
    state = {f"layer{i}": np.ones(2**20, np.float32) for i in range(16)}
    tracemalloc.start()
    try:
        save(tmp_path, 1, state)
        assert tracemalloc.get_traced_memory()[1] < 2**22  # one array at most; the state has 16
    finally:
        tracemalloc.stop()


def test_checkpoints_of_an_older_format_are_one_sentence(tmp_path):
    save(tmp_path, 1, STATE)
    path = tmp_path / f"{1:012d}" / "manifest.json"
    content = json.loads(path.read_text())
    del content["manifest_sha256"]
    content["format"] = 2
    content["manifest_sha256"] = checkpoints.hashlib.sha256(checkpoints.canonical(content)).hexdigest()
    path.write_bytes(checkpoints.canonical(content))
    words = f"another version of tdu wrote it, in format 2; this one reads format {checkpoints._FORMAT}"
    with pytest.raises(RunError, match=words):
        load_latest(tmp_path, STATE)


def no_locks(error):
    def flock(file, operation):
        raise OSError(error, os.strerror(error))

    return flock


def test_a_file_stands_for_the_lock_that_a_file_system_lacks(tmp_path, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", no_locks(errno.ENOLCK))
    folder = runs.Folder(tmp_path / "run", resume=False)
    with pytest.raises(RunError, match="in use by another process"):
        runs.Folder(tmp_path / "run", resume=True)
    assert runs.is_in_use(tmp_path / "run")
    folder.close()
    assert not runs.is_in_use(tmp_path / "run")
    held = tmp_path / "run" / ".lock-held"
    assert not held.exists()
    held.write_text(f"{2**22 + 1} {socket.gethostname()}")  # a process that has ended
    runs.Folder(tmp_path / "run", resume=True).close()
    held.write_text("1 another-machine")
    with pytest.raises(RunError, match=r"lock-held"):
        runs.Folder(tmp_path / "run", resume=True)
    monkeypatch.setattr(fcntl, "flock", no_locks(errno.EIO))
    with pytest.raises(RunError, match="cannot be locked"):
        runs.Folder(tmp_path / "run", resume=True)


def test_memory_does_not_grow_with_the_log(tmp_path):
    alive = []

    def progress(report):
        alive.append(sum(type(x) is dict and "episode_return" in x for x in gc.get_objects()))

    run = train(tmp_path / "run", COMPILED, progress=progress)
    assert len(run.log["episode"]) == 400
    assert max(alive) <= 200  # a chunk is 125 episodes


@pytest.fixture
def _heeded_signals():
    """Restores default signal handlers: background tests ignore Ctrl-C, a terminal's programs do not."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("_heeded_signals")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signalled_run_saves_before_it_ends(whole, tmp_path, number, code):
    out, handlers = tmp_path / "run", [signal.getsignal(n) for n in SIGNALS]

    def progress(report):
        if report.episode < 200:
            os.kill(os.getpid(), number)

    with pytest.raises(Interrupted, match=r"saved at episode 250 \(step 2000\).* --resume") as e:
        train(out, COMPILED, checkpoint_seconds=1e9, progress=progress, say=lambda words: None)
    assert e.value.exit_code == code
    assert [signal.getsignal(n) for n in SIGNALS] == handlers
    assert [p.name for p in (out / "checkpoints").iterdir()] == [f"{2000:012d}"]
    first = []
    train(out, COMPILED, resume=True, progress=lambda report: first.append(report.episode))
    assert first[0] == 375
    assert_same_run(out, whole / "compiled")


@pytest.mark.usefixtures("_heeded_signals")
def test_a_second_ctrl_c_ends_at_once(tmp_path):
    def progress(report):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as e:
        train(tmp_path / "run", COMPILED, progress=progress, say=lambda words: None)
    assert not isinstance(e.value, Interrupted)


TINY = {"env": "deep_sea:size=4", "episodes": 20, "until": "budget"} | FAST


def test_resuming_nothing_is_reported(tmp_path):
    out = tmp_path / "run"
    with pytest.raises(RunError, match="does not exist, so there is nothing to resume"):
        train(out, TINY, resume=True)
    assert not out.exists()
    said = []
    with pytest.raises(Killed):
        train(out, TINY, resume="if_there", checkpoint_seconds=1e9, progress=killer(1), say=said.append)
    assert said == []
    train(out, TINY, resume=True, say=said.append)
    (note,) = said
    assert "no checkpoint yet" in note


def test_a_result_describes_its_means_and_the_policy_return(tmp_path):
    run = train(tmp_path / "run", TINY)
    result = runs.read_result(tmp_path / "run")
    assert run.result == result.to_json()
    assert (result.mean_return_episodes, result.greedy_return.episodes) == (20, 100)
    evaluated = tdu.evaluate(tmp_path / "run", episodes=100)
    assert result.greedy_return.mean == evaluated["mean_return"]
    assert result.greedy_return.standard_error == pytest.approx(evaluated["standard_error"])
    words = summary(result)
    assert "mean return of the last 20 episodes" in words
    assert f"The trained policy returns {result.greedy_return.mean:.3f} ± " in words
    assert "over 100 episodes" in words
    once = summary(dataclasses.replace(result, mean_return_episodes=1, episodes=1))
    assert "1 episode " in once
    assert "1 episodes" not in once
    assert tdu.train(**TINY, evaluation_episodes=0).result["greedy_return"] is None
    with pytest.raises(tdu.UserError, match="evaluation_episodes must be a whole number from 0"):
        tdu.train(**TINY, evaluation_episodes=-1)


def test_a_policy_that_was_better_earlier_is_reported(tmp_path):
    """Evaluations are compared with evaluations only, because training returns include exploration."""
    train(tmp_path / "run", TINY)
    result = runs.read_result(tmp_path / "run")

    def words(last, best, error=0.0, **changes):
        policy = dataclasses.replace(result.greedy_return, mean=last, standard_error=error)
        evaluated = None if best is None else (dataclasses.replace(policy, mean=best), 30, "tdu evaluate x --best")
        return summary(dataclasses.replace(result, greedy_return=policy, **changes), evaluated)

    assert "best evaluation was 0.900, at episode 30; tdu evaluate x --best" in words(0.0, 0.9)
    assert "best" in words(-200.0, -110.0)
    assert "best" not in words(0.85, 0.9)
    assert "best" not in words(0.0, 0.9, error=0.4)  # chance alone may explain it
    assert "best" not in words(0.0, None, mean_return=0.9, mean_return_episodes=100)


def test_a_run_prints_as_one_line(tmp_path):
    run = train(tmp_path / "run", TINY)
    mean, trained = (round(x, 4) for x in (run.result["mean_return"], run.result["greedy_return"]["mean"]))
    name = "Run(env='deep_sea:size=4', agent='tdu', seed=0, episodes=20"
    assert repr(run) == f"{name}, mastered_episode=None, evaluation_return={trained}, training_return={mean})"
    (tmp_path / "run" / "result.json").unlink()
    assert repr(tdu.load(tmp_path / "run")) == f"{name}, not finished)"


@pytest.mark.parametrize("name", ["result.json", "log.csv"])
def test_a_finished_run_that_was_changed_is_refused(tmp_path, name):
    out = tmp_path / "run"
    train(out, TINY)
    path = out / name
    path.write_text(path.read_text().replace("20", "21", 1))
    for use in (lambda: tdu.load(out), lambda: train(out, TINY, resume=True), lambda: tdu.evaluate(out)):
        with pytest.raises(RunError, match=f"{name} was changed after the run wrote it"):
            use()


def endless():
    """A task that never ends; its state counts the steps."""
    spec = EnvSpec("endless", (2,), 2)

    def timestep(count):
        observation = jnp.stack([count % 3, count % 2]).astype(jnp.float32)
        return TimeStep(observation, jnp.float32(1), jnp.float32(1), jnp.zeros((), bool))

    return Environment(
        spec,
        lambda key: (jnp.int32(0), timestep(jnp.int32(0))),
        lambda state, action, key: (state + 1, timestep(state + 1)),
        lambda state: {},
    )


def test_a_task_without_end_shows_logs_saves_and_stops_by_steps(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        CompiledRunner,
        "learner_rows",
        lambda self: [{"steps": self.clock.steps, "loss": np.float32(0.1)}],
        raising=False,
    )
    env, reports = endless(), []
    settings = {"env": env, "steps": 3500} | FAST
    run = train(tmp_path / "whole", settings, progress=reports.append)
    assert run.result["steps"] == 3500
    assert (run.result["episodes"], run.result["mean_return"], run.result["greedy_return"]) == (0, None, None)
    assert run.config.episodes is None
    assert [r.steps for r in reports] == [1000, 2000, 3000, 3500]
    show, close = display("plain", "run", None)
    show(reports[0])
    close()
    assert re.search(r"run: episode 0  (about \S+ left  )?no episode has ended yet", capsys.readouterr().err)
    learner = (tmp_path / "whole" / "learner.csv").read_text()
    assert learner == "steps,loss\n1000,0.1\n2000,0.1\n3000,0.1\n3500,0.1\n"
    out = tmp_path / "run"

    def stop(report):
        if report.steps == 2000:
            raise Killed

    with pytest.raises(Killed):
        train(out, settings, checkpoint_seconds=0, progress=stop)
    with open(out / "learner.csv", "a") as f:
        f.write("2100,0.")
    train(out, settings, resume=True)
    assert (out / "learner.csv").read_text() == learner
    assert_same_run(out, tmp_path / "whole")


def test_a_run_ends_by_steps_or_episodes_whichever_is_first():
    by_steps = tdu.train(**TINY, steps=18, evaluation_episodes=0).result
    assert (by_steps["steps"], by_steps["episodes"]) == (18, 4)
    assert tdu.train(**TINY, steps=10**6, evaluation_episodes=0).result["episodes"] == 20
    stepwise = tdu.train("bsuite:catch/0", steps=20, evaluation_episodes=0, **FAST).result
    assert (stepwise["steps"], stepwise["episodes"]) == (20, 2)


CONFIG = RunConfig(env="x", agent="tdu", seed=0, episodes=5, steps=None, num_envs=1, until="solved", config={})
RESULT = RunResult(
    env="x", agent="tdu", config={}, seed=0, episodes=5, steps=9, seconds=1.0, steps_per_second=None, mean_return=0.5,
    mean_return_episodes=5, has_solved_rule=False, solved_episode=None, greedy_return=None, largest_q=None,
    possible_return=None, config_sha256="1", log_sha256=None, checkpoint_sha256=None,
)  # fmt: skip


def with_checksum(content):
    content = {name: value for name, value in content.items() if name != "sha256"}
    return content | {"sha256": hashlib.sha256(canonical(content)).hexdigest()}


@pytest.mark.parametrize("record", [CONFIG, RESULT], ids=["config", "result"])
def test_a_record_with_a_field_missing_or_odd_is_refused(record):
    path, content, read = Path("some.json"), record.to_file(), type(record).from_json
    assert with_checksum(content) == content
    assert read(json.loads(json.dumps(content)), path) == record
    with pytest.raises(RunError, match=r"some.json is not a run's .*: sha256 is missing"):
        read(record.to_json(), path)
    with pytest.raises(RunError, match=r"some.json was changed"):
        read(content | {"seed": 1}, path)
    for name in record.to_json():
        absent = {k: v for k, v in content.items() if k != name}
        odd = [content | {name: [1]}, content | {name: float("nan")}]
        for wrong in odd if name == "greedy_return" else [absent, *odd]:
            with pytest.raises(RunError, match=f"some.json is not a run's .*: {name} is "):
                read(with_checksum(wrong), path)
    if record is CONFIG:
        with pytest.raises(RunError, match="colour is unknown"):
            read(with_checksum(content | {"colour": 3}), path)
        with pytest.raises(RunError, match="neither episodes nor steps"):
            read(with_checksum(content | {"episodes": None}), path)
