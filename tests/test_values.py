"""The ensemble: heads equal a plain loop, sparse equals dense, targets and priors do what they should."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tdu import agents, environments, values
from tdu.adam import Adam
from tdu.networks import mlp
from tdu.runners.compiled import CompiledRunner
from tdu.runners.protocol import Budget
from tdu.types import EnvSpec

GRID = EnvSpec("grid", (3, 4), 2, num_states=12)
VECTOR = EnvSpec("vector", (2, 3), 3)
SHAPE = values.Shape(heads=4, hidden_sizes=(8, 7), prior_scale=3.0, target_period=4, double=False, adam=Adam(1e-2))


def loss(q_tm1, target_t, online_t):
    best = target_t if online_t is None else jnp.where(online_t > 0, target_t, 0.0)
    delta = 1.0 + 0.9 * jnp.max(best, axis=-1) - q_tm1[..., 0]
    return jnp.sum(jnp.mean(jnp.square(delta), axis=1)), jnp.max(target_t)


def train(ensemble, steps, states=12, key=0):
    state = jax.jit(ensemble.init)(jax.random.key(key))
    update = jax.jit(lambda s, o, p: ensemble.update(s, o, p, loss)[0])
    rng = np.random.default_rng(key)
    for _ in range(steps):
        o_tm1, o_t = rng.integers(0, states + 1, (2, 16)).astype(np.int32)
        state = update(state, o_tm1, o_t)
    return state


def test_every_head_equals_a_loop_over_heads():
    ensemble = values.dense(VECTOR, SHAPE)
    state = ensemble.init(jax.random.key(3))
    observation = jax.random.normal(jax.random.key(4), VECTOR.observation_shape)
    together = ensemble.q(ensemble.params(state), observation)
    for head in range(SHAPE.heads):
        params, prior = jax.tree.map(lambda x, head=head: x[head], (state.params, state.prior))
        x = observation.reshape(-1)
        layers = [(np.asarray(w), np.asarray(b)) for w, b in params]
        alone = np.asarray(x)
        for i, (w, b) in enumerate(layers):
            alone = np.maximum(alone, 0) @ w + b if i else alone @ w + b
        alone = alone + 3.0 * np.asarray(mlp.apply_mlp(prior, x[None]))[0]
        np.testing.assert_allclose(together[head], alone, rtol=1e-4, atol=1e-5)


def test_learning_together_equals_learning_alone():
    """A head of an ensemble of four learns as the same head in an ensemble of its own."""
    four, one = values.dense(GRID, SHAPE), values.dense(GRID, SHAPE._replace(heads=1))
    start = jax.jit(four.init)(jax.random.key(0))
    o_tm1, o_t = jnp.arange(6), jnp.arange(6) + 3
    update_four, update_one = (jax.jit(lambda s, v=v: v.update(s, o_tm1, o_t, loss)[0]) for v in (four, one))
    together = start
    for _ in range(8):
        together = update_four(together)
    for head in range(4):
        alone = jax.tree.map(lambda x, head=head: x[head : head + 1] if jnp.ndim(x) else x, start)
        for _ in range(8):
            alone = update_one(alone)
        mine = jax.tree.map(lambda x, head=head: x[head : head + 1] if jnp.ndim(x) else x, together)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), mine, alone)


@pytest.mark.parametrize("double", [False, True])
def test_priors_known_already_change_nothing(double):
    ensemble = values.dense(VECTOR, SHAPE._replace(double=double))
    state = jax.jit(ensemble.init)(jax.random.key(0))
    o_tm1, o_t = jax.random.normal(jax.random.key(1), (2, 5, *VECTOR.observation_shape))
    kept = [jnp.stack([ensemble.prior(state, one) for one in o], axis=1) for o in (o_tm1, o_t)]
    update = jax.jit(lambda priors: ensemble.update(state, o_tm1, o_t, loss, priors)[0])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), update(None), update(tuple(kept)))
    off = update((kept[0] + 1.0, kept[1]))
    assert np.abs(off.moments.first[-1][1] - update(None).moments.first[-1][1]).max() > 0.1


@pytest.mark.parametrize("double", [False, True])
def test_sparse_equals_dense(double):
    """ε far below the gradients, so that the sparse form is exact up to rounding."""
    shape = SHAPE._replace(double=double, adam=Adam(1e-3, eps=1e-12))
    sparse, dense = values.one_hot(GRID, shape), values.dense(GRID, shape)
    a, b = train(sparse, 60), train(dense, 60)
    for state in range(13):
        np.testing.assert_allclose(
            sparse.q(sparse.params(a), jnp.int32(state)),
            dense.q(dense.params(b), jnp.int32(state)),
            rtol=2e-3,
            atol=2e-4,
        )


@pytest.mark.parametrize("make", [values.dense, values.one_hot])
def test_a_frozen_head_does_not_learn(make):
    ensemble = make(GRID, SHAPE)
    state = train(ensemble, 5)
    frozen = ensemble.freeze(ensemble.params(state), jnp.int32(2))
    before = np.asarray(ensemble.q(ensemble.params(state), jnp.int32(7)))[2]
    np.testing.assert_allclose(ensemble.frozen_q(frozen, jnp.int32(7)), before, rtol=1e-5, atol=1e-6)
    state, _ = ensemble.update(state, jnp.full(16, 7), jnp.full(16, 8), loss)
    assert np.abs(np.asarray(ensemble.q(ensemble.params(state), jnp.int32(7)))[2] - before).max() > 1e-4
    np.testing.assert_allclose(ensemble.frozen_q(frozen, jnp.int32(7)), before, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make", [values.dense, values.one_hot])
def test_the_prior_is_bit_identical_after_training(make):
    ensemble = make(GRID, SHAPE)
    before = jax.jit(ensemble.init)(jax.random.key(0)).prior
    after = train(ensemble, 20).prior
    for x, y in zip(jax.tree.leaves(after), jax.tree.leaves(before), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("make", [values.dense, values.one_hot])
def test_the_target_is_the_network_of_the_last_copy(make):
    ensemble = make(GRID, SHAPE)
    state = jax.jit(ensemble.init)(jax.random.key(0))
    o_tm1 = jnp.array([1, 1, 5, 12])
    expected = None
    for step in range(1, 10):
        seen = {}

        def spy(q_tm1, target_t, online_t, seen=seen):
            seen["target"] = target_t
            return loss(q_tm1, target_t, online_t)

        at_five = np.asarray(ensemble.q(ensemble.params(state), jnp.int32(5)))
        if (step - 1) % SHAPE.target_period == 0:
            expected = at_five
        state, _ = ensemble.update(state, o_tm1, jnp.full(4, 5), spy)
        np.testing.assert_allclose(seen["target"][:, 0], expected, rtol=1e-4, atol=1e-6)


def test_prior_of_scale_zero_is_none():
    ensemble = values.one_hot(GRID, SHAPE._replace(prior_scale=0.0))
    assert not np.any(ensemble.init(jax.random.key(0)).prior)


def test_the_big_table_is_not_copied_in_a_whole_run():
    env = environments.make("deep_sea:size=30")
    options = {"hidden_sizes": (8,), "exploiters": 2, "explorers": 2}
    agent = agents.find("tdu").make(env.spec, agents.configure("tdu", options))
    runner = CompiledRunner(env, agent, 0, budget=Budget(10), stop=True)
    assert "f32[901,4,32]" in runner.compiled_text()
    assert "f32[901,4,32]{2,1,0} copy(" not in runner.compiled_text()


def test_the_big_table_is_not_copied_in_the_loop():
    ensemble = values.one_hot(EnvSpec("big", (30, 30), 2, num_states=900), SHAPE)
    state = jax.jit(ensemble.init)(jax.random.key(0))

    def many(state, o_tm1, o_t):
        return jax.lax.fori_loop(0, 10, lambda _, s: ensemble.update(s, o_tm1, o_t, loss)[0], state)

    text = jax.jit(many, donate_argnums=0).lower(state, jnp.arange(16), jnp.arange(16)).compile().as_text()
    assert "f32[901,4,32]" in text
    assert "f32[901,4,32]{2,1,0} copy(" not in text
