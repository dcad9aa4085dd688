"""Agents defined by a choice of bonus and behaviour learn. test_twins.py tests the others."""

import pytest
import small

from tdu import agents

ELSEWHERE = ("su", "nns", "rnd", "tdu_ac")
"""Tested in test_twins.py; recurrent agents are tested in test_recurrent.py."""

HERE = [name for name, entry in agents.AGENTS.items() if name not in ELSEWHERE and not entry.is_recurrent]


@pytest.mark.parametrize("name", HERE)
def test_an_agent_learns(name):
    small.assert_learns(name)


def test_epsilon_greedy_learns_small_deep_sea_and_not_large():
    """DQN lacks only exploration: the same DQN learns where random actions find the chest."""
    small.assert_learns("dqn")
    run = small.trained("dqn", 1, "deep_sea:size=12,mapping_seed=8")
    assert run.log["loss"][-1] > 0
    assert run.log["denoised_return"][-1] == 0, "no episode has found the chest"
    assert run.log["total_bad_episodes"][-1] == 400
