"""Runs with changed, lost or swapped files give the same numbers, a reported earlier checkpoint, or one sentence."""

import dataclasses
import json
import shutil
import tracemalloc

import pytest

import tdu
from tdu import cli
from tdu.errors import RunError
from tdu.run import folder as runs
from tdu.run.folder import RunConfig

TINY = {
    "env": "bsuite:catch/0",
    "episodes": 12,
    "hidden_sizes": (8,),
    "exploiters": 2,
    "explorers": 1,
    "evaluation_episodes": 0,
}


class Killed(BaseException):
    """Represents the end of the process."""


def killed(report):
    if report.episode >= 8:
        raise Killed


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two finished and two unfinished runs."""
    folder = tmp_path_factory.mktemp("made")
    for seed in (0, 1):
        tdu.train(**TINY, seed=seed, out=folder / "finished" / f"seed{seed}", checkpoint_seconds=0)
        out = folder / "unfinished" / f"seed{seed}"
        with pytest.raises(Killed):
            tdu.train(**TINY, seed=seed, out=out, checkpoint_seconds=0, progress=killed)
    return folder


@pytest.fixture
def finished(made, tmp_path):
    return shutil.copytree(made / "finished", tmp_path / "finished")


@pytest.fixture
def unfinished(made, tmp_path):
    return shutil.copytree(made / "unfinished", tmp_path / "unfinished")


def resume(out, seed=0, **changes):
    return tdu.train(**TINY, seed=seed, out=out, resume=True, **changes)


def checkpoints(out):
    return sorted((out / "checkpoints").iterdir())


def swap(a, b):
    """Swaps two files or folders."""
    parked = a.with_name("aside")
    a.rename(parked)
    b.rename(a)
    parked.rename(b)


def damage(checkpoint):
    (checkpoint / "arrays.safetensors").write_bytes(b"no")


def score(folder, capsys):
    code = cli.main(["score", str(folder), "--json"])
    return code, json.loads(capsys.readouterr().out)


def removed(out):
    shutil.rmtree(checkpoints(out)[-1])


def renamed(out):
    swap(*checkpoints(out)[-2:])


def of_another_run(out):
    swap(checkpoints(out)[-1], checkpoints(out.with_name("seed1"))[-1])


def learner_log(out):
    (out / "learner.csv").write_text("steps\n1\n")


HARMS = [lambda out: damage(checkpoints(out)[-1]), removed, renamed, of_another_run, learner_log]


@pytest.mark.parametrize("harm", HARMS)
def test_a_finished_run_s_agent_is_that_of_its_last_step_or_none(finished, harm):
    out = finished / "seed0"
    harm(out)
    said = []
    for use in (lambda: tdu.load(out), lambda: tdu.evaluate(out), lambda: resume(out, say=said.append)):
        with pytest.raises(RunError, match=r"is finished, but its last checkpoint cannot be used \(.*run it again"):
            use()
    assert said == []


def test_a_result_names_its_config_its_log_and_its_checkpoint(finished):
    out = finished / "seed0"
    config, result = runs.read_config(out), runs.read_result(out)
    assert result.belongs_to(config)
    assert result.config_sha256 == json.loads((out / "config.json").read_text())["sha256"]
    manifest = json.loads((checkpoints(out)[-1] / "manifest.json").read_text())
    assert (result.steps, result.checkpoint_sha256) == (manifest["step"], manifest["manifest_sha256"])
    assert result.log_sha256 == manifest["log"]["sha256"]


@pytest.mark.parametrize("name", ["config.json", "result.json"])
def test_a_record_of_another_run_is_refused(finished, capsys, name):
    swap(finished / "seed0" / name, finished / "seed1" / name)
    for use in (tdu.load, resume):
        with pytest.raises(RunError, match=r"result.json is not the result of the run|was started with seed=1"):
            use(finished / "seed0")
    code, found = score(finished, capsys)
    assert (code, sorted(found["damaged"])) == (2, ["seed0", "seed1"])


def test_a_result_in_a_run_that_goes_on_is_refused(finished, unfinished, capsys):
    shutil.copy(finished / "seed0" / "result.json", unfinished / "seed0")
    for use in (tdu.load, resume):
        with pytest.raises(RunError, match=r"log.csv was changed after the run wrote it"):
            use(unfinished / "seed0")
    assert list(score(unfinished, capsys)[1]["damaged"]) == ["seed0"]


def test_a_config_that_was_changed_or_has_no_checksum_is_refused(unfinished, capsys):
    path = unfinished / "seed0" / "config.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"episodes": 13}))
    with pytest.raises(RunError, match=r"config.json was changed after the run wrote it"):
        tdu.load(unfinished / "seed0")
    assert list(score(unfinished, capsys)[1]["damaged"]) == ["seed0"]
    original = content.pop("sha256")
    path.write_text(json.dumps(content))
    assert "sha256 is missing" in score(unfinished, capsys)[1]["damaged"]["seed0"]
    changed = dataclasses.replace(RunConfig.from_json(content | {"sha256": original}, path), seed=13)
    path.write_text(json.dumps(changed.to_file()))  # the checkpoints store the config too
    with pytest.raises(RunError, match="another run"):
        tdu.load(unfinished / "seed0")


def test_a_lost_config_is_named_and_resuming_leaves_no_other(finished, unfinished, capsys):
    for folder in (finished, unfinished):
        out = folder / "seed0"
        (out / "config.json").unlink()
        before = {p for p in out.rglob("*") if p.name != ".lock"}
        with pytest.raises(RunError, match=r"no config.json"):
            resume(out)
        assert {p for p in out.rglob("*") if p.name != ".lock"} == before
        code, found = score(folder, capsys)
        assert code == 2
        assert found["runs"] == 1
        assert "config.json is missing" in found["damaged"]["seed0"]


def test_messages_are_not_on_standard_output(unfinished, capsys):
    damage(checkpoints(unfinished / "seed0")[-1])
    assert cli.main(["evaluate", str(unfinished / "seed0"), "--episodes", "2", "--json"]) == 0
    output = capsys.readouterr()
    assert json.loads(output.out)["episodes"] == 2
    assert output.err.startswith("tdu: checkpoint ")
    assert output.err.count("\n") == 1


def test_an_unfinished_run_is_scored_as_its_last_checkpoint_has_it(unfinished, capsys):
    before = score(unfinished, capsys)
    assert (before[0], before[1]["notes"]) == (0, [])
    log = unfinished / "seed0" / "log.csv"
    whole = log.read_bytes()
    for more in (b"9,1e400,9,inf,", b"9,1\n", bytes(100), b"\xff\n"):
        log.write_bytes(whole + more)
        assert score(unfinished, capsys) == before
    log.write_bytes(whole)
    (checkpoints(log.parent)[-1] / "manifest.json").write_text("{}")
    code, found = score(unfinished, capsys)
    assert (code, found["damaged"]) == (0, {})
    (note,) = found["notes"]
    assert note.startswith("seed0: checkpoint ")
    swap(log, unfinished / "seed1" / "log.csv")
    code, found = score(unfinished, capsys)
    assert (code, list(found["damaged"])) == (2, ["seed0", "seed1"])
    assert "does not match log.csv" in found["damaged"]["seed1"]


@pytest.mark.parametrize("row", ["2,1", "2,inf,9,1.0", "2,1e400,9,1.0", f"2,{10**30},9,1.0"])
def test_a_log_with_an_odd_row_is_refused_unless_it_is_half_a_row(tmp_path, row):
    log = tmp_path / "log.csv"
    log.write_text(f"episode,steps,episode_len,episode_return\n1,9,9,1.0\n{row}\n")
    with pytest.raises(RunError, match=r"row 2 of .* has 2 cells|not a whole number"):
        runs.read_log(log)
    log.write_text(log.read_text()[:-1])
    assert runs.read_log(log)["episode"].tolist() == [1]


def test_a_long_log_is_read_without_holding_its_text(tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("episode,steps,episode_return\n" + "".join(f"{i},{i},0.{i}\n" for i in range(100_000)))
    tracemalloc.start()
    found = runs.read_log(log)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found["episode_return"][7] == 0.7
    assert peak < 3 * sum(column.nbytes for column in found.values())
