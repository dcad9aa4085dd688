"""The learner: its loss by hand, its options, and that it compiles only once."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tdu import agents, values
from tdu.adam import Adam
from tdu.errors import UserError
from tdu.types import Agent, EnvSpec, TimeStep, Transition

SPEC = EnvSpec("two states", (2,), 2, num_states=2)
SMALL = {"hidden_sizes": (8,), "replay_capacity": 8, "min_replay": 2, "batch_size": 4}
TDU = {"exploiters": 3, "explorers": 2, "beta": 0.7}


class Made(NamedTuple):
    """An agent with its functions compiled."""

    agent: Agent
    init: Callable
    begin: Callable
    observe: Callable
    learn: Callable


@functools.cache
def _made(name, options):
    agent = agents.find(name).make(SPEC, agents.configure(name, SMALL | dict(options)))

    @jax.jit
    def observe(state, acting, reward, key):
        step = Transition(jnp.int32(0), jnp.int32(1), reward, jnp.float32(1), jnp.int32(1), {})
        return agent.observe(state, acting, step, key)

    return Made(
        agent=agent,
        init=jax.jit(agent.init),
        begin=jax.jit(lambda state, key: agent.actor.begin(agent.params(state), key)),
        observe=observe,
        learn=jax.jit(agent.learn),
    )


def make(name="tdu", **options):
    """An agent, made once for all tests."""
    return _made(name, tuple(options.items()))


@functools.cache
def begun(it):
    """The agent's state before its first step, and its acting state."""
    state = it.init(jax.random.key(0))
    return state, it.begin(state, jax.random.key(1))


def filled(it, rewards=(1.0, 1.0, 1.0)):
    """An agent that has stored the step from state 0 to state 1 once with each of these rewards."""
    state, acting = begun(it)
    for i, reward in enumerate(rewards):
        state = it.observe(state, acting, jnp.float32(reward), jax.random.key(i))
    return state


def test_loss_and_bonus_by_hand():
    it = make(**TDU)
    state = filled(it, rewards=(0.5, 0.5))
    q0, q1 = (np.asarray(heads(state, o)) for o in (0, 1))
    delta = 0.5 + 0.99 * q1.max(axis=1) - q0[:, 1]
    sigma = np.std(delta[:3], ddof=1)
    delta[3:] += 0.7 * sigma
    _, metrics = it.learn(state, jax.random.key(9))
    assert metrics["bonus"] == pytest.approx(sigma, rel=1e-4)
    assert metrics["loss"] == pytest.approx(np.mean(0.5 * delta**2), rel=1e-4)


@functools.cache
def _q(count):
    ensemble = values.one_hot(SPEC, values.EnsembleShape(count, (8,), 3.0, 4, False, Adam(1e-3)))
    return jax.jit(lambda state, observation: ensemble.q(ensemble.params(state), observation))


def heads(state, observation):
    """Values of all heads, [H, A]."""
    return _q(state.values.prior.shape[1])(state.values, jnp.int32(observation))


def online_and_target(it, state):
    """Values of all heads in both states, [S, H, A] in units of reward, by a dense ensemble's networks and by its targets."""
    params = it.agent.params(state)
    of_target = params._replace(values=params.values._replace(trained=state.values.target))
    return (np.asarray([it.agent.examiner.q(one, jnp.int32(o)) for o in (0, 1)]) for one in (params, of_target))


@pytest.mark.parametrize("bootstrap", ["max", "double"])
def test_each_head_counts_the_steps_it_would_have_taken_and_better_ones(bootstrap):
    """TD errors of sampled transitions, by hand from the heads' values. The replay stores the priors."""
    options = {"return_steps": 3, "return_cut": "worse", "reward_unit": "largest", "target_period": 100, "dense": True}
    it = make(**TDU, **options, bootstrap=bootstrap, learning_rate=0.03)
    state, acting = begun(it)
    rng, stored = np.random.default_rng(0), []
    for i in range(8):
        o_tm1, action, o_t, last = *rng.integers(2, size=3), rng.random() < 0.2
        stored.append((int(o_tm1), int(action), 20.0 * i * (-1) ** i, float(i != 6), int(o_t), bool(last)))
        extras = {"last": jnp.asarray(last), "row": jnp.int32(0)}
        step = Transition(*map(jnp.asarray, stored[-1][:5]), extras)
        state = it.agent.observe(state, acting, step, jax.random.key(i))
    for i in range(20):
        state, _ = it.learn(state, jax.random.key(100 + i))
    q, target = (values / 140 for values in online_and_target(it, state))
    selector = q if bootstrap == "double" else target
    assert (q.argmax(axis=-1) != target.argmax(axis=-1)).any(), "the networks have moved away from their targets"

    def value(head, place, steps):
        """The target of one stored step for one head, cut as with return_cut=worse, in units of the largest reward."""
        _, _, reward, discount, o_t, last = stored[place]
        best = selector[o_t, head].argmax()
        v = target[o_t, head, best]
        if steps > 1 and not last and place < 7:
            after = value(head, place + 1, steps - 1)
            v = after if stored[place + 1][1] == best else max(v, after)
        return reward / 140 + 0.99 * discount * v

    def by_hand(places, steps):
        return np.array([[value(h, i, steps) - q[stored[i][0], h, stored[i][1]] for i in places] for h in range(5)])

    def drawn(key):
        batch = it.agent.examiner.remembered(state, key)
        return batch, (np.abs(batch.r_t) / 20).round().astype(int)

    cut = []
    for key in jax.random.split(jax.random.key(4), 10):
        batch, places = drawn(key)
        found = it.agent.examiner.examine(state, batch)
        np.testing.assert_allclose(found.td, 140 * by_hand(places, 3), rtol=1e-4, atol=1e-3)
        cut.append(np.isclose(by_hand(places, 3), by_hand(places, 1)))
    assert 0.1 < np.mean(cut) < 0.9, "some heads go along and some do not"
    delta = by_hand(drawn(jax.random.key(3))[1], 3)
    _, metrics = it.learn(state, jax.random.key(3))
    sigma = np.std(delta[:3], axis=0, ddof=1)
    delta[3:] += 0.7 * sigma
    assert metrics["bonus"] == pytest.approx(140 * sigma.mean(), rel=1e-4)
    assert metrics["loss"] == pytest.approx(np.mean(0.5 * delta**2), rel=1e-4)


def test_explorers_are_paid_and_exploiters_are_not():
    """After one learning step from the same start, β changes the explorers' weights and not the exploiters'."""
    start = filled(make(**TDU))
    a, b = (make(**TDU | {"beta": beta}).learn(start, jax.random.key(0))[0] for beta in (0.0, 5.0))
    np.testing.assert_array_equal(heads(a, 0)[:3], heads(b, 0)[:3])
    moments = [np.asarray(state.values.optimiser.first[1][0][0]) for state in (a, b)]
    assert np.abs(moments[0][3:] - moments[1][3:]).max() > 1e-4
    np.testing.assert_array_equal(moments[0][:3], moments[1][:3])


def test_bdqn_is_tdu_without_explorers():
    """On the same data, TDU's K exploiters learn the same as BDQN's K heads."""
    bdqn, tdu = make("bdqn", exploiters=3), make(**TDU)
    theirs, ours = filled(bdqn), filled(tdu)
    ours = ours._replace(
        values=ours.values._replace(
            table=ours.values.table._replace(rows=ours.values.table.rows.at[:, :, :3].set(theirs.values.table.rows)),
            prior=ours.values.prior.at[:, :3].set(theirs.values.prior),
            **{
                name: jax.tree.map(
                    lambda o, t: o.at[:3].set(t), getattr(ours.values, name), getattr(theirs.values, name)
                )
                for name in ("params", "target")
            },
        )
    )
    for i in range(6):
        theirs, _ = bdqn.learn(theirs, jax.random.key(i))
        ours, _ = tdu.learn(ours, jax.random.key(i))
    jax.tree.map(
        lambda o, t: np.testing.assert_allclose(o[:3], t, rtol=1e-5, atol=1e-7),
        ours.values.params,
        theirs.values.params,
    )


def test_a_masked_head_does_not_learn():
    it = make("bdqn", exploiters=6, mask_prob=0.5)
    state = filled(it, rewards=(1.0,) * 8)
    masks = np.asarray(state.replay.data.extras["mask"])
    assert 0 < masks.mean() < 1
    by_hand = {"mask": jnp.tile(jnp.array([0.0, 1, 1, 0, 1, 1]), (8, 1))}
    state = state._replace(replay=state.replay._replace(data=state.replay.data._replace(extras=by_hand)))
    after, _ = it.learn(state, jax.random.key(0))
    moved = np.abs(np.asarray(after.values.params[1][0][0] - state.values.params[1][0][0])).max(axis=(1, 2))
    np.testing.assert_array_equal(moved > 0, [False, True, True, False, True, True])


def test_reward_noise_reaches_the_loss_and_not_the_bonus():
    quiet, noisy = make(**TDU), make(**TDU, noise_scale=2.0)
    _, a = quiet.learn(filled(quiet), jax.random.key(0))
    _, b = noisy.learn(filled(noisy), jax.random.key(0))
    assert a["bonus"] == pytest.approx(float(b["bonus"]), rel=1e-5)
    assert abs(float(a["loss"] - b["loss"])) > 1e-3


def test_learning_waits_for_its_data_and_its_period():
    it = make(**TDU, min_replay=3, learn_period=2)
    state, acting = begun(make(**TDU))  # it begins with the same state
    updates = []
    for i in range(6):
        state, metrics = it.learn(it.observe(state, acting, jnp.float32(1.0), jax.random.key(i)), jax.random.key(i))
        updates.append(float(metrics["updates"]))
    assert updates == [0.0, 0.0, 0.0, 1.0, 0.0, 1.0]


@pytest.mark.parametrize(("acting", "moves"), [("frozen", False), ("live", True)])
def test_live_and_frozen_heads_differ_once_something_is_learned(acting, moves):
    it = make("bdqn", exploiters=1, acting=acting, prior_scale=0.0, learning_rate=1.0)
    state, acting_state = begun(it)
    act = jax.jit(it.agent.actor.act)

    def action(state):
        timestep = TimeStep(jnp.int32(0), jnp.float32(0), jnp.float32(1), jnp.bool_(False))
        return int(act(it.agent.params(state), acting_state, timestep, jax.random.key(0))[0])

    before = action(state)
    state = filled(it, rewards=(10.0 if before == 0 else -10.0,) * 8)
    for i in range(3):
        state, _ = it.learn(state, jax.random.key(i))
    assert (action(state) != before) == moves
    assert it.agent.live == moves


def test_the_second_call_does_not_compile_again():
    it = make(**TDU)
    state, _ = it.learn(filled(it), jax.random.key(0))
    it.learn(state, jax.random.key(1))
    assert it.learn._cache_size() == 1


def test_an_eager_agent_learns_at_every_step_at_first():
    it = make(**TDU, learn_period=3, eager_steps=4)
    state, acting = begun(it)
    learned = []
    for i in range(8):
        state = it.observe(state, acting, jnp.float32(1), jax.random.key(i))
        state, metrics = it.learn(state, jax.random.key(i))
        learned.append(int(metrics["updates"]))
    assert learned == [0, 1, 1, 0, 0, 1, 0, 0], "two steps are stored first; from the fourth on, one step in three"


@pytest.mark.parametrize(("states", "steps"), [(2, 1), (None, 3)])
def test_returns_may_be_longer_where_observations_are_not_one_hot(states, steps):
    config = agents.configure("tdu", SMALL | TDU | {"dense_return_steps": 3})
    spec = SPEC._replace(num_states=states)
    agent = agents.find("tdu").make(spec, config)
    state = agent.init(jax.random.key(0))
    acting = agent.actor.begin(agent.params(state), jax.random.key(1))
    observation = jnp.int32(0) if states else jnp.zeros(2)
    for i in range(4):
        extras = {"last": jnp.asarray(False), "row": jnp.int32(0)} if steps > 1 else {}
        step = Transition(observation, jnp.int32(1), jnp.float32(1), jnp.float32(1), observation, extras)
        state = agent.observe(state, acting, step, jax.random.key(i))
    returns = agent.examiner.remembered(state, jax.random.key(2)).r_t
    assert np.max(returns) == pytest.approx(sum(0.99**i for i in range(steps)))


def test_eager_steps_that_change_nothing_are_refused():
    for options in ({"learn_period": 1}, {"learn_period": 2, "replay_capacity": 8}):
        with pytest.raises(UserError, match="eager_steps"):
            agents.configure("tdu", options | {"min_replay": 8, "batch_size": 8, "eager_steps": 9})
