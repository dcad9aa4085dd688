"""Mastery: the depth of the greedy policy, the episode at which a task is mastered, and what ends a run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tdu
from tdu import agents, environments
from tdu.environments import deep_sea
from tdu.run.runners import compiled, mastery
from tdu.run.runners.rows import Progress
from tdu.types import EnvSpec, SolvedRule

FAST = {"hidden_sizes": (16,), "exploiters": 3, "explorers": 2, "batch_size": 16, "min_replay": 16}


def run(env="deep_sea:size=4", **settings):
    return tdu.train(env, **({"evaluation_episodes": 0, "until": "budget"} | FAST | settings))


def depth_of(agent, path):
    """The number of steps for which the agent's own actions follow the path."""
    wrong = [i for i, (state, action) in enumerate(path) if agent.act(state) != action]
    return wrong[0] if wrong else len(path)


@pytest.mark.parametrize(("wrong", "depth"), [((), 5), ((0,), 0), ((3,), 3), ((4, 2), 2)])
def test_the_depth_of_a_policy_by_hand(wrong, depth):
    path = environments.make("deep_sea:size=5").spec.optimal_path
    q = np.zeros((26, 2))
    for i, (state, action) in enumerate(path):
        q[state, 1 - action if i in wrong else action] = 1.0
    assert mastery.greedy_depth(lambda table, state: table[state], path)(jnp.asarray(q)) == depth


def test_the_optimal_path_leads_to_the_chest():
    env = environments.make("deep_sea:size=7")
    state, timestep = env.reset(jax.random.key(0))
    total = 0.0
    for at, action in env.spec.optimal_path:
        assert timestep.observation == at
        state, timestep = env.step(state, action, jax.random.key(0))
        total += float(timestep.reward)
    assert timestep.last
    assert total == pytest.approx(0.99)
    assert env.info(state)["diagonal_depth"] == 7


@pytest.mark.parametrize(("rights", "depth"), [("RRLR", 2), ("LRRR", 0), ("RRRR", 4), ("RRRL", 3)])
@pytest.mark.parametrize("slips", [False, True])
def test_the_depth_of_an_episode_counts_choices_and_not_slips(rights, depth, slips):
    mapping = deep_sea.action_mapping(4, 42)
    move = deep_sea.dynamics(4, mapping_seed=42, stochastic=True, move_cost=0.01)
    state = deep_sea.DeepSeaState(*[jnp.zeros((), jnp.int32)] * 5)
    draws = deep_sea.Draws(jnp.asarray(0.0 if slips else 1.0), jnp.zeros(()))
    for letter in rights:
        right = mapping[int(state.row), int(state.column)]
        state, _ = move(state, right if letter == "R" else 1 - right, draws)
    assert state.depth == depth


def test_a_run_logs_depths_and_the_episode_of_mastery():
    found = run("deep_sea:size=6,stochastic=true", episodes=600, seed=3, learning_rate=3e-3)
    log, result = found.log, found.result
    assert set(log["diagonal_depth"]) <= set(range(7))
    assert len(set(log["diagonal_depth"])) > 2, "a number of each episode and no running total"
    checks = log["greedy_depth"][mastery.PERIOD - 1 :: mastery.PERIOD]
    passed = np.convolve(checks == 6, np.ones(mastery.CHECKS), "valid") == mastery.CHECKS
    assert result["mastered_episode"] == (np.argmax(passed) + mastery.CHECKS) * mastery.PERIOD
    for i in range(len(log["episode"])):
        if (i + 1) % mastery.PERIOD:
            assert log["greedy_depth"][i] == (log["greedy_depth"][i - 1] if i else 0)
    path = environments.make("deep_sea:size=6,stochastic=true").spec.optimal_path
    assert result["greedy_depth"] == log["greedy_depth"][-1] == depth_of(found.agent, path)


@pytest.mark.parametrize("num_envs", [1, 3])
def test_the_depth_is_that_of_the_agent_that_the_run_hands_out(num_envs):
    """With several environments, a run is stepped from Python."""
    found = run(episodes=40, num_envs=num_envs, seed=5)
    path = environments.make("deep_sea:size=4").spec.optimal_path
    assert found.result["episodes"] == 40
    assert found.result["greedy_depth"] == depth_of(found.agent, path)
    assert found.log["greedy_depth"].max() > 0


def test_a_run_ends_when_the_task_is_mastered_and_solved():
    to_mastery, to_rule = run(until="mastered", episodes=2000), run(until="solved", episodes=2000)
    ends = to_mastery.result
    assert ends["episodes"] == max(ends["mastered_episode"], ends["solved_episode"])
    assert to_rule.result["episodes"] == ends["solved_episode"] == to_rule.result["solved_episode"]
    assert ends["greedy_depth"] == 4
    assert to_mastery.config.until == "mastered"


def test_bsuites_own_deep_sea_can_be_mastered_too():
    twins = [run(env, episodes=20) for env in ("bsuite:deep_sea/0", "deep_sea/0")]
    assert twins[0].agent.spec.optimal_path == twins[1].agent.spec.optimal_path != ()
    assert twins[0].log["greedy_depth"].tolist() == twins[1].log["greedy_depth"].tolist()


def test_luck_does_not_end_a_run():
    """By bsuite's rule, this run counts as solved at its fifth episode, before the first learning step."""
    found = tdu.train("deep_sea:size=10", seed=0, episodes=400, evaluation_episodes=5)
    assert found.result["solved_episode"] == 5
    assert found.result["mastered_episode"] == found.result["episodes"] > 100
    assert found.result["greedy_return"]["mean"] == pytest.approx(0.99)


@pytest.mark.parametrize(
    ("until", "solved", "depths", "ends"),
    [
        ("mastered", True, [4] * 20, True),
        ("mastered", True, [4] * 19, False),
        ("mastered", True, [4] * 19 + [3] + [4] * 19, False),
        ("mastered", False, [4] * 20, False),
        ("mastered", True, [4] * 20 + [0], True),
        ("solved", True, [], True),
        ("budget", True, [4] * 20, False),
    ],
)
def test_the_rules_that_end_a_run(until, solved, depths, ends):
    spec = environments.make("deep_sea:size=4").spec
    progress = Progress(spec._replace(solved=SolvedRule(0.5)), 0.99)
    progress.add(0.0, bad=not solved)
    for depth in depths:
        progress.check(depth)
    assert progress.has_reached(until) == ends


def test_without_an_optimal_path_mastered_is_solved():
    progress = Progress(EnvSpec("x", (1,), 2, solved=SolvedRule(streak=2)), 0.99)
    progress.add(1.0, bad=False, learned=False)
    progress.add(1.0, bad=False)
    assert not progress.has_reached("mastered"), "luck before the first learning step does not count"
    progress.add(1.0, bad=False)
    assert progress.has_reached("mastered")
    tree = run("binary_tree:depth=3", episodes=500, until="mastered").result
    assert tree["episodes"] == tree["solved_episode"]
    assert "mastered_episode" not in tree
    shallow = run("binary_tree:depth=1", episodes=400, until="mastered", min_replay=300).result
    assert shallow["steps"] > 300


def test_runs_that_are_mapped_over_seeds_are_not_checked():
    env = environments.make("deep_sea:size=4")
    agent = agents.find("tdu").make(env.spec, agents.configure("tdu", FAST))
    carry, rows = jax.jit(compiled.train(env, agent, 100))(tdu.run_key(0))
    assert int(carry.episodes) == 25
    assert not np.any(rows.depth)
    assert np.any(rows.info["diagonal_depth"])


def test_an_agent_with_a_memory_logs_the_depth_of_episodes_alone():
    found = tdu.train("deep_sea:size=2,solved_share=1", "r2d2", episodes=20, evaluation_episodes=0, seed=1)
    assert found.result["solved_episode"] < found.result["episodes"] == 20, "bsuite's rule alone ends no run"
    assert "greedy_depth" not in found.log
    assert set(found.log["diagonal_depth"]) <= set(range(3))
    assert "mastered_episode" not in found.result


def test_an_unknown_until_is_refused():
    with pytest.raises(tdu.UserError, match=r"until.*mastered"):
        run(until="masterd")
