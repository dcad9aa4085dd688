"""Common mistakes of new users, such as option names of other libraries, and their error messages."""

import re

import gymnasium
import pytest

import tdu
from tdu import agents, environments
from tdu.cli import main, train
from tdu.run import callbacks
from tdu.run.plan import plan

LONG = 5000 * "x"


@pytest.mark.parametrize(
    ("given", "ours"),
    [
        ({"total_timesteps": 100}, "steps"),
        ({"gamma": 0.9}, "discount"),
        ({"buffer_size": 10}, "replay_capacity"),
        ({"learning_starts": 10}, "min_replay"),
        ({"callback": print}, "callbacks"),
        ({"epsiodes": 10}, "episodes"),
        ({"bta": 1}, "beta"),
    ],
)
def test_an_option_of_another_library_is_translated(given, ours):
    with pytest.raises(tdu.UserError, match=f"'{ours}'"):
        tdu.train("deep_sea:size=4", **given)


def test_a_number_where_several_are_expected():
    for wrong, example in ((32, r"\(32,\)"), (0, r"\(64, 64\)"), (2.5, r"\(64, 64\)")):
        with pytest.raises(tdu.UserError, match=f"hidden_sizes={example}"):
            tdu.train("deep_sea:size=4", hidden_sizes=wrong)


def test_a_number_of_steps_may_be_written_as_a_float(capsys):
    for wrong, words in (("100", "1,000,000,000,000, not '100'"), (1.5, "not 1.5"), (float("nan"), "not nan")):
        with pytest.raises(tdu.UserError, match=words):
            tdu.train("deep_sea:size=4", steps=wrong)
    assert plan("deep_sea:size=4", steps=1e5, min_replay="1e2").config.steps == 100_000
    assert train.parse(["deep_sea:size=4", "--steps", "1e5"])[0].steps == 100_000
    assert main(["train", "deep_sea:size=4", "--steps", "1e-5"]) == 2
    assert "not 1e-05" in capsys.readouterr().err


def test_on_the_command_line_too(capsys):
    for option, ours in (("--total-timesteps", "--steps"), ("--gamma", "--discount")):
        assert main(["train", "deep_sea:size=4", option, "3"]) == 2
        assert f"'{ours}'" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["CartPole-v1", "ALE/Pong-v5", "MiniGrid-Empty-8x8-v0"])
def test_a_gymnasium_id_without_its_source(name):
    with pytest.raises(tdu.UserError, match=f"'gym:{name}'"):
        tdu.train(name)


def test_an_environment_is_not_called_by_its_wrapper():
    made = environments.make(gymnasium.make("CartPole-v1"))
    assert made.spec.name == "CartPoleEnv"


def test_seeds_are_several_or_how_many():
    for wrong in (
        {"seeds": 0},
        {"seeds": [1, 1]},
        {"seeds": []},
        {"seeds": 2, "seed": 1},
        {"seeds": True},
        {"seeds": 2.5},
        {"seeds": "2"},
    ):
        with pytest.raises(tdu.UserError, match="seeds"):
            tdu.train("deep_sea:size=4", **wrong)


@pytest.mark.parametrize(
    "given",
    [
        "task.py",
        "./task.py:make",
        "task:make",
        "./task:make",
        "/nowhere/task.py",
        "python:task.py:make",
        "python:/a/task:make",
    ],
)
def test_a_file_is_not_an_id(given, tmp_path, monkeypatch):
    (tmp_path / "task.py").touch()
    monkeypatch.chdir(tmp_path)
    for refuse in (environments.make, environments.default_episodes):
        with pytest.raises(tdu.UserError, match=r"python:task:make, in the folder"):
            refuse(given)
    with pytest.raises(tdu.UserError, match=r"python:task:(make|AGENT), in the folder"):
        agents.find(given)


@pytest.mark.parametrize("name", ["queue", "test", "types", "sys", "os", "test.lab", "gymnasium"])
def test_a_file_called_as_a_module_of_python_or_a_package(name, tmp_path, monkeypatch):
    (tmp_path / "test").mkdir()
    (tmp_path / f"{name.replace('.', '/')}.py").write_text("def make(): raise OSError")
    monkeypatch.chdir(tmp_path)
    for find in (environments.make, agents.find):
        with pytest.raises(
            tdu.UserError, match=rf"module {name.split('.')[0]}, not {name.replace('.', '/')}.py.*rename"
        ):
            find(f"python:{name}:make")


@pytest.mark.parametrize("given", ["task.py", "task:make"])
def test_nor_a_target_of_a_sweep(given, tmp_path, monkeypatch):
    (tmp_path / "task.py").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(tdu.UserError, match=r"python:task:make"):
        environments.expand(given)


@pytest.mark.parametrize(
    "words",
    [["train", LONG], ["train", "deep_sea:size=4", f"--{LONG}", "1"], ["watch", LONG], ["train", "--agent", LONG]],
)
def test_a_long_name_is_shortened(words, capsys):
    assert main(words) == 2
    said = capsys.readouterr().err
    assert "x" * 50 in said
    assert len(said) < 1500


def test_a_path_is_no_experiment():
    with pytest.raises(tdu.UserError, match="unknown environment '/nowhere/task'"):
        environments.make("/nowhere/task")


OWN_AGENTS = """
from tdu import agents
from tdu.agents import assemble, ensembles
from tdu.agents.config import EnsembleConfig
from tdu.types import Bonus

def raises(spec, config):
    raise KeyError("oops")

def one_value(spec, config):
    reward = lambda state, batch, exploit: batch.r_t
    bonus = Bonus(lambda key: (), lambda state, step: state, lambda state, batch: (state, ()), reward)
    return assemble.ensemble(spec, config, bonus=bonus)

def entry(make):
    return agents.Entry("Mine.", EnsembleConfig, make)

RAISES, NOTHING, ONE = entry(raises), entry(lambda spec, config: None), entry(one_value)
RECURRENT = entry(ensembles.bdqn)._replace(is_recurrent=True)
"""


@pytest.fixture
def own_agents(tmp_path, monkeypatch):
    (tmp_path / "own_agents.py").write_text(OWN_AGENTS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("RAISES", r"KeyError.*oops.*own_agents.py, line 8"),
        ("NOTHING", r"NoneType, not Agent.*own_agents.py, line 18"),
        ("RECURRENT", r"not RecurrentAgent"),
        ("ONE", r"ValueError|TypeError"),
        ("RAISE", r"unknown agent of own_agents.*'RAISES'"),
    ],
)
def test_an_own_agent_that_fails_is_named_and_leaves_no_folder(own_agents, name, words, capsys):
    small = ["--hidden-sizes", "4", "--exploiters", "2", "--min-replay", "8", "--batch-size", "8", "--episodes", "5"]
    words_given = ["train", "deep_sea:size=4", "--agent", f"python:own_agents:{name}", *small, "--out", "run"]
    assert main(words_given) == 2
    said = capsys.readouterr().err
    assert re.search(words, said)
    assert "own_agents" in said
    assert not (own_agents / "run").exists()


class Misspelt:
    def on_step(self, report): ...

    def on_epsiode(self, row): ...


@pytest.mark.parametrize(
    ("callback", "words"),
    [
        (lambda: True, "one argument"),
        (tdu.Callback(on_step=5), "5"),
        (Misspelt(), "on_episode"),
        (tdu.Callback(on_end=lambda a, b: None), "on_end"),
    ],
)
def test_a_callback_that_cannot_be_called(callback, words):
    with pytest.raises(tdu.UserError, match=words):
        callbacks.checked([callback], evaluates=False)
