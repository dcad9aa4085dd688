"""A run's folder: resuming is exact, damage is passed over, nothing of the user's is touched."""

import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file

import tdu
from tdu import runs
from tdu.errors import RunError
from tdu.runners.rows import WALL_TIME

FAST = {"hidden_sizes": (8,), "exploiters": 2, "explorers": 1, "batch_size": 8, "min_replay": 16}
COMPILED = {"env": "deep_sea:size=8,stochastic=true", "episodes": 400, "stop": False, "seed": 5} | FAST
OTHERWISE = COMPILED | {
    "dense": True,
    "head_choice": "ucb1",
    "mask_prob": 0.5,
    "noise_scale": 0.1,
    "bootstrap": "double",
}
CATCH = {"env": "catch/0", "episodes": 30, "seed": 5} | FAST
STEPWISE = {"env": "bsuite:deep_sea_stochastic/0", "episodes": 30, "stop": False, "seed": 5} | FAST


CASES = {"compiled": COMPILED, "stepwise": STEPWISE, "otherwise": OTHERWISE, "catch": CATCH}


class Killed(BaseException):
    """Stands for the end of the process: nothing in the library catches it."""


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
    state = newest / "state-mind.safetensors"
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
    """A damaged checkpoint is set aside: it neither pushes good ones out nor is tried again."""
    out = tmp_path / "run"
    with pytest.raises(Killed):
        train(out, COMPILED, checkpoint_seconds=0, progress=killer(300))
    newest = sorted((out / "checkpoints").iterdir())[-1]
    (newest / "state-mind.safetensors").write_bytes(b"no")
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
    np.testing.assert_allclose(run.log["episode_return"], again.log["episode_return"], rtol=1e-6)
    for state in (*range(64), np.zeros((8, 8))):
        np.testing.assert_array_equal(run.agent.values(state), again.agent.values(state))
    grid = np.zeros((8, 8))
    grid[2, 1] = 1
    assert run.agent.act(grid) == run.agent.act(17)


@pytest.mark.parametrize("name", ["compiled", "catch"])
def test_evaluation_is_the_greedy_policy_s_return(whole, name):
    found = tdu.evaluate(whole / name, episodes=20, seed=1)
    assert found == tdu.evaluate(whole / name, episodes=20, seed=1)
    assert found["min_return"] <= found["mean_return"] <= found["max_return"]
    best = {"compiled": 4.0, "catch": 1.0}[name]
    assert -best <= found["min_return"]
    assert found["max_return"] <= best
    with pytest.raises(tdu.UserError, match="episodes must be a whole number"):
        tdu.evaluate(whole / name, episodes=0)


def test_what_is_refused(whole, tmp_path):
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
    with pytest.raises(RunError, match="not a run's folder"):
        tdu.load(stranger)


def test_a_folder_in_use_is_refused(tmp_path):
    folder = runs.Folder(tmp_path / "run", resume=False)
    with pytest.raises(RunError, match="in use by another process"):
        train(tmp_path / "run", COMPILED)
    folder.close()


def test_a_loss_that_explodes_is_said(tmp_path):
    with pytest.raises(tdu.UserError, match="try a smaller learning_rate"):
        tdu.train("deep_sea:size=5", episodes=300, stop=False, **(FAST | {"learning_rate": 1e30}))
