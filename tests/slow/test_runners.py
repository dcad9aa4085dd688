"""Runs: equal seeds give equal runs, different seeds differ, and every runner gives the same run."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tdu
from tdu import agents, environments
from tdu.run.runners import compiled, player
from tdu.run.runners.rows import WALL_TIME, Progress
from tdu.run.trained import play
from tdu.types import Environment, EnvSpec, SolvedRule, TimeStep

FAST = {"hidden_sizes": (16,), "exploiters": 3, "explorers": 2, "batch_size": 8, "min_replay": 16}
TASK = "deep_sea:size=5,stochastic=true"


def quick(env=TASK, seed=0, episodes=30, until="budget", **options):
    return tdu.train(env, seed=seed, episodes=episodes, until=until, evaluation_episodes=0, **(FAST | options))


OURS = {"diagonal_depth", "greedy_depth"}
"""Columns of our Deep Sea that bsuite's own does not have."""


def same_log(a, b, **tolerance):
    assert a.keys() - OURS == b.keys() - OURS
    for name in a.keys() & b.keys() - {WALL_TIME}:
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
    """Compares our compiled twin with bsuite's own environment in the stepwise runner."""
    a, b = (quick(env, episodes=40, dense=dense, acting=acting) for env in ("deep_sea/0", "bsuite:deep_sea/0"))
    same_log(a.log, b.log, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(a.log["total_bad_episodes"], b.log["total_bad_episodes"])
    for x, y in zip(parameters(a), parameters(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)
    assert [a.agent.act(s) for s in range(100)] == [b.agent.act(s) for s in range(100)]


def test_how_many_steps_are_gathered_changes_nothing(monkeypatch):
    """An episode has 9 steps, which are learned in one call or in three."""
    a = quick("bsuite:catch/0", episodes=25)
    monkeypatch.setattr(player, "_GATHERED", 4)
    b = quick("bsuite:catch/0", episodes=25)
    same_log(a.log, b.log, rtol=0)
    for x, y in zip(parameters(a), parameters(b), strict=True):
        np.testing.assert_array_equal(x, y)


def test_a_whole_run_is_a_function_of_a_key_and_maps_over_seeds():
    env = environments.make(TASK)
    agent = agents.find("tdu").make(env.spec, agents.configure("tdu", FAST))
    train = compiled.train(env, agent, steps=100)
    carries, rows = jax.jit(jax.vmap(train))(jax.vmap(tdu.run_key)(jnp.arange(3)))
    assert not np.array_equal(rows.episode_return[0], rows.episode_return[1])
    for seed in range(3):
        run = quick(seed=seed, episodes=20)
        np.testing.assert_array_equal(run.log["head"], rows.head[seed, :20])
        np.testing.assert_allclose(run.log["episode_return"], rows.episode_return[seed, :20], rtol=1e-5, atol=1e-6)
        one_seed = jax.tree.map(lambda x, seed=seed: x[seed], carries.player.learner.values.params)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5),
            one_seed,
            run.agent.params.values.trained,
        )


TREE = "binary_tree:depth=4"


def test_a_run_maps_over_seeds_where_episodes_differ_in_length():
    env = environments.make(TREE)
    agent = agents.find("tdu").make(env.spec, agents.configure("tdu", FAST))
    _, rows = jax.jit(jax.vmap(compiled.train(env, agent, steps=60)))(jax.vmap(tdu.run_key)(jnp.arange(2)))
    for seed in range(2):
        lengths = quick(TREE, seed=seed, episodes=15).log["episode_len"]
        np.testing.assert_array_equal(lengths, rows.length[seed, :15])
    assert not np.array_equal(rows.length[0], rows.length[1])


def test_binary_tree_is_solved():
    run = quick(TREE, episodes=500)
    solved = run.result["solved_episode"]
    assert solved < 450
    np.testing.assert_array_equal(run.log["episode_return"][solved - 10 : solved], 1.0)
    assert run.log["episode_return"][:20].mean() < 0.5
    assert run.result["mean_return"] > 0.5


def test_a_run_stops_at_the_episode_that_solves_it():
    run = quick("deep_sea:size=5", seed=2, episodes=500, until="solved")
    solved = run.result["solved_episode"]
    bad_share = run.log["total_bad_episodes"] / run.log["episode"]
    assert 1 < solved == run.result["episodes"] == len(run.log["episode"])
    assert bad_share[-1] < 0.9
    assert np.all(bad_share[:-1] >= 0.9)
    assert run.result["steps"] == 5 * solved


def test_results_have_their_fields():
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
    progress = Progress(EnvSpec("x", (1,), 2, solved=rule), 0.99)
    for failed in bad:
        progress.add(0.0, bool(failed))
    assert progress.solved_episode == expected


def test_tdu_learns_deep_sea_and_its_agent_walks_to_the_chest():
    """Random actions would find the chest once in 2⁸ episodes."""
    heads = {"exploiters": 6, "explorers": 6, "batch_size": 32, "learning_rate": 3e-3}
    run = quick("deep_sea:size=8", seed=1, episodes=400, **heads)
    assert run.result["solved_episode"] < 200
    assert run.log["denoised_return"][-1] > 100
    env = environments.make("deep_sea:size=8")
    step = jax.jit(env.step)
    state, timestep = env.reset(jax.random.key(0))
    total = 0.0
    while not timestep.last:
        state, timestep = step(state, jnp.int32(run.agent.act(int(timestep.observation))), jax.random.key(0))
        total += float(timestep.reward)
    assert total == pytest.approx(0.99)
    np.testing.assert_allclose(play("deep_sea:size=8", run.agent, episodes=5).returns, [0.99] * 5, rtol=1e-6)


class Walk(NamedTuple):
    place: jax.Array
    steps: jax.Array


def walk():
    """Three places in a row. It counts metres as a float and steps as an integer."""
    spec = EnvSpec("walk", (), 2, num_states=3, info_names=("metres", "steps_taken"))

    def answer(place, last):
        return TimeStep(place, place.astype(jnp.float32), jnp.where(last, 0.0, 1.0), last)

    def reset(key):
        zero = jnp.zeros((), jnp.int32)
        return Walk(zero, zero), answer(zero, zero > 0)

    def step(state, action, key):
        state = Walk(jnp.minimum(state.place + action, 2), state.steps + 1)
        return state, answer(state.place, state.steps == 3)

    def info(state):
        return {"metres": state.place * 0.25 + 0.1, "steps_taken": state.steps}

    return Environment(spec, reset, step, info)


def test_what_a_compiled_environment_counts_keeps_its_type():
    run = tdu.train(
        walk(), "dqn", episodes=6, evaluation_episodes=0, **{k: FAST[k] for k in ("hidden_sizes", "min_replay")}
    )
    metres, steps = run.log["metres"], run.log["steps_taken"]
    gained = np.diff(metres, prepend=0.0)
    assert metres.dtype.kind == "f"
    assert np.all(np.isin(np.round(gained, 5), [0.1, 0.35, 0.6]))
    np.testing.assert_array_equal(steps, [3, 6, 9, 12, 15, 18])
