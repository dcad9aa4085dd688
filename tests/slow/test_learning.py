"""Agents that are a choice of bonus and behaviour learn. The others are in test_twins.py."""

import pytest
import small

from tdu import agents

ELSEWHERE = ("su", "nns", "rnd", "tdu_ac")
"""In test_twins.py; agents with a memory in test_recurrent.py."""

HERE = [name for name, entry in agents.AGENTS.items() if name not in ELSEWHERE and not entry.is_recurrent]


@pytest.mark.parametrize("name", HERE)
def test_an_agent_learns(name):
    small.assert_learns(name)


def test_epsilon_greedy_learns_small_deep_sea_and_not_large():
    """It is exploration that the DQN lacks, and nothing else: the same one learns where chance finds the chest."""
    small.assert_learns("dqn")
    run = small.trained("dqn", 1, "deep_sea:size=12,mapping_seed=8")
    assert run.log["loss"][-1] > 0
    assert run.log["denoised_return"][-1] == 0, "no episode has found the chest"
    assert run.log["total_bad_episodes"][-1] == 400
