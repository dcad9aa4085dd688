"""Evaluations also report episode lengths and success. A run can end when an evaluation reaches a return."""

import numpy as np
import pytest
from diary import Sign
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorWrapper

import tdu
from tdu import cli
from tdu.errors import UserError
from tdu.run import folder as runs

TINY = {
    "hidden_sizes": (16,), "exploiters": 2, "explorers": 1, "batch_size": 8, "min_replay": 16, "learning_rate": 5e-3,
    "say": lambda words: None, "progress": None,
}  # fmt: skip


class Successful(Sign):
    """Reports only at the end whether both answers were right, as some environments do."""

    def step(self, action):
        observation, reward, over, cut, info = super().step(action)
        self.right = reward + (self.right if self.time == 2 else 0)
        return observation, reward, over, cut, info | ({"is_success": self.right == 2} if over else {})


def several(mode):
    return VectorWrapper(SyncVectorEnv([Successful] * 2, autoreset_mode=mode))  # the wrapped vector resets itself


@pytest.mark.parametrize(
    "make", [Successful, *(lambda m=m: several(m) for m in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP))]
)
def test_success_that_the_environment_reports_is_counted(make, tmp_path):
    run = tdu.train(make(), episodes=40, evaluation_episodes=30, out=tmp_path / "run", seed=1, **TINY)
    played = tdu.evaluate(tmp_path / "run", env=make(), episodes=40)
    assert played["mean_length"] == 2
    assert 0 <= played["success_rate"] <= played["mean_return"] / 2  # a success returns 2, a failure 0 or 1
    assert run.result["greedy_return"]["mean_length"] == 2
    assert run.result["greedy_return"]["success_rate"] is not None
    assert tdu.evaluate(tmp_path / "run", env=make(), episodes=40, success_return=2.5)["success_rate"] == 0


def test_a_run_ends_when_an_evaluation_reaches_a_return(tmp_path, capsys):
    out = tmp_path / "run"
    settings = {"episodes": 2000, "evaluate_every": 20, "until_return": 0.9, "success_return": 0.9, "until": "budget"}
    run = tdu.train("deep_sea:size=4", seed=1, out=out, **settings, **TINY)
    evaluations = runs.read_log(out / "evaluations.csv")
    assert run.result["episodes"] == evaluations["episode"][-1] < 2000
    assert (evaluations["greedy_return"] >= 0.9).tolist() == [False] * (len(evaluations["steps"]) - 1) + [True]
    assert evaluations["success_rate"].tolist() == (evaluations["greedy_return"] >= 0.9).astype(float).tolist()
    assert set(evaluations["mean_length"]) == {4}
    assert run.config.until_return == run.config.success_return == 0.9
    assert tdu.evaluate(out, episodes=2)["success_rate"] == 1
    assert cli.main(["evaluate", str(out), "--episodes", "2"]) == 0
    assert "mean length 4.0, success rate 1.00" in capsys.readouterr().out
    assert cli.main(["watch", str(out)]) == 0
    assert "in 4 steps (a success)" in capsys.readouterr().out


def test_what_is_not_known_is_not_reported(tmp_path):
    run = tdu.train("deep_sea:size=4", episodes=6, evaluate_every=5, evaluation_episodes=2, **TINY)
    assert run.result["greedy_return"]["success_rate"] is None
    assert np.isnan(run.evaluations["success_rate"]).all()


def test_a_return_to_reach_needs_evaluations(capsys):
    with pytest.raises(UserError, match="evaluate_every"):
        tdu.train("deep_sea:size=4", until_return=1, **TINY)
    with pytest.raises(UserError, match="until_return must be a finite number"):
        tdu.train("deep_sea:size=4", until_return=float("nan"), evaluate_every=5, **TINY)
    assert cli.main(["train", "deep_sea:size=4", "--until-return", "1"]) == 2
    assert "evaluate" in capsys.readouterr().err
