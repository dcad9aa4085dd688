"""Memory traces: what the actor carries, what is stored, and a task that needs memory."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tdu
from tdu import agents, environments
from tdu.errors import UserError
from tdu.types import TimeStep, Transition

DECAY = 0.9
OPTIONS = {"ensemble": "heads", "hidden_sizes": (8,), "exploiters": 2, "explorers": 1, "min_replay": 1, "batch_size": 1}


def made(env_id, **options):
    env = environments.make(env_id)
    return env, agents.find("tdu").make(env.spec, agents.configure("tdu", OPTIONS | options))


def test_the_trace_is_the_moving_average_of_the_episode_and_is_stored_with_the_transition():
    env, agent = made("cartpole/0", trace_decay=DECAY)
    key = jax.random.key(0)
    learner = agent.init(key)
    state, timestep = env.reset(key)
    acting, expected = agent.actor.begin(agent.params(learner), key), np.zeros(6)
    for _ in range(3):
        before = np.ravel(timestep.observation)
        expected = DECAY * expected + (1 - DECAY) * before
        action, acting = agent.actor.act(agent.params(learner), acting, timestep, key)
        state, timestep = env.step(state, action, key)
        step = Transition(before, action, timestep.reward, timestep.discount, timestep.observation, {})
        learner = agent.observe(learner, acting, step, key)
        np.testing.assert_allclose(acting.trace, expected, rtol=1e-6)
    after = np.ravel(timestep.observation)
    stored = jax.tree.map(lambda x: x[2], learner.replay.data)
    np.testing.assert_allclose(stored.o_tm1, [*before, *expected], rtol=1e-6)
    np.testing.assert_allclose(stored.o_t, [*after, *(DECAY * expected + (1 - DECAY) * after)], rtol=1e-6)


def test_the_trained_policy_sees_the_same_trace_as_the_actor():
    env, agent = made("cartpole/0", trace_decay=DECAY, acting="live")
    key = jax.random.key(0)
    params = agent.params(agent.init(key))
    _, first = env.reset(key)
    state = agent.evaluator.begin(params, key)
    _, later = agent.evaluator.act(params, state, first, key)
    second = TimeStep(first.observation + 1, jnp.zeros(()), jnp.ones(()), jnp.zeros((), bool))
    assert not np.allclose(agent.evaluator.values(params, later, second), agent.evaluator.values(params, state, second))


@pytest.mark.parametrize("env_id", ["deep_sea:size=4", "key_door:size=5,limit=40,observation=image", "catch/0"])
def test_one_hot_observations_boards_and_images_have_no_trace(env_id):
    with pytest.raises(UserError, match="trace_decay"):
        tdu.train(env_id, episodes=1, trace_decay=DECAY, progress=None)


def test_with_a_trace_an_agent_remembers_the_first_observation():
    settings = {"preset": "general", "ensemble": "heads", "episodes": 400, "evaluation_episodes": 50, "until": "budget"}
    with_trace, without = (
        tdu.train("memory_len/3", seed=100, trace_decay=decay, **settings).result["greedy_return"]["mean"]
        for decay in (0.99, 0.0)
    )
    assert with_trace > 0.9
    assert without < 0.6


def test_a_run_with_a_trace_is_the_same_compiled_and_stepwise():
    settings = OPTIONS | {"batch_size": 8, "episodes": 3, "trace_decay": DECAY, "evaluation_episodes": 0}
    compiled, stepwise = (tdu.train(f"{source}discounting_chain/0", **settings).log for source in ("", "bsuite:"))
    for name in ("episode_return", "largest_q", "head"):
        np.testing.assert_allclose(compiled[name], stepwise[name], rtol=1e-5, err_msg=name)
