"""A run that is trained longer equals a run that had the larger budget from the start."""

import json

import jax
import numpy as np
import pytest
from test_your_own import Corridor

import tdu
from tdu.cli import main

HOW = {"seed": 3, "until": "budget", "evaluation_episodes": 3, "progress": None, "say": lambda words: None}
NETWORKS = {"hidden_sizes": (8,), "exploiters": 2, "explorers": 1, "min_replay": 16, "batch_size": 8}
TASK = "deep_sea:size=4"


def assert_same(run, other):
    """Asserts that logs, agents and results are equal, except for times and checksums."""
    for ours, theirs in ((run.log, other.log), (run.evaluations, other.evaluations)):
        assert list(ours) == list(theirs)
        for name in ours.keys() - {"seconds"}:
            np.testing.assert_array_equal(ours[name], theirs[name], name)
    for x, y in zip(*(jax.tree.leaves(r.agent.params) for r in (run, other)), strict=True):
        np.testing.assert_array_equal(x, y)
    results = [{k: v for k, v in r.result.items() if "second" not in k and "sha256" not in k} for r in (run, other)]
    assert results[0] == results[1]
    assert run.config == other.config


@pytest.mark.parametrize("env", [TASK, Corridor], ids=["compiled", "stepwise"])
def test_a_longer_run_equals_one_that_was_longer_from_the_start(env, tmp_path):
    make = (lambda: env) if env is TASK else env
    how = HOW | NETWORKS | {"evaluate_every": 20}
    whole = tdu.train(make(), steps=410, **how)
    short = tdu.train(make(), steps=150, **how)
    watched = {name: how[name] for name in ("evaluation_episodes", "progress", "say", "evaluate_every")}
    assert_same(short.train(steps=410, **watched), whole)
    assert_same(short.train(steps=410, **watched), whole)  # the shorter run is unchanged

    folder = tmp_path / "run"
    short.save(folder)
    resumed = tdu.train(make(), steps=410, out=folder, resume=True, **how)
    assert_same(resumed, whole)
    assert_same(tdu.load(folder, None if env is TASK else make()), whole)
    with pytest.raises(tdu.UserError, match="copy that folder"):
        resumed.save(tmp_path / "again")
    if env is TASK:
        assert_same(tdu.load(folder).train(steps=500, **watched), tdu.train(env, steps=500, **how))


def test_a_run_that_a_callback_stopped_goes_on(tmp_path):
    stop = tdu.Callback(on_episode=lambda row: row["episode"] < 5)
    how = {"env": Corridor(), "episodes": 40} | HOW | NETWORKS
    whole = tdu.train(**how)
    stopped = tdu.train(**how, out=tmp_path / "run", callbacks=[stop])
    assert stopped.result["episodes"] == 5
    assert tdu.train(**how, out=tmp_path / "run", resume="if_there").result["episodes"] == 5
    assert_same(tdu.train(**how, out=tmp_path / "run", resume=True), whole)


def test_a_saved_run_is_an_ordinary_folder(tmp_path, capsys):
    how = HOW | NETWORKS | {"episodes": 40, "evaluate_every": 15}
    direct = tdu.train(TASK, out=tmp_path / "direct", **how)
    tdu.train(TASK, **how).save(tmp_path / "saved")
    assert_same(tdu.load(tmp_path / "saved"), direct)
    for name in ("learner.csv", "evaluations.csv", "config.json"):
        assert (tmp_path / "saved" / name).read_bytes() == (tmp_path / "direct" / name).read_bytes()
    assert main(["evaluate", str(tmp_path / "saved"), "--episodes", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["episodes"] == 2
    with pytest.raises(tdu.UserError, match="already exists"):
        tdu.train(TASK, **how).save(tmp_path / "saved")


@pytest.mark.parametrize("env", [TASK, Corridor], ids=["compiled", "stepwise"])
def test_a_run_without_a_folder_keeps_its_best_agent(env, tmp_path):
    make = (lambda: env) if env is TASK else env
    how = HOW | NETWORKS | {"evaluate_every": 15}
    direct = tdu.train(make(), out=tmp_path / "direct", episodes=60, **how)
    watched = {name: how[name] for name in ("evaluation_episodes", "progress", "say", "evaluate_every")}
    short = tdu.train(make(), episodes=40, **how)
    short.train(episodes=60, **watched).save(tmp_path / "saved")
    saved, best = (
        tdu.load(tmp_path / name, None if env is TASK else make(), best=True) for name in ("saved", "direct")
    )
    assert_same(saved, best)
    assert len(saved.log["episode"]) == direct.evaluations["episode"][direct.evaluations["greedy_return"].argmax()]


def test_the_command_line_trains_longer_and_refuses_what_is_not_longer(tmp_path, capsys):
    out, words = tmp_path / "run", ["--hidden-sizes", "8", "--exploiters", "2", "--explorers", "1", "--until", "budget"]
    run = ["train", TASK, *words, "--out", str(out), "--progress", "none", "--evaluation-episodes", "0"]
    assert main([*run, "--steps", "120"]) == 0
    assert main([*run, "--steps", "200", "--resume"]) == 0
    assert tdu.load(out).result["steps"] == 200
    capsys.readouterr()
    assert main([*run, "--steps", "100", "--resume"]) == 2
    assert "200 steps" in capsys.readouterr().err
    assert main([*run, "--steps", "300", "--resume", "--beta", "3"]) == 2
    said = capsys.readouterr().err
    assert "beta=" in said
    assert "steps=" not in said
    assert main([*run, "--steps", "200", "--resume"]) == 0
    said = capsys.readouterr().err
    assert all(words in said for words in ("finished already", "--steps", "--episodes"))
    assert "--until" not in said
    assert tdu.load(out).result["steps"] == 200


def test_a_finished_run_that_cannot_be_trained_longer_stays_as_it_is(tmp_path):
    out = tmp_path / "run"
    how = {"env": TASK, "out": out, "until": "budget"} | HOW | NETWORKS
    tdu.train(**how, episodes=5)
    before = {name: (out / name).read_bytes() for name in ("config.json", "result.json", "log.csv")}
    with pytest.raises(tdu.UserError, match="evaluate_every"):
        tdu.train(**how, episodes=9, until_return=5, resume=True)
    (out / "checkpoints").rename(tmp_path / "elsewhere")
    with pytest.raises(tdu.UserError, match="checkpoints"):
        tdu.train(**how, episodes=9, resume=True)
    assert {name: (out / name).read_bytes() for name in before} == before
    (tmp_path / "elsewhere").rename(out / "checkpoints")
    assert tdu.train(**how, episodes=9, resume=True).result["episodes"] == 9


def test_a_task_that_is_solved_is_trained_on_with_until_budget():
    said = []
    options = NETWORKS | {"evaluation_episodes": 0, "progress": None}
    run = tdu.train(TASK, episodes=2000, seed=1, until="solved", say=said.append, **options)
    episodes = run.result["episodes"]
    assert episodes == run.result["solved_episode"] < 2000
    assert run.train(episodes=3000, say=said.append) is run
    assert f"solved at episode {episodes}" in said[-1]
    assert 'until="budget"' in said[-1]
    assert "--" not in said[-1]
    assert "steps" not in said[-1]
    assert run.train(until="budget", episodes=episodes + 7, progress=None).result["episodes"] == episodes + 7


def test_a_run_that_reached_its_return_is_finished(tmp_path):
    how = HOW | NETWORKS | {"env": Corridor(), "episodes": 60, "evaluate_every": 5, "out": tmp_path / "run"}
    run = tdu.train(**how, until_return=-100)
    assert run.result["episodes"] == 5
    assert tdu.train(**how, until_return=-100, resume=True).result["episodes"] == 5
    assert tdu.train(**how, resume=True).result["episodes"] == 60


def test_until_budget_trains_on_after_a_return_was_reached(tmp_path):
    out, said, reached = tmp_path / "run", [], {"until_return": -100, "episodes": 60}
    how = HOW | NETWORKS | {"evaluate_every": 5}
    more = {"until": "budget", "episodes": 8, "progress": None, "say": said.append}
    memory, stored = (tdu.train(TASK, **how | reached | extra) for extra in ({}, {"out": out}))
    assert memory.result["reached_return"] == memory.evaluations["greedy_return"][-1]
    assert memory.train(**more, until_return=-100).result["episodes"] == 5
    assert all(words in said[-1] for words in ("returned", 'until="budget"', "until_return"))
    assert "--" not in said[-1]
    longer = tdu.train(TASK, **how | {"episodes": 8})
    for run in (memory, stored):
        assert_same(run.train(**more, until_return=None), longer)


def test_the_command_line_trains_on_after_a_return_was_reached(tmp_path, capsys):
    out = str(tmp_path / "run")
    words = ["--hidden-sizes", "8", "--exploiters", "2", "--explorers", "1", "--evaluation-episodes", "3"]
    run = ["train", TASK, *words, "--out", out, "--progress", "none", "--until-return", "-100"]
    assert main([*run, "--episodes", "60"]) == 2
    assert "--evaluate-every" in capsys.readouterr().err
    run += ["--evaluate-every", "5"]
    assert main([*run, "--episodes", "60"]) == 0
    assert "--until-return" in capsys.readouterr().out
    assert main([*run, "--resume"]) == 0
    said = capsys.readouterr().err
    assert "returned" in said
    assert "--until budget" in said
    assert "--steps" not in said
    assert main(["train", "--out", out, "--resume", "--until", "budget", "--episodes", "8", "--progress", "none"]) == 0
    assert "--until-return" not in capsys.readouterr().out
    assert tdu.load(out).result["episodes"] == 8


def test_several_seeds(tmp_path):
    how = HOW | NETWORKS | {"episodes": 20, "out": tmp_path}
    del how["seed"]
    several = tdu.train(TASK, seeds=[4, 2], **how)
    assert [run.config.seed for run in several] == [4, 2]
    assert_same(several[1], tdu.train(TASK, **how | {"seed": 2, "out": None}))
    returns = [run.result["greedy_return"]["mean"] for run in several]
    assert several.mean == pytest.approx(np.mean(returns))
    half = 12.7062 * abs(returns[0] - returns[1]) / 2  # Student's t with one degree of freedom
    assert several.interval == pytest.approx((several.mean - half, several.mean + half), rel=1e-4)
    assert "95 %" in repr(several)
    longer = tdu.train(TASK, seeds=[4, 2], resume=True, **how | {"episodes": 25})
    assert [run.result["episodes"] for run in longer] == [25, 25]


def test_callbacks():
    calls = []

    class Watch:
        def on_start(self, config):
            calls.append(("start", config.env))

        def on_evaluation(self, evaluation):
            calls.append(("evaluation", evaluation.episode))
            return np.bool_(evaluation.episode < 20)

        def on_end(self, run):
            calls.append(("end", run.result["episodes"]))

    steps = []
    how = HOW | NETWORKS
    run = tdu.train(
        TASK, episodes=100, evaluate_every=10, callbacks=[Watch(), lambda report: steps.append(report.steps)], **how
    )
    assert calls == [("start", TASK), ("evaluation", 10), ("evaluation", 20), ("end", 20)]
    assert steps[-1] == run.result["steps"] == 80
    for wrong, word in ((3, "on_step"), (object(), "on_start"), (tdu.Callback(on_evaluation=print), "evaluate_every")):
        with pytest.raises(tdu.UserError, match=word):
            tdu.train(TASK, episodes=2, callbacks=[wrong], **how)
