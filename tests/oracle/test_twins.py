"""Agents with their own learner learn, and give the same run compiled and stepwise."""

import jax
import numpy as np
import pytest
import small
from bsuite.environments.deep_sea import DeepSea

import tdu
from tdu.run.plan import make_runner, plan

LEARNERS = pytest.mark.parametrize("name", ["nns", "su", "rnd", "tdu_ac"])


@LEARNERS
def test_an_agent_learns(name):
    small.assert_learns(name)


@LEARNERS
def test_an_agent_is_the_same_compiled_and_stepwise(name):
    """On our Deep Sea and on bsuite's, actions, log and trained agent are the same."""
    assert_the_same(*(small.trained(name, 1, env, episodes=25) for env in both_variants()))


def test_rewards_of_several_steps_are_the_same_compiled_and_stepwise():
    """Rewards of one step give a different run."""
    settings = small.settings("tdu") | {"episodes": 25, "until": "budget", "evaluation_episodes": 0}
    several = [tdu.train(env, "tdu", seed=1, return_steps=3, **settings) for env in both_variants()]
    assert_the_same(*several)
    one = tdu.train(small.TASK, "tdu", seed=1, **settings)
    assert np.any(one.log["loss"] != several[0].log["loss"])


def both_variants():
    return small.TASK, DeepSea(small.SIZE, mapping_seed=small.MAPPING)


def assert_the_same(a, b):
    np.testing.assert_array_equal(a.log["total_bad_episodes"], b.log["total_bad_episodes"])
    for column in ("head", "loss", "bonus", "episode_return"):
        np.testing.assert_allclose(a.log[column], b.log[column], rtol=1e-3, atol=1e-5)
    assert np.any(a.log["loss"] != 0)
    values_a, values_b = (np.array([run.agent.values(s) for s in range(16)]) for run in (a, b))
    np.testing.assert_allclose(values_a, values_b, rtol=1e-3, atol=1e-4)
    assert len(np.unique(values_a)) > 16


def test_a_run_goes_on_as_if_never_interrupted():
    """A save contains the whole state: posterior, sample, replay, moments."""

    def runner():
        planned = plan(small.TASK, "su", seed=2, episodes=1000, until="budget", **small.settings("su"))
        return make_runner(planned.config, planned.env)[0]

    whole, cut, again = runner(), runner(), runner()
    rows = [row for _ in range(3) for row in whole.advance()]
    first = cut.advance()
    saved = cut.save()
    again.restore(saved._replace(state=jax.tree.map(np.array, saved.state)))
    assert first + [row for _ in range(2) for row in again.advance()] == rows
    assert len(rows) == 750
    jax.tree.map(np.testing.assert_array_equal, whole.carry, again.carry)
