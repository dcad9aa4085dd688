"""Heads on a shared trunk: values by hand, sparse against dense, the trunk's gradient, and priors of unit size."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from test_values import GRID, SHAPE, VECTOR, loss, trained, trial

from tdu import agents, values
from tdu.adam import Adam
from tdu.networks import mlp
from tdu.types import EnvSpec

HEADS = SHAPE._replace(layout="heads")
UNIT = HEADS._replace(unit_prior=True)
FORMS = pytest.mark.parametrize("make", [values.dense, values.one_hot])


def by_hand(layers, x, unit=False):
    """Output [H·A] of a network for one input, in NumPy."""
    for i, (w, b) in enumerate(layers):
        if i == len(layers) - 1 and unit:
            x = np.sqrt(len(x)) * np.maximum(x, 0) / np.linalg.norm(np.maximum(x, 0))
        x = (np.maximum(x, 0) if i else x) @ np.asarray(w) + np.asarray(b)
    return x


@pytest.mark.parametrize("shape", [HEADS, UNIT])
def test_values_by_hand(shape):
    it = trial(values.dense, shape, VECTOR)
    observation = np.random.default_rng(0).normal(size=VECTOR.observation_shape).astype(np.float32)
    expected = by_hand(it.start.params, observation.reshape(-1))
    expected = expected + 3.0 * by_hand(it.start.prior, observation.reshape(-1), shape.unit_prior)
    np.testing.assert_allclose(it.q(it.start, observation), expected.reshape(4, 3), rtol=1e-4, atol=1e-5)
    assert it.start.params[-1][0].shape == (7, 4 * 3)
    assert it.start.params[0][0].shape == (6, 8), "one trunk"


@pytest.mark.parametrize("shape", [HEADS, UNIT, HEADS._replace(double=True)])
def test_sparse_equals_dense(shape):
    sparse, dense = trial(values.one_hot, shape), trial(values.dense, shape)
    a, b = sparse.table(trained(sparse, 60)), dense.table(trained(dense, 60))
    assert np.abs(a - sparse.table(sparse.start)).max() > 0.5, "something was learned"
    np.testing.assert_allclose(a, b, rtol=2e-3, atol=1e-3)


def test_the_trunk_has_the_mean_of_the_heads_gradients():
    """With a large ε, Adam's step depends on the gradient's size. optax's Adam on the scaled gradient gives the same step."""
    shape = HEADS._replace(optimiser=Adam(1e-2, eps=1.0), prior_scale=0.0)
    it = trial(values.dense, shape, VECTOR)
    o_tm1, o_t = jax.random.normal(jax.random.key(1), (2, 5, *VECTOR.observation_shape))

    def every_head(layers, o):
        return jnp.moveaxis(mlp.apply_mlp(layers, o.reshape(5, -1)).reshape(5, 4, 3), 1, 0)

    layers = it.start.params
    gradient = jax.grad(lambda p: loss(every_head(p, o_tm1), every_head(layers, o_t), None)[0])(layers)
    *trunk, last = gradient
    optimiser = optax.adam(1e-2, eps=1.0)
    scaled = [*jax.tree.map(lambda g: g / 4, trunk), last]
    step, _ = optimiser.update(scaled, optimiser.init(layers), layers)
    after, _ = it.update(it.start, o_tm1, o_t)
    expected = optax.apply_updates(layers, step)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-7), after.params, expected)
    assert np.abs(trunk[0][0]).max() > 1e-3


@FORMS
def test_a_frozen_head_does_not_learn(make):
    it = trial(make, HEADS)
    state = trained(it, 5)
    frozen = it.ensemble.freeze(it.ensemble.params(state), jnp.int32(2))
    before = np.asarray(it.q(state, jnp.int32(7)))[2]
    state, _ = it.update(state, np.full(16, 7, np.int32), np.full(16, 8, np.int32))
    assert np.abs(np.asarray(it.q(state, jnp.int32(7)))[2] - before).max() > 1e-4
    np.testing.assert_allclose(it.ensemble.frozen_q(frozen, jnp.int32(7)), before, rtol=1e-5, atol=1e-6)


@FORMS
def test_the_target_is_the_network_of_the_last_copy_and_the_prior_stays(make):
    it = trial(make, HEADS)
    state, o_t = it.start, np.full(16, 5, np.int32)
    for step in range(1, 10):
        if (step - 1) % HEADS.target_period == 0:
            expected = np.asarray(it.q(state, jnp.int32(5)))
        state, target = it.update(state, np.resize([1, 1, 5, 12], 16).astype(np.int32), o_t)
        np.testing.assert_allclose(target[:, 0], expected, rtol=1e-4, atol=1e-6)
    jax.tree.map(np.testing.assert_array_equal, state.prior, it.start.prior)


@pytest.mark.parametrize("layout", ["networks", "heads"])
def test_a_unit_prior_has_one_size_for_every_width(layout):
    def size(states, unit):
        spec = EnvSpec("line", (states,), 2, num_states=states)
        shape = values.EnsembleShape(50, (64, 64), 1.0, 4, False, Adam(1e-3), layout=layout, unit_prior=unit)
        return float(np.std(jax.jit(values.one_hot(spec, shape).init)(jax.random.key(0)).prior[:states]))

    small, large = size(16, True), size(400, True)
    assert small == pytest.approx(0.88, abs=0.06)
    assert large == pytest.approx(small, rel=0.06)
    assert size(400, False) < 0.3 * size(16, False), "the paper's prior fades as 1/√width"


IMAGE = EnvSpec("image", (5, 6, 2), 3)


def test_images_have_one_torso_for_all_heads():
    it = trial(values.dense, UNIT, IMAGE)
    observation = jax.random.normal(jax.random.key(3), IMAGE.observation_shape)
    assert it.q(it.start, observation).shape == (4, 3)
    frozen = it.ensemble.freeze(it.ensemble.params(it.start), jnp.int32(1))
    np.testing.assert_allclose(
        it.ensemble.frozen_q(frozen, observation), it.q(it.start, observation)[1], rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("agent", ["tdu", "bdqn", "qu", "q_ucb"])
@pytest.mark.parametrize("spec", [GRID, VECTOR])
def test_every_ensemble_learns_on_a_trunk(agent, spec):
    options = {"ensemble": "heads", "prior_size": "unit", "hidden_sizes": (8,), "min_replay": 1, "batch_size": 4}
    options |= {"exploiters": 3} | ({"explorers": 2} if agent in ("tdu", "qu") else {})
    options |= {"mask_prob": 0.5, "noise_scale": 0.1, "return_steps": 2, "bootstrap": "double"}
    made = agents.AGENTS[agent].make(spec, agents.configure(agent, options))
    state = jax.jit(made.init)(jax.random.key(0))
    params = made.params(state)
    observation = jnp.zeros(spec.carried_shape, spec.carried_dtype)
    assert made.values(params, observation).shape == (spec.num_actions,)
    _, metrics = jax.jit(made.learn)(
        state._replace(replay=state.replay._replace(filled=jnp.int32(4))), jax.random.key(1)
    )
    assert float(metrics["updates"]) == 1.0
    assert np.isfinite(float(metrics["loss"]))
