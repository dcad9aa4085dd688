"""Hostile or damaged run folders: one error sentence, no code executed, no outside file touched, nothing lost."""

import base64
import contextlib
import hashlib
import json
import os
import shutil
import sys
import tracemalloc
import zlib

import numpy as np
import pytest

import tdu
from tdu import cli, files
from tdu.errors import RunError
from tdu.run import consent
from tdu.run.folder import read_log, snapshots
from tdu.run.folder.records import canonical

TINY = {
    "env": "deep_sea:size=4", "episodes": 30, "until": "budget", "hidden_sizes": (4,), "exploiters": 2, "explorers": 1,
    "evaluation_episodes": 0, "checkpoint_seconds": 0, "progress": None,
}  # fmt: skip


class Killed(BaseException):
    """Represents the end of the process."""


def kill(row):
    if row["episode"] == 20:
        raise Killed


def train(out, **changes):
    return tdu.train(**TINY | {"out": out, "say": lambda words: None} | changes)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A finished run, and a run that was killed after several checkpoints."""
    folder = tmp_path_factory.mktemp("made")
    train(folder / "finished")
    with pytest.raises(Killed):
        train(folder / "unfinished", callbacks=[tdu.Callback(on_episode=kill)], evaluate_every=2, evaluation_episodes=1)
    return folder


@pytest.fixture
def finished(made, tmp_path):
    return shutil.copytree(made / "finished", tmp_path / "sweep" / "finished")


@pytest.fixture
def unfinished(made, tmp_path):
    return shutil.copytree(made / "unfinished", tmp_path / "sweep" / "unfinished")


def resume(out, **changes):
    return train(out, resume=True, evaluate_every=2, evaluation_episodes=1, **changes)


def contents(folder):
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name != ".lock"}


def refused(capsys, *words):
    """Runs a command that must end with exit code 2 and one sentence; returns the sentence."""
    assert cli.main([*map(str, words)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("tdu: ")
    assert error.count("\n") == 1
    return error


def rewrite(path, **changes):
    """Changes values of a record and updates its checksum."""
    content = json.loads(path.read_text()) | changes
    del content["sha256"]
    path.write_text(json.dumps(content | {"sha256": hashlib.sha256(canonical(content)).hexdigest()}))


# Missing or unreadable checkpoints.


def missing(checkpoints):
    pass


def empty(checkpoints):
    checkpoints.mkdir()


def dangling(checkpoints):
    checkpoints.symlink_to("/nowhere/at/all")


def not_a_folder(checkpoints):
    checkpoints.write_text("")


@pytest.mark.parametrize("how", [missing, empty, dangling, not_a_folder])
def test_a_run_whose_checkpoints_are_out_of_reach_does_not_begin_anew(unfinished, how):
    checkpoints, kept = unfinished / "checkpoints", unfinished.parent / "kept"
    checkpoints.rename(kept)
    how(checkpoints)
    before = contents(unfinished)
    with pytest.raises(RunError, match=r"missing|cannot be read"):
        resume(unfinished)
    assert contents(unfinished) == before
    if how is not missing:
        (shutil.rmtree if how is empty else os.unlink)(checkpoints)
    kept.rename(checkpoints)
    assert resume(unfinished).result["episodes"] == 30


@pytest.mark.parametrize("name", ["object:Foo", "object:Foo:(4,):x", f"object:Foo:({'9' * 5000},):2"])
def test_a_config_with_a_damaged_name_of_an_object_is_refused(unfinished, name, capsys):
    rewrite(unfinished / "config.json", env=name)
    assert cli.main(["evaluate", str(unfinished), "--env", "gym:CartPole-v1"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


# Links that leave the folder.


@pytest.mark.parametrize("name", ["log.csv", "learner.csv", "evaluations.csv", ".lock"])
def test_nothing_is_written_through_a_link(unfinished, tmp_path, name):
    victim = tmp_path / "victim"
    victim.write_bytes((unfinished / name).read_bytes() if (unfinished / name).exists() else b"mine\n")
    before = victim.read_bytes()
    (unfinished / name).unlink(missing_ok=True)
    (unfinished / name).symlink_to(victim)
    with contextlib.suppress(RunError):
        resume(unfinished)
    assert victim.read_bytes() == before


def test_a_file_is_replaced_and_not_what_it_links_to(tmp_path):
    victim, page = tmp_path / "victim", tmp_path / "report.html"
    victim.write_text("mine")
    for name in (".report.html.writing", "report.html"):
        (tmp_path / name).symlink_to(victim)
    files.write_atomically(page, b"new")
    assert (victim.read_text(), page.read_text(), page.is_symlink()) == ("mine", "new", False)


def test_only_our_own_checkpoints_are_deleted(unfinished, tmp_path):
    victim = tmp_path / "victim"
    shutil.copytree(unfinished / "checkpoints", victim)
    shutil.rmtree(unfinished / "checkpoints")
    (unfinished / "checkpoints").symlink_to(victim)
    precious = [victim / name / "photo.jpg" for name in ("2023", "000000000001", "202311181200", ".writing-mine")]
    for photo in precious:
        photo.parent.mkdir()
        photo.write_text("mine")
    (victim / ".writing-link").symlink_to(precious[0].parent)
    with contextlib.suppress(RunError):
        resume(unfinished)
    assert all(photo.read_text() == "mine" for photo in precious)


# Names and files that cannot be opened.


@pytest.mark.parametrize("command", [
    ["evaluate"], ["watch"], ["score"], ["report"], ["plot", "--out", "figure.svg"], ["train", "--config"],
    ["train", "catch/0", "--resume", "--out"], ["train", "catch/0", "--out"], ["train", "catch/0", "--seeds", "2", "--out"],
    ["sweep", "catch/0", "--out"], ["demo", "--out"],
])  # fmt: skip
def test_a_name_that_is_too_long_is_refused_in_one_sentence(command, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "n" * 300
    words = [*command, name] if "--out" not in command or command[-1] == "--out" else [command[0], name, *command[1:]]
    assert "File name too long" in refused(capsys, *words)


@pytest.mark.parametrize("name", ["config.json", "result.json", "log.csv", "evaluations.csv"])
@pytest.mark.parametrize("kind", ["fifo", "zero", "folder"])
def test_only_regular_files_are_opened(finished, unfinished, capsys, name, kind):
    out = unfinished if name == "evaluations.csv" else finished
    (out / name).unlink()
    if kind == "fifo":
        os.mkfifo(out / name)
    elif kind == "zero":
        (out / name).symlink_to("/dev/zero")
    else:
        (out / name).mkdir()
    refused(capsys, "evaluate", out, "--episodes", "1")
    cli.main(["score", str(out.parent), "--json"])
    assert json.loads(capsys.readouterr().out)["runs"] == 1


# Numbers out of range.


HUGE = int("9" * 400)
DEEP = {"beta": json.loads("[" * 300 + "]" * 300)}


@pytest.mark.parametrize("changes", [{"seed": 2**64}, {"num_envs": 10**9}, {"steps": HUGE}, {"config": DEEP}])
def test_a_config_with_a_number_out_of_range_is_refused(finished, unfinished, capsys, changes):
    path = finished / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    refused(capsys, "train", "--config", path, "--out", finished / "new")
    rewrite(path, **changes)
    refused(capsys, "evaluate", finished)
    refused(capsys, "train", "--resume", "--out", finished)
    assert cli.main(["score", str(finished.parent), "--json"]) == 2
    found = json.loads(capsys.readouterr().out)
    assert (found["runs"], [*found["damaged"]]) == (1, ["finished"])


@pytest.mark.parametrize("changes", [{"episodes": HUGE}, {"mean_return": HUGE}, {"mean_return": float("nan")}])
def test_a_result_with_a_number_out_of_range_is_refused(finished, changes):
    rewrite(finished / "result.json", **changes)
    with pytest.raises(RunError, match=f"{next(iter(changes))} is not"):
        tdu.load(finished)


@pytest.mark.parametrize(("cell", "why"), [("1000000000", "head"), ("-1", "head"), ("9" * 400, "head")])
def test_a_log_with_a_head_out_of_range_is_refused(finished, cell, why):
    log = finished / "log.csv"
    header, first, *rest = log.read_text().splitlines()
    cells = first.split(",")
    cells[header.split(",").index("head")] = cell
    log.write_text("\n".join([header, ",".join(cells), *rest]) + "\n")
    with pytest.raises(RunError, match=why):
        read_log(log)


def test_a_log_without_line_breaks_is_refused(tmp_path):
    (tmp_path / "log.csv").write_bytes(b"1" * 2**21)
    with pytest.raises(RunError, match="too long"):
        read_log(tmp_path / "log.csv")


def record_with(path, data, shape):
    array = {"dtype": "float16", "shape": shape, "data": data}
    layers = {"visits": [2, 1], "value": shape}
    here = {"kind": "deep_sea", "rows": 1, "columns": 1, "goal": 0, "cells": [0], "layers": layers}
    visits = snapshots.packed(np.zeros((2, 1), np.int32))
    moment = {"episode": 1, "steps": 1, "bonus": None, "td": None, "td_size": None, "path": [0]}
    about = {"format": snapshots.FORMAT, "exploiters": 2, "explorers": 1, "quantiles": [], "map": here}
    path.write_bytes(snapshots.line(about) + snapshots.line(moment | {"maps": {"visits": visits, "value": array}}))


@pytest.mark.parametrize("shape", [[1], [2**27], [-1]])
def test_a_record_is_not_unpacked_beyond_its_size(tmp_path, shape):
    """The arrays of a record of a few kilobytes would unpack to 64 MB."""
    record_with(tmp_path / "fine", snapshots.packed(np.zeros(1, np.float16))["data"], [1])
    assert len(snapshots.read(tmp_path / "fine").snapshots) == 1
    packing, zeros = zlib.compressobj(9), bytes(2**22)
    data = b"".join(packing.compress(zeros) for _ in range(16)) + packing.flush()
    record_with(tmp_path / "record.jsonl", base64.b64encode(data).decode(), shape)
    tracemalloc.start()
    with pytest.raises(RunError, match="not a run's record"):
        snapshots.read(tmp_path / "record.jsonl")
    largest = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert largest < 2**23


# Code named in a folder.

TASK = """
from tdu import environments

def make():
    with open("called", "a") as f:
        f.write("x")
    return environments.make("deep_sea:size=3")
"""


def killed_at_once(row):
    raise Killed


QUICK = TINY | {"env": "python:task:make", "episodes": 3}


@pytest.fixture
def calls(tmp_path, monkeypatch):
    """A function that counts how often the environment of `task.py` in the working folder was made."""
    (tmp_path / "task.py").write_text(TASK)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "called").touch()
    return lambda: (tmp_path / "called").stat().st_size


@pytest.mark.parametrize("env", ["python:os:abort", "gym:evil:Foo-v0", "python:evil:make"])
def test_a_module_that_a_file_names_is_not_imported(env, tmp_path, capsys, calls):
    (tmp_path / "evil.py").write_text(TASK + "make()")
    (tmp_path / "config.json").write_text(json.dumps({"env": env, "episodes": 1}))
    error = refused(capsys, "train", "--config", "config.json")
    assert f"'{env.split(':')[1]}'" in error
    assert "--trust" in error
    assert calls() == 0


def test_a_run_on_the_user_s_module_is_used_with_consent_only(calls, capsys, tmp_path):
    out = tmp_path / "run"
    said = {"say": lambda words: None}
    with pytest.raises(Killed):
        tdu.train(**QUICK, out=out, callbacks=[tdu.Callback(on_episode=killed_at_once)], **said)
    before = calls()
    commands = [["evaluate", out], ["watch", out], ["train", "--resume", "--out", out], ["train", "--config", out]]
    for words in commands:
        assert "'task'" in refused(capsys, *words)
    for use in (tdu.load, tdu.evaluate, lambda path, **how: tdu.train(config=path, **how)):
        with pytest.raises(RunError, match="trust=True"):
            use(out)
    assert calls() == before
    assert cli.main(["train", "python:task:make", "--resume", "--out", str(out), "--progress", "none"]) == 0
    assert cli.main(["evaluate", str(out), "--episodes", "1", "--trust"]) == 0
    assert len(tdu.load(out, trust=True).log["episode"]) == len(tdu.load(out, "python:task:make").log["episode"]) == 3
    before = calls()
    for path in (out / "checkpoints").glob("*9/arrays.safetensors"):
        path.write_bytes(b"no")
    with pytest.raises(RunError, match="can be used"):
        tdu.load(out, trust=True)
    assert calls() == before


def test_the_config_of_a_loaded_run_needs_consent_too(calls, monkeypatch, tmp_path):
    (tmp_path / "evil.py").write_text(TASK)
    tdu.train(**QUICK | {"env": "python:evil:make", "say": lambda words: None}, out=tmp_path / "run")
    monkeypatch.setattr(consent, "_typed", set())  # as in a new process
    monkeypatch.delitem(sys.modules, "evil")
    (tmp_path / "evil.py").write_text("raise SystemExit('imported')")
    run = tdu.load(tmp_path / "run", "python:task:make")
    for use in (lambda: tdu.train(config=run.config), lambda: run.train(episodes=5)):
        with pytest.raises(RunError, match="evil"):
            use()


# Pages, scores and figures of a sweep with one damaged run.


def log_with(out, **cells):
    """Changes values in the first row of a run's log. Also deletes the run's result and checkpoints."""
    (out / "result.json").unlink()
    shutil.rmtree(out / "checkpoints")
    lines = (out / "log.csv").read_text().splitlines()
    header = lines[0].split(",")
    row = dict(zip(header, lines[1].split(","), strict=True)) | cells
    (out / "log.csv").write_text("\n".join([lines[0], ",".join(row.values()), *lines[2:]]) + "\n")


def config_with(out, **changes):
    log_with(out)
    rewrite(out / "config.json", **changes)


def option_with(out, **changes):
    config_with(out, config=json.loads((out / "config.json").read_text())["config"] | changes)


@pytest.mark.parametrize("harm", [
    lambda out: config_with(out, env="deep_sea:size=4\x1b]0;evil\x07"),
    lambda out: config_with(out, env="gym:" + "x" * 10**6),
    lambda out: option_with(out, exploiters="many"),
    lambda out: option_with(out, exploiters=10**9),
    lambda out: option_with(out, **{"\x1b[31m": 1}),
    lambda out: log_with(out, head="60000"),
    lambda out: log_with(out, episode_return="1.7e308"),
    lambda out: log_with(out, steps=str(2**53)),
    lambda out: os.mkfifo(out / "film.gif"),
    lambda out: (out / "record.jsonl").symlink_to("/dev/zero"),
])  # fmt: skip
def test_one_bad_run_does_not_spoil_the_others(finished, tmp_path, capsys, harm):
    bad = shutil.copytree(finished, finished.parent / "spoilt")
    harm(bad)
    page = tmp_path / "page.html"
    assert cli.main(["report", str(finished.parent), "--out", str(page)]) in (0, 2)
    assert cli.main(["score", str(finished.parent)]) in (0, 2)
    assert cli.main(["plot", str(finished.parent), "--out", str(tmp_path / "figure.svg")]) in (0, 2)
    captured = capsys.readouterr()
    text = page.read_text()
    assert len(text) < 2e6
    assert "\x1b" not in captured.out + captured.err + text
    assert "deep_sea:size=4" in captured.out
    assert 'class="card"' in text
    assert (tmp_path / "figure.svg").stat().st_size > 1000
    assert "spoilt" in captured.err + text


def test_results_are_read_from_regular_files_only(tmp_path, capsys):
    results = tmp_path / "results"
    results.mkdir()
    (results / "runs.csv").write_text("a,b\n1,2\n")
    (results / "more.csv").symlink_to("/dev/zero")
    os.mkfifo(results / "README.md")
    os.mkfifo(results / "figure.png")
    assert cli.main(["report", str(results), "--out", str(tmp_path / "page.html")]) == 2
    error = capsys.readouterr().err
    assert "more.csv is left out" in error
    assert "README.md is left out" in error
    assert "runs.csv" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("plain", [{}, {"progress": HUGE}, {"clock": [[]]}])
def test_a_checkpoint_whose_checksum_fits_and_whose_content_does_not_is_refused(unfinished, plain):
    for path in (unfinished / "checkpoints").glob("*/manifest.json"):
        content = json.loads(path.read_text()) | {"plain": plain}
        del content["manifest_sha256"]
        digest = hashlib.sha256(canonical(content)).hexdigest()
        path.write_text(json.dumps(content | {"manifest_sha256": digest}))
    with pytest.raises(RunError, match="does not fit this run"):
        resume(unfinished)
