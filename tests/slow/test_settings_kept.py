"""What a run keeps when it is resumed: evaluations, its record, its best agent and the versions."""

import json
import shutil

import numpy as np
import pytest

import tdu
from tdu import cli
from tdu.environments.vector import PythonVector
from tdu.run import folder as runs
from tdu.run.folder import records
from tdu.run.runners.protocol import Saved
from tdu.run.runners.rows import Column

TINY = {
    "env": "deep_sea:size=4", "until": "budget", "hidden_sizes": (4,), "exploiters": 2, "explorers": 1,
    "checkpoint_seconds": 0, "progress": None, "say": lambda words: None,
}  # fmt: skip
WATCHED = {"evaluate_every": 5, "evaluation_episodes": 3, "record_every": 10}


class Killed(BaseException):
    """Represents the end of the process."""


def killing(after):
    def kill(row):
        if row["episode"] > after:
            raise Killed

    return [tdu.Callback(on_episode=kill)]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run of 30 episodes, and the same run killed after 12."""
    folder = tmp_path_factory.mktemp("made")
    tdu.train(**TINY, episodes=30, out=folder / "whole", **WATCHED)
    with pytest.raises(Killed):
        tdu.train(**TINY, episodes=30, out=folder / "cut", callbacks=killing(12), **WATCHED)
    return folder


@pytest.fixture
def cut(made, tmp_path):
    return shutil.copytree(made / "cut", tmp_path / "cut")


def evaluations(out):
    return runs.read_log(out / "evaluations.csv")["episode"].tolist()


def test_a_resumed_run_goes_on_evaluating_and_recording(made, cut):
    """`--resume` needs no other option."""
    assert cli.main(["train", "--resume", "--out", str(cut), "--progress", "none"]) == 0
    assert evaluations(cut) == evaluations(made / "whole") == [5, 10, 15, 20, 25, 30]
    assert (cut / "record.jsonl").read_bytes() == (made / "whole" / "record.jsonl").read_bytes()
    for name in ("evaluations.csv", "config.json"):
        assert (cut / name).read_bytes() == (made / "whole" / name).read_bytes()


def test_a_resumed_run_goes_on_evaluating_in_python(cut):
    tdu.train(**TINY, episodes=30, out=cut, resume=True)
    assert evaluations(cut) == [5, 10, 15, 20, 25, 30]


def test_another_run_from_its_config_evaluates_and_records(made, tmp_path):
    out = tmp_path / "like"
    words = ["train", "--config", str(made / "whole" / "config.json"), "--seed", "5", "--episodes", "12"]
    assert cli.main([*words, "--out", str(out), "--progress", "none"]) == 0
    assert evaluations(out) == [5, 10]
    assert (out / "record.jsonl").exists()
    assert json.loads((out / "config.json").read_text())["evaluation_episodes"] == 3


def test_evaluations_may_change_on_a_resume_and_do_not_rename_a_run(cut):
    before = runs.read_config(cut)
    said = []
    tdu.train(**TINY | {"say": said.append}, episodes=30, out=cut, resume=True, evaluate_every=10)
    assert any("evaluate_every" in words and "10" in words for words in said)
    assert evaluations(cut) == [5, 10, 20, 30]
    after = runs.read_config(cut)
    assert (before.evaluate_every, after.evaluate_every) == (5, 10)
    assert before.digest() == after.digest()


def test_the_best_agent_is_of_one_moment(made):
    best = tdu.load(made / "whole", best=True)
    assert best.result == {}
    best_row = best.evaluations["greedy_return"].argmax()
    assert best_row == len(best.evaluations["episode"]) - 1
    assert best.evaluations["episode"][best_row] == len(best.log["episode"])


def test_a_best_agent_newer_than_the_last_checkpoint_gives_way_to_the_one_before(tmp_path):
    config = runs.RunConfig("x", "tdu", 0, 5, None, 1, "budget", {})

    def saved(step, *, best):
        state = Saved({"w": np.full(2, step)}, {}, {})
        return folder.save_checkpoint(state, step=step, config=config, seconds=1.0, best=best)

    def best_agent():
        return runs.best_checkpoint(tmp_path / "run", config, Saved({"w": np.zeros(2, int)}, {}, {}))[1].step

    folder = runs.Folder(tmp_path / "run", resume=False)
    folder.write_config(config)
    folder.open_logs((Column("episode", whole=True),), None)
    saved(1, best=True)
    at = saved(2, best=False)
    folder.append(runs.LOG, [{"episode": 1}])
    for step in (3, 4):
        saved(step, best=True)
    assert best_agent() == 4
    folder.close()
    folder = runs.Folder(tmp_path / "run", resume=True)
    folder.open_logs((Column("episode", whole=True),), at)
    assert best_agent() == 1

    saved(5, best=True)
    saved(6, best=False)
    assert best_agent() == 5
    folder.close()
    folder = runs.Folder(tmp_path / "run", resume=True)  # the checkpoint of step 6 turned out to be damaged
    folder.open_logs((Column("episode", whole=True),), at)
    assert best_agent() == 1
    saved(7, best=False)
    saved(8, best=True)
    saved(9, best=False)
    assert [int(one.name) for one in sorted((tmp_path / "run" / "best").iterdir())] == [1, 8]
    saved(10, best=False)
    assert [int(one.name) for one in (tmp_path / "run" / "best").iterdir()] == [8]
    folder.close()


def test_a_run_with_a_checkpoint_is_never_withdrawn(tmp_path):
    config = runs.RunConfig("x", "tdu", 0, 5, None, 1, "budget", {})
    for name in ("begun", "saved"):
        folder = runs.Folder(tmp_path / name, resume=False)
        folder.write_config(config)
        folder.open_logs((Column("episode", whole=True),), None)
        if name == "saved":
            folder.save_checkpoint(Saved({"w": np.zeros(2)}, {}, {}), step=1, config=config, seconds=1.0)
        folder.withdraw()
        folder.close()
    assert [path.name for path in tmp_path.iterdir()] == ["saved"]


def test_a_resume_under_other_versions_is_reported(cut, monkeypatch):
    (now,) = [records.versions()]
    assert {"tdu", "jax", "jaxlib", "numpy", "precision"} == now.keys()
    monkeypatch.setattr(records.metadata, "version", lambda name: "9.9")
    said = []
    tdu.train(**TINY | {"say": said.append}, episodes=30, out=cut, resume=True)
    assert [words for words in said if "jax" in words and "9.9" in words]
    assert [some["jax"] for some in runs.read_result(cut).versions] == [now["jax"], "9.9"]


def test_what_a_power_cut_left_after_the_last_checkpoint_does_not_prevent_a_resume(cut):
    with (cut / "evaluations.csv").open("ab") as f:
        f.write(b"\0\0\0,\0\n")
    tdu.train(**TINY, episodes=30, out=cut, resume=True)
    assert evaluations(cut) == [5, 10, 15, 20, 25, 30]


def test_a_run_that_cannot_begin_closes_its_environment(monkeypatch):
    closed = []
    monkeypatch.setattr(PythonVector, "close", lambda vector: closed.append(vector))
    with pytest.raises(ZeroDivisionError):
        tdu.train(**TINY | {"env": "bsuite:catch/0"}, episodes=3, callbacks=[tdu.Callback(on_start=lambda run: 1 / 0)])
    assert len(closed) == 1
