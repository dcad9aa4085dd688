"""The drop-in agent: trained by bsuite's own loop, it gives the same run as our loop."""

import warnings

import numpy as np
import pytest

import tdu
from tdu.environments.python import reseed
from tdu.errors import UserError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import bsuite
    from bsuite.baselines import base, experiment
    from bsuite.utils import wrappers

FAST = {"hidden_sizes": (16,), "exploiters": 3, "explorers": 2, "batch_size": 8, "min_replay": 16}


class Rows(list):
    """A bsuite logger that stores its rows."""

    write = list.append


class Reseeded:
    """Seeds the environment at every reset, like our runner."""

    def __init__(self, env, seed):
        self._env, self._seed, self._episode = env, seed, 0

    def reset(self):
        reseed(self._env, self._seed, self._episode)
        self._episode += 1
        return self._env.reset()

    def __getattr__(self, name):
        return getattr(self._env, name)


@pytest.mark.parametrize("bsuite_id", ["deep_sea/0", "catch/0"])
def test_bsuite_s_own_loop_gives_the_same_log(bsuite_id, capsys):
    env = bsuite.load_from_id(bsuite_id)
    rows = Rows()
    agent = tdu.bsuite_agent(env, "tdu", seed=3, **FAST)
    assert isinstance(agent, base.Agent)
    experiment.run(agent, wrappers.Logging(Reseeded(env, 3), rows, log_every=True), num_episodes=12)
    ours = tdu.train(f"bsuite:{bsuite_id}", seed=3, episodes=12, until="budget", evaluation_episodes=0, **FAST)
    assert len(rows) == 12
    for name in ("episode", "steps", "episode_len", "episode_return", "total_return", *env.bsuite_info()):
        np.testing.assert_allclose([row[name] for row in rows], ours.log[name], rtol=1e-6, atol=1e-6, err_msg=name)


class Broken:
    """A dm_env environment that violates one rule of the interface."""

    def __init__(self, **changes):
        from dm_env import specs

        self._observation = changes.get("observation", np.zeros(2, np.float32))
        self._reward = changes.get("reward", 0.0)
        self._actions = changes.get("actions", specs.DiscreteArray(2))
        self._shape = specs.Array((2,), np.float32)
        self._left = 0

    def observation_spec(self):
        return self._shape

    def action_spec(self):
        return self._actions

    def reset(self):
        import dm_env

        self._left = 3
        return dm_env.restart(np.zeros(2, np.float32))

    def step(self, action):
        import dm_env

        self._left -= 1
        make = dm_env.transition if self._left else dm_env.termination
        return make(reward=self._reward, observation=self._observation)


def test_an_environment_object_can_be_trained_on():
    run = tdu.train(Broken(), episodes=4, evaluation_episodes=0, **FAST)
    assert run.result["steps"] == 12
    assert run.agent.act(np.zeros(2)) in (0, 1)


def test_a_broken_environment_is_one_sentence():
    from dm_env import specs

    for changes, words in (
        ({"reward": float("nan")}, "must be finite"),
        ({"reward": np.zeros(2)}, "must be a single number"),
        ({"observation": np.full(2, np.nan, np.float32)}, "not finite"),
        ({"observation": np.zeros(3, np.float32)}, r"shape \(3,\); .* shape \(2,\)"),
        ({"observation": {"a": 1}}, "not an array of numbers"),
        ({"actions": specs.BoundedArray((1,), np.float32, -1, 1)}, "discrete actions"),
    ):
        with pytest.raises(UserError, match=words):
            tdu.train(Broken(**changes), episodes=2, **FAST)
    with pytest.raises(UserError, match="neither an environment's id nor a dm_env"):
        tdu.train(object(), episodes=2)
