"""Several compiled environments stepped from Python, and the interface that all kinds of environments share."""

import itertools
import json

import jax
import numpy as np
import pytest

import tdu
from tdu import environments
from tdu.environments.vector import JaxVector
from tdu.types import Environment

TASK = "deep_sea:size=4,stochastic=true"
MINATAR = "gymnax:Breakout-MinAtar"


def play(env, steps, seed):
    draws = np.random.default_rng(seed)
    return [env.step(draws.integers(0, env.spec.num_actions, env.size)) for _ in range(steps)]


def flat(stepped):
    return [*map(np.asarray, stepped.after), stepped.taken, stepped.now, stepped.ended]


@pytest.mark.parametrize("env_id", [TASK, MINATAR])
def test_rows_are_the_environment_and_come_back(env_id):
    single = environments.make(env_id)
    env = environments.make(env_id, 1, num_envs=3)
    assert isinstance(env, JaxVector)
    now = env.start()
    assert (now.shape, now.dtype) == ((3, *env.spec.carried_shape), env.spec.carried_dtype)
    seen = play(env, 25, 0)
    arrays, plain = env.save()
    plain = json.loads(json.dumps(plain))
    onward = play(env, 30, 1)
    assert any(stepped.ended for stepped in seen + onward)
    again = environments.make(env_id, 1, num_envs=3)
    np.testing.assert_array_equal(again.restore(arrays, plain), seen[-1].now)
    for one, other in zip(onward, play(again, 30, 1), strict=True):
        for x, y in zip(flat(one), flat(other), strict=True):
            np.testing.assert_equal(x, y)
    for before, after in itertools.pairwise(onward):
        for row in before.ended:
            assert bool(before.after.last[row])
            assert not bool(after.after.last[row]) or env_id != TASK, "a new episode is under way"
    first = np.asarray(single.reset(jax.random.key(0))[1].observation)
    assert first.shape == env.spec.carried_shape


def test_several_deep_seas_count_bad_episodes():
    env = environments.make("deep_sea:size=4", 0, num_envs=2)
    env.start()
    steps = [env.step(np.array([0, 1])) for _ in range(8)]
    assert [sorted(stepped.ended) for stepped in steps] == [[], [], [], [0, 1]] * 2
    assert steps[-1].ended[1].totals["total_bad_episodes"] == sum(s.ended[r].bad for s in steps for r in s.ended) > 0
    assert steps[3].now.tolist() == [0, 0]
    assert steps[3].after.discount.tolist() == [0, 0]


def test_rows_and_seeds_draw_apart():
    rewards = []
    for seed in (1, 2):
        env = environments.make(TASK, seed, num_envs=2)
        env.start()
        rewards.append(np.stack([env.step(np.array([0, 0])).after.reward for _ in range(40)]))
    columns = np.concatenate(rewards, axis=1).T
    assert len({tuple(column) for column in columns}) == 4


@pytest.mark.parametrize("env_id", [TASK, MINATAR, "bsuite:memory_len/3", "gym:CartPole-v1"])
def test_every_kind_is_a_vector_of_one_or_several(env_id):
    for size in (1, 2):
        made = environments.make(env_id, 0, num_envs=size)
        env = JaxVector(made, 0, 1) if isinstance(made, Environment) else made
        now = env.start()
        assert now.shape == (size, *env.spec.carried_shape)
        for stepped in play(env, 5, 0):
            assert stepped.after.observation.dtype == stepped.now.dtype == env.spec.carried_dtype
            assert stepped.after.reward.shape == stepped.taken.shape == (size,)
        env.close()


def test_an_agent_learns_from_several_compiled_environments():
    options = {"exploiters": 2, "explorers": 1, "hidden_sizes": (8,), "min_replay": 16, "batch_size": 8}
    runs = [
        tdu.train("deep_sea:size=4", "tdu", num_envs=2, steps=80, evaluation_episodes=0, **options) for _ in range(2)
    ]
    assert runs[0].result["steps"] == 80
    assert runs[0].result["episodes"] == 20
    assert runs[0].result["mean_return"] == runs[1].result["mean_return"]
