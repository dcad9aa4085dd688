"""Names that newcomers bring from elsewhere, and the answer they get."""

import gymnasium
import pytest

import tdu
from tdu import environments
from tdu.cli import main


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
