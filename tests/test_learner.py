"""The learner: its loss by hand, its options, and that it needs no second compilation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tdu import agents, values
from tdu.adam import Adam
from tdu.types import EnvSpec, TimeStep, Transition

SPEC = EnvSpec("two states", (2,), 2, num_states=2)
SMALL = {"hidden_sizes": (8,), "replay_capacity": 8, "min_replay": 2, "batch_size": 4}


def make(name="tdu", **options):
    return agents.find(name).make(SPEC, agents.configure(name, SMALL | options))


def filled(agent, rewards=(1.0, 1.0, 1.0), discount=1.0, key=0):
    """An agent that has seen the same step, from state 0 to state 1, with these rewards."""
    state = jax.jit(agent.init)(jax.random.key(key))
    acting = agent.actor.begin(agent.params(state), jax.random.key(key + 1))
    for i, reward in enumerate(rewards):
        step = Transition(jnp.int32(0), jnp.int32(1), jnp.float32(reward), jnp.float32(discount), jnp.int32(1), {})
        state = agent.observe(state, acting, step, jax.random.key(i))
    return state


def test_loss_and_bonus_by_hand():
    agent = make(exploiters=3, explorers=2, beta=0.7)
    state = filled(agent, rewards=(0.5, 0.5))
    q0, q1 = (np.asarray(_heads(state, o)) for o in (0, 1))
    delta = 0.5 + 0.99 * q1.max(axis=1) - q0[:, 1]
    sigma = np.std(delta[:3], ddof=1)
    delta[3:] += 0.7 * sigma
    _, metrics = agent.learn(state, jax.random.key(9))
    assert metrics["bonus"] == pytest.approx(sigma, rel=1e-4)
    assert metrics["loss"] == pytest.approx(np.mean(0.5 * delta**2), rel=1e-4)


def _heads(state, observation):
    """Values of all heads, [H, A]."""
    heads = state.values.prior.shape[1]
    ensemble = values.one_hot(SPEC, values.Shape(heads, (8,), 3.0, 4, False, Adam(1e-3)))
    return ensemble.q(ensemble.params(state.values), jnp.int32(observation))


def test_explorers_are_paid_and_exploiters_are_not():
    """After one step from the same start, β changes the explorers' weights and no exploiter's."""
    states = {}
    for beta in (0.0, 5.0):
        agent = make(exploiters=3, explorers=2, beta=beta)
        states[beta], _ = agent.learn(filled(agent), jax.random.key(0))
    a, b = (np.asarray(_heads(states[x], 0)) for x in (0.0, 5.0))
    np.testing.assert_array_equal(a[:3], b[:3])
    moments = [np.asarray(states[x].values.moments.first[1][0][0]) for x in (0.0, 5.0)]
    assert np.abs(moments[0][3:] - moments[1][3:]).max() > 1e-4
    np.testing.assert_array_equal(moments[0][:3], moments[1][:3])


def test_bdqn_is_tdu_without_explorers():
    """The K exploiters of TDU learn as BDQN's K heads do on the same data."""
    bdqn, tdu = make("bdqn", exploiters=2), make("tdu", exploiters=2, explorers=1, beta=3.0)
    theirs, ours = filled(bdqn), filled(tdu)
    ours = ours._replace(
        values=ours.values._replace(
            table=ours.values.table._replace(rows=ours.values.table.rows.at[:, :, :16].set(theirs.values.table.rows)),
            prior=ours.values.prior.at[:, :2].set(theirs.values.prior),
            **{
                name: jax.tree.map(
                    lambda o, t: o.at[:2].set(t), getattr(ours.values, name), getattr(theirs.values, name)
                )
                for name in ("params", "target")
            },
        )
    )
    learn_theirs, learn_ours = jax.jit(bdqn.learn), jax.jit(tdu.learn)
    for i in range(6):
        theirs, _ = learn_theirs(theirs, jax.random.key(i))
        ours, _ = learn_ours(ours, jax.random.key(i))
    jax.tree.map(
        lambda o, t: np.testing.assert_allclose(o[:2], t, rtol=1e-5, atol=1e-7),
        ours.values.params,
        theirs.values.params,
    )


def test_a_masked_head_does_not_learn():
    agent = make("bdqn", exploiters=6, mask_prob=0.5)
    state = filled(agent, rewards=(1.0,) * 8, key=3)
    masks = np.asarray(state.replay.data.extras["mask"])
    assert 0 < masks.mean() < 1
    state = state._replace(
        replay=state.replay._replace(
            data=state.replay.data._replace(extras={"mask": jnp.tile(jnp.array([0.0, 1, 1, 0, 1, 1]), (8, 1))})
        )
    )
    after, _ = agent.learn(state, jax.random.key(0))
    moved = np.abs(np.asarray(after.values.params[1][0][0] - state.values.params[1][0][0])).max(axis=(1, 2))
    np.testing.assert_array_equal(moved > 0, [False, True, True, False, True, True])


def test_reward_noise_reaches_the_loss_and_not_the_bonus():
    quiet, noisy = make(exploiters=3, explorers=2), make(exploiters=3, explorers=2, noise_scale=2.0)
    _, a = quiet.learn(filled(quiet), jax.random.key(0))
    _, b = noisy.learn(filled(noisy), jax.random.key(0))
    assert a["bonus"] == pytest.approx(float(b["bonus"]), rel=1e-5)
    assert abs(float(a["loss"] - b["loss"])) > 1e-3


def test_learning_waits_for_its_data_and_its_period():
    agent = make(min_replay=3, learn_period=2)
    state = filled(agent, rewards=(1.0, 1.0))
    updates = []
    for i in range(4):
        state, metrics = agent.learn(state, jax.random.key(i))
        updates.append(float(metrics["updates"]))
        state = filled_more(agent, state)
    assert updates == [0.0, 0.0, 1.0, 0.0]


def filled_more(agent, state):
    acting = agent.actor.begin(agent.params(state), jax.random.key(0))
    step = Transition(jnp.int32(0), jnp.int32(0), jnp.float32(0), jnp.float32(1), jnp.int32(1), {})
    return agent.observe(state, acting, step, jax.random.key(0))


def action(agent, state, acting_state):
    timestep = TimeStep(jnp.int32(0), jnp.float32(0), jnp.float32(1), jnp.bool_(False))
    return int(agent.actor.act(agent.params(state), acting_state, timestep, jax.random.key(0))[0])


def test_live_and_frozen_heads_differ_once_something_is_learned():
    for acting, moves in (("frozen", False), ("live", True)):
        agent = make("bdqn", exploiters=1, acting=acting, prior_scale=0.0, learning_rate=1.0)
        state = filled(agent)
        acting_state = agent.actor.begin(agent.params(state), jax.random.key(0))
        before = action(agent, state, acting_state)
        rewards = filled(agent, rewards=(10.0 if before == 0 else -10.0,) * 8)
        state = state._replace(replay=rewards.replay)
        for i in range(3):
            state, _ = agent.learn(state, jax.random.key(i))
        assert (action(agent, state, acting_state) != before) == moves
        assert agent.live == moves


def test_the_second_call_does_not_compile_again():
    agent = make()
    state = filled(agent)
    learn = jax.jit(agent.learn)
    state, _ = learn(state, jax.random.key(0))
    learn(state, jax.random.key(1))
    assert learn._cache_size() == 1
