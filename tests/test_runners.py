"""Runs: one seed twice is one run, two seeds are two, and every way of running an agent is the same run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tdu
from tdu import agents, environments
from tdu.greedy import greedy_returns
from tdu.runners import compiled, stepwise
from tdu.runners.rows import WALL_TIME, Progress
from tdu.types import EnvSpec, SolvedRule

FAST = {"hidden_sizes": (16,), "exploiters": 3, "explorers": 2, "batch_size": 8, "min_replay": 16}


def quick(env="deep_sea:size=5", seed=0, episodes=30, **options):
    return tdu.train(env, seed=seed, episodes=episodes, stop=False, **(FAST | options))


def same_log(a, b, **tolerance):
    assert a.keys() == b.keys()
    for name in a.keys() - {WALL_TIME}:
        np.testing.assert_allclose(a[name], b[name], **tolerance, err_msg=name)


def parameters(run):
    return jax.tree.leaves(run.agent.params)


def test_one_seed_twice_is_identical_and_two_seeds_differ():
    a, b, c = quick(seed=1), quick(seed=1), quick(seed=2)
    same_log(a.log, b.log, rtol=0)
    for x, y in zip(parameters(a), parameters(b), strict=True):
        np.testing.assert_array_equal(x, y)
    assert not np.array_equal(a.log["head"], c.log["head"])
    assert not np.array_equal(a.log["episode_return"], c.log["episode_return"])
    assert not np.array_equal(a.agent.params.values.trained[1][0][0], c.agent.params.values.trained[1][0][0])


@pytest.mark.parametrize(("dense", "acting"), [(False, "frozen"), (True, "frozen"), (True, "live")])
def test_compiled_equals_stepwise(dense, acting):
    """Our compiled twin against bsuite's own environment, through the stepwise runner."""
    a, b = (quick(env, episodes=40, dense=dense, acting=acting) for env in ("deep_sea/0", "bsuite:deep_sea/0"))
    same_log(a.log, b.log, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(a.log["total_bad_episodes"], b.log["total_bad_episodes"])
    for x, y in zip(parameters(a), parameters(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)
    assert [a.agent.act(s) for s in range(100)] == [b.agent.act(s) for s in range(100)]


def test_how_many_steps_are_gathered_changes_nothing(monkeypatch):
    """Episodes of 9 steps: learned in one call each, or in three."""
    a = quick("catch/0", episodes=25)
    monkeypatch.setattr(stepwise, "_GATHERED", 4)
    b = quick("catch/0", episodes=25)
    same_log(a.log, b.log, rtol=0)
    for x, y in zip(parameters(a), parameters(b), strict=True):
        np.testing.assert_array_equal(x, y)


def test_a_whole_run_is_a_function_of_a_key_and_maps_over_seeds():
    env = environments.make("deep_sea:size=5,stochastic=true")
    agent = agents.find("tdu").make(env.spec, agents.configure("tdu", FAST))
    train = compiled.train(env, agent, steps=100)
    carries, rows = jax.jit(jax.vmap(train))(jax.vmap(tdu.run_key)(jnp.arange(3)))
    assert not np.array_equal(rows.real[0], rows.real[1])
    for seed in range(3):
        run = quick("deep_sea:size=5,stochastic=true", seed=seed, episodes=20)
        np.testing.assert_array_equal(run.log["head"], rows.head[seed, :20])
        np.testing.assert_allclose(run.log["episode_return"], rows.real[seed, :20, 0], rtol=1e-5, atol=1e-6)
        mine = jax.tree.map(lambda x, seed=seed: x[seed], carries.player.learner.values.params)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5), mine, run.agent.params.values.trained
        )


def test_a_run_maps_over_seeds_where_episodes_differ_in_length():
    env = environments.make("binary_tree:depth=4")
    agent = agents.find("bdqn").make(env.spec, agents.configure("bdqn", {"exploiters": 2, "hidden_sizes": (8,)}))
    _, rows = jax.jit(jax.vmap(compiled.train(env, agent, steps=60)))(jax.vmap(tdu.run_key)(jnp.arange(2)))
    for seed in range(2):
        run = tdu.train(
            "binary_tree:depth=4", "bdqn", seed=seed, episodes=15, stop=False, exploiters=2, hidden_sizes=(8,)
        )
        np.testing.assert_array_equal(run.log["episode_len"], rows.length[seed, :15])


def test_a_run_stops_at_the_episode_that_solves_it():
    run = tdu.train("deep_sea:size=6", seed=0, episodes=500)
    solved = run.result["solved_episode"]
    bad_share = run.log["total_bad_episodes"] / run.log["episode"]
    assert solved == run.result["episodes"] == len(run.log["episode"])
    assert bad_share[-1] < 0.9
    assert np.all(bad_share[:-1] >= 0.9)
    assert run.result["steps"] == 6 * solved


def test_results_hold_what_they_promise():
    run = quick(episodes=12)
    promised = "env agent config seed episodes steps seconds steps_per_second mean_return solved_episode"
    assert set(promised.split()) <= run.result.keys()
    assert run.result["mean_return"] == pytest.approx(run.log["episode_return"].mean())
    np.testing.assert_allclose(run.log["total_return"], np.cumsum(run.log["episode_return"]), rtol=1e-6)
    np.testing.assert_array_equal(run.log["steps"], np.cumsum(run.log["episode_len"]))


@pytest.mark.parametrize(
    ("rule", "bad", "expected"),
    [
        (SolvedRule(0.9), [1] * 9 + [0], None),
        (SolvedRule(0.9), [1] * 9 + [0, 0], 11),
        (SolvedRule(0.8, from_episode=5), [0] * 6, 5),
        (SolvedRule(streak=3), [0, 0, 1, 0, 0, 0, 0], 6),
    ],
)
def test_solved_rules(rule, bad, expected):
    progress = Progress(EnvSpec("x", (1,), 2, solved=rule))
    for failed in bad:
        progress.add(0.0, bool(failed))
    assert progress.solved_episode == expected


def test_tdu_learns_deep_sea_and_its_agent_walks_to_the_chest():
    run = tdu.train("deep_sea:size=8", seed=1, episodes=400, stop=False)
    assert run.result["solved_episode"] < 200
    assert run.log["denoised_return"][-1] > 100
    env = environments.make("deep_sea:size=8")
    state, timestep = env.reset(jax.random.key(0))
    total = 0.0
    while not timestep.last:
        state, timestep = env.step(state, jnp.int32(run.agent.act(int(timestep.observation))), jax.random.key(0))
        total += float(timestep.reward)
    assert total == pytest.approx(0.99)


def test_evaluation_of_a_solved_sea_is_optimal():
    run = tdu.train("deep_sea:size=6", seed=1, episodes=300, stop=False)
    np.testing.assert_allclose(greedy_returns("deep_sea:size=6", run.agent, episodes=5), [0.99] * 5, rtol=1e-6)


def test_epsilon_greedy_does_not_learn_what_tdu_does():
    run = tdu.train("deep_sea:size=12", "dqn", seed=1, episodes=400)
    assert run.result["solved_episode"] is None
    assert run.log["denoised_return"][-1] == 0


def test_binary_tree_is_solved():
    run = tdu.train("binary_tree:depth=10", seed=0, episodes=300)
    assert run.result["solved_episode"] < 150
    assert run.result["mean_return"] > 0
