"""The ensemble: heads equal a plain loop, sparse equals dense, and targets, priors and the standard form are correct."""

import functools
from types import SimpleNamespace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tdu import values
from tdu.adam import Adam
from tdu.networks import mlp
from tdu.types import EnvSpec, Part, Parts
from tdu.values import standard
from tdu.values.shape import MAX_COUNT

GRID = EnvSpec("grid", (3, 4), 2, num_states=12)
VECTOR = EnvSpec("vector", (2, 3), 3)
SHAPE = values.EnsembleShape(
    heads=4, hidden_sizes=(8, 7), prior_scale=3.0, target_period=4, double=False, optimiser=Adam(3e-3, eps=1e-12)
)
"""ε is far below the gradients, so the sparse form is exact up to rounding."""

FORMS = pytest.mark.parametrize("make", [values.dense, values.one_hot])


def loss(q_tm1, target_t, online_t):
    best = target_t if online_t is None else jnp.where(online_t > 0, target_t, 0.0)
    delta = 1.0 + 0.9 * jnp.max(best, axis=-1) - q_tm1[..., 0]
    return jnp.sum(jnp.mean(jnp.square(delta), axis=1)), target_t


@functools.cache
def begun(make, shape, spec):
    return jax.jit(make(spec, shape).init)(jax.random.key(0))


@functools.cache
def trial(make, shape=SHAPE, spec=GRID):
    """An ensemble with its initial state and its functions, compiled once."""
    ensemble = make(spec, shape)
    return SimpleNamespace(
        ensemble=ensemble,
        start=begun(make, shape._replace(double=False, target_period=4), spec),
        update=jax.jit(lambda s, o_tm1, o_t, priors=None: ensemble.update(s, o_tm1, o_t, loss, priors)),
        q=jax.jit(lambda s, o: ensemble.q(ensemble.params(s), o)),
        table=jax.jit(lambda s: jax.vmap(ensemble.q, in_axes=(None, 0))(ensemble.params(s), jnp.arange(13))),
    )


def batches(steps, key=0):
    return np.random.default_rng(key).integers(0, 13, (steps, 2, 16)).astype(np.int32)


def trained(it, steps, state=None):
    state = it.start if state is None else state
    for o_tm1, o_t in batches(steps):
        state, _ = it.update(state, o_tm1, o_t)
    return state


def test_every_head_equals_a_loop_over_heads():
    it = trial(values.dense, spec=VECTOR)
    observation = jax.random.normal(jax.random.key(4), VECTOR.observation_shape)
    together = it.q(it.start, observation)
    x = np.asarray(observation).reshape(-1)
    for head in range(SHAPE.heads):
        layers, prior = jax.tree.map(lambda x, head=head: np.asarray(x[head]), (it.start.params, it.start.prior))
        outputs = []
        for network in (layers, prior):
            out = x
            for i, (w, b) in enumerate(network):
                out = np.maximum(out, 0) @ w + b if i else out @ w + b
            outputs.append(out)
        np.testing.assert_allclose(together[head], outputs[0] + 3.0 * outputs[1], rtol=1e-4, atol=1e-5)


def test_learning_together_equals_learning_alone():
    """A head learns the same in an ensemble of four and in an ensemble of one."""
    four, one = trial(values.dense), trial(values.dense, SHAPE._replace(heads=1))
    together = trained(four, 8)
    for head in range(4):

        def of_head(state, head=head):
            return jax.tree.map(lambda x: x[head : head + 1] if jnp.ndim(x) else x, state)

        alone = trained(one, 8, of_head(four.start))
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), of_head(together), alone)


@pytest.mark.parametrize("double", [False, True])
def test_priors_known_already_change_nothing(double):
    it = trial(values.dense, SHAPE._replace(double=double), VECTOR)
    o_tm1, o_t = jax.random.normal(jax.random.key(1), (2, 5, *VECTOR.observation_shape))
    prior = jax.jit(jax.vmap(it.ensemble.prior, in_axes=(None, 0), out_axes=1))
    kept = prior(it.start, o_tm1), prior(it.start, o_t)
    without, _ = it.update(it.start, o_tm1, o_t)
    given, _ = it.update(it.start, o_tm1, o_t, kept)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), without, given)
    off, _ = it.update(it.start, o_tm1, o_t, (kept[0] + 1.0, kept[1]))
    assert np.abs(off.optimiser.first[-1][1] - without.optimiser.first[-1][1]).max() > 0.1


@pytest.mark.parametrize("double", [False, True])
def test_sparse_equals_dense(double):
    shape = SHAPE._replace(double=double)
    sparse, dense = trial(values.one_hot, shape), trial(values.dense, shape)
    a, b = sparse.table(trained(sparse, 60)), dense.table(trained(dense, 60))
    assert np.abs(a - sparse.table(sparse.start)).max() > 0.5, "something was learned"
    np.testing.assert_allclose(a, b, rtol=2e-3, atol=1e-3)


@FORMS
def test_a_frozen_head_does_not_learn(make):
    it = trial(make)
    state = trained(it, 5)
    ensemble = it.ensemble
    frozen = jax.jit(lambda s: ensemble.freeze(ensemble.params(s), jnp.int32(2)))(state)
    before = np.asarray(it.q(state, jnp.int32(7)))[2]
    np.testing.assert_allclose(ensemble.frozen_q(frozen, jnp.int32(7)), before, rtol=1e-5, atol=1e-6)
    state, _ = it.update(state, np.full(16, 7, np.int32), np.full(16, 8, np.int32))
    assert np.abs(np.asarray(it.q(state, jnp.int32(7)))[2] - before).max() > 1e-4
    np.testing.assert_allclose(ensemble.frozen_q(frozen, jnp.int32(7)), before, rtol=1e-5, atol=1e-6)


@FORMS
def test_the_prior_is_bit_identical_after_training(make):
    it = trial(make)
    jax.tree.map(np.testing.assert_array_equal, trained(it, 20).prior, it.start.prior)
    assert np.any(jax.tree.leaves(it.start.prior)[0] != 0)


@FORMS
def test_the_target_is_the_network_of_the_last_copy(make):
    it = trial(make)
    state = it.start
    o_tm1, o_t = np.resize([1, 1, 5, 12], 16).astype(np.int32), np.full(16, 5, np.int32)
    expected = None
    for step in range(1, 10):
        if (step - 1) % SHAPE.target_period == 0:
            expected = np.asarray(it.q(state, jnp.int32(5)))
        state, target = it.update(state, o_tm1, o_t)
        np.testing.assert_allclose(target[:, 0], expected, rtol=1e-4, atol=1e-6)
    assert np.abs(np.asarray(it.q(state, jnp.int32(5))) - expected).max() > 1e-4, "the network itself goes on"


@pytest.mark.parametrize("double", [False, True])
@FORMS
def test_evaluating_gives_the_values_of_a_learning_step(make, double):
    it = trial(make, SHAPE._replace(double=double))
    state, (o_tm1, o_t) = trained(it, 6), batches(1, key=2)[0]
    evaluated = jax.jit(it.ensemble.evaluate)(state, o_tm1, o_t)

    def all_three(q_tm1, target_t, online_t):
        return jnp.sum(q_tm1), (q_tm1, target_t, online_t)

    used = jax.jit(lambda s: it.ensemble.update(s, o_tm1, o_t, all_three)[1])(state)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), tuple(evaluated), used)
    q = np.stack([it.q(state, o) for o in o_tm1], axis=1)
    np.testing.assert_allclose(evaluated.q_tm1, q, rtol=1e-5, atol=1e-5)
    assert (evaluated.online_t is not None) == double


@FORMS
def test_layer_norm_by_hand(make):
    it = trial(make, SHAPE._replace(torso="layer_norm", prior_scale=0.0))
    first, *rest = trial(values.dense, SHAPE._replace(torso="layer_norm", prior_scale=0.0)).start.params
    for state in (0, 7):
        x = np.asarray(first.w)[:, state] + first.b  # [H, F]
        for layer in rest:
            x = np.maximum((x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-6), 0)
            x = np.einsum("hi,hio->ho", x, layer.w) + layer.b
        np.testing.assert_allclose(it.q(it.start, jnp.int32(state)), x, rtol=1e-4, atol=1e-5)
    assert np.abs(it.table(trained(it, 30)) - it.table(it.start)).max() > 0.3, "it learns"


class Descent(NamedTuple):
    """Plain gradient descent, an optimiser that is not in the library."""

    rate: float

    def init(self, params):
        return ()

    def update(self, params, state, gradient, step):
        return jax.tree.map(lambda w, g: w - self.rate * g, params, gradient), state


def test_another_optimiser_trains_a_dense_ensemble():
    it = trial(values.make, SHAPE._replace(optimiser=Descent(0.1)))
    o_tm1, o_t = batches(1)[0]
    layers = it.start.params

    def by_hand(params):
        q_tm1, target_t = (
            jax.vmap(mlp.apply_mlp, (0, None))(p, jax.nn.one_hot(o, 12))
            + 3.0 * jax.vmap(mlp.apply_mlp, (0, None))(it.start.prior, jax.nn.one_hot(o, 12))
            for p, o in ((params, o_tm1), (layers, o_t))
        )
        return loss(q_tm1, target_t, None)[0]

    after, _ = it.update(it.start, o_tm1, o_t)
    expected = jax.tree.map(lambda w, g: w - 0.1 * g, layers, jax.grad(by_hand)(layers))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), after.params, expected)


def test_a_prior_of_scale_zero_is_none():
    none = SHAPE._replace(prior_scale=0.0)
    for spec in (GRID, VECTOR):
        ensemble = values.dense(spec, none)
        assert jax.eval_shape(ensemble.init, jax.random.key(0)).prior == (), "not even carried"
        assert ensemble.prior is None
    assert not np.any(trial(values.one_hot, none).start.prior)
    it = trial(values.dense, none)
    params = jax.tree.map(lambda x: x[1], it.start.params)
    np.testing.assert_allclose(it.q(it.start, jnp.int32(3))[1], mlp.apply_mlp(params, jnp.eye(12)[3]), rtol=1e-5)


def shifted(state, by):
    """The state as if `by` more learning steps had been made."""
    state = state._replace(step=state.step + by)
    if hasattr(state, "table"):
        state = state._replace(
            table=state.table._replace(touched=state.table.touched + by, copied=state.table.copied + by)
        )
    return state


@FORMS
@pytest.mark.parametrize("steps_before", [0, 5])
def test_rebasing_changes_no_number(make, steps_before):
    """The test starts at about 2³⁰ steps. The target period of 3 divides no power of two."""
    it = trial(make, SHAPE._replace(target_period=3))
    late = shifted(trained(it, 7), MAX_COUNT - MAX_COUNT % 3 + 3 * steps_before)
    back = it.ensemble.rebase(late)
    assert MAX_COUNT // 4 < int(back.step) < 0.6 * MAX_COUNT
    np.testing.assert_allclose(it.table(back), it.table(late), rtol=1e-6, atol=1e-6)
    for o_tm1, o_t in batches(12, key=1):
        (late, target), (back, target_back) = it.update(late, o_tm1, o_t), it.update(back, o_tm1, o_t)
        np.testing.assert_allclose(target_back, target, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(it.table(back), it.table(late), rtol=1e-6, atol=1e-6)
    assert np.abs(it.table(late) - it.table(it.start)).max() > 0.05


def test_rebasing_leaves_rows_where_they_came_to_rest():
    """A row whose last gradient was an early one has moved by the bias corrections of the early steps. It must stay there."""
    it = trial(values.one_hot, SHAPE._replace(target_period=3))
    early = trained(it, 7)
    late = early._replace(step=jnp.int32(MAX_COUNT + 1), table=early.table._replace(copied=jnp.int32(MAX_COUNT)))
    assert np.abs(it.table(late) - it.table(early)).max() > 1e-2, "rows have moved on since"
    back = it.ensemble.rebase(late)
    np.testing.assert_array_equal(it.table(back), it.table(late))
    states = np.arange(16, dtype=np.int32) % 13
    for _ in range(4):
        (late, target), (back, target_back) = it.update(late, states, states), it.update(back, states, states)
        np.testing.assert_allclose(target_back, target, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(it.table(back), it.table(late), rtol=1e-6, atol=1e-6)


@FORMS
def test_rebasing_waits_until_it_is_time(make):
    it = trial(make)
    state = trained(it, 7)
    jax.tree.map(np.testing.assert_array_equal, it.ensemble.rebase(state), state)


STANDARD = SHAPE._replace(standard=True, prior_scale=0.6)
LINE = EnvSpec("line", (6,), 3)


def seen_through(it, shift, scale, steps=30):
    """The state after learning from shifted and scaled observations."""
    rng, state = np.random.default_rng(0), it.start
    for _ in range(steps):
        o_tm1, o_t = (shift + scale * rng.normal(size=(2, 16, *LINE.observation_shape))).astype(np.float32)
        state, _ = it.update(state, o_tm1, o_t)
    return state


@pytest.mark.parametrize(("shift", "scale"), [(0.0, 1.0), (500.0, 8.0), (-0.25, 2**-10)])
def test_in_standard_form_the_unit_of_observations_does_not_matter(shift, scale):
    it = trial(values.dense, STANDARD, LINE)
    plain, other = seen_through(it, 0.0, 1.0), seen_through(it, shift, scale)
    looked_at = np.random.default_rng(1).normal(size=LINE.observation_shape).astype(np.float32)
    np.testing.assert_allclose(it.q(plain, looked_at), it.q(other, shift + scale * looked_at), rtol=2e-2, atol=2e-3)
    assert np.abs(it.q(plain, looked_at) - it.q(plain, looked_at + 1.0)).max() > 2e-2
    np.testing.assert_allclose(other.seen.mean, shift, atol=0.1 * scale)
    np.testing.assert_allclose(other.seen.variance, scale**2, rtol=0.3)


@pytest.mark.parametrize("constants", [0, 300])
def test_in_standard_form_priors_differ_from_place_to_place_and_are_of_one_size(constants):
    """Observations far from 0, without and with many more numbers that are constant."""
    spec = EnvSpec("wide", (4 + constants,), 3)
    shape = values.EnsembleShape(
        heads=8,
        hidden_sizes=(32, 32),
        prior_scale=6.0,
        target_period=4,
        double=False,
        optimiser=Adam(1e-9),
        standard=True,
    )
    ensemble, raw = values.dense(spec, shape), values.dense(spec, shape._replace(standard=False))
    observations = np.full((40, 32, *spec.observation_shape), 3.0, np.float32)
    observations[..., :4] += np.random.default_rng(2).normal(size=(*observations.shape[:-1], 4))
    state = jax.jit(ensemble.init)(jax.random.key(0))
    update = jax.jit(lambda s, o: ensemble.update(s, o, o, loss)[0])
    for batch in observations:
        state = update(state, batch)

    def q(state):
        return jax.jit(jax.vmap(ensemble.q, in_axes=(None, 0)))(ensemble.params(state), observations[0])

    priors = q(state) - q(state._replace(prior=jax.tree.map(jnp.zeros_like, state.prior)))
    varies, stays = priors.std(axis=0).mean(), np.abs(priors.mean(axis=0)).mean()
    assert 0.1 < varies < 1.0
    assert stays < 1.5 * varies
    plain = jax.vmap(raw.prior, in_axes=(None, 0))(jax.jit(raw.init)(jax.random.key(0)), observations[0])
    as_they_are = np.abs(plain.mean(axis=0)).mean() / plain.std(axis=0).mean()
    assert as_they_are > 1.5, "heads prefer one action"


def test_in_standard_form_a_frozen_head_does_not_change():
    it = trial(values.dense, STANDARD, LINE)
    state, ensemble = seen_through(it, 5.0, 2.0), it.ensemble
    observation = np.full(LINE.observation_shape, 6.0, np.float32)
    frozen = ensemble.freeze(ensemble.params(state), jnp.int32(2))
    before = np.asarray(it.q(state, observation))[2]
    np.testing.assert_allclose(ensemble.frozen_q(frozen, observation), before, rtol=1e-4, atol=1e-6)
    state, _ = it.update(state, np.full((16, 6), 50.0, np.float32), np.full((16, 6), 50.0, np.float32))
    assert np.abs(np.asarray(it.q(state, observation))[2] - before).max() > 1e-4
    np.testing.assert_allclose(ensemble.frozen_q(frozen, observation), before, rtol=1e-4, atol=1e-6)
    assert ensemble.prior is None, "it changes with what is seen, so that nobody may keep it"


def test_constant_numbers_are_left_out_of_the_standard_form():
    it = trial(values.dense, STANDARD, LINE)
    rng, state = np.random.default_rng(0), it.start
    for _ in range(20):
        o_tm1, o_t = rng.normal(size=(2, 16, *LINE.observation_shape)).astype(np.float32)
        o_tm1[:, 0] = o_t[:, 0] = 0.7
        state, _ = it.update(state, o_tm1, o_t)
    assert np.isfinite(it.q(state, o_t[0])).all()
    moved = o_t[0].copy()
    moved[0] += 1e-7
    np.testing.assert_allclose(it.q(state, moved), it.q(state, o_t[0]), atol=2e-2)
    far = []
    for moved[0] in (10.0, 100.0, 1000.0):
        far.append(np.asarray(it.q(state, moved)))
    assert np.isfinite(far).all()
    assert np.abs(np.diff(far, axis=0)).max(axis=(1, 2)).min() > 1e-3, "however far, they differ"


def test_in_standard_form_heads_differ_where_nothing_varies():
    """As in a bandit, all observations are equal."""
    it = trial(values.dense, STANDARD, LINE)
    state, same = it.start, np.full((16, *LINE.observation_shape), 7.0, np.float32)
    for _ in range(3):
        state, _ = it.update(state, same, same)
    assert np.asarray(it.q(state, same[0])).std(axis=0).min() > 0.02


def test_only_vectors_of_numbers_have_a_standard_form():
    """Bytes, choices, images and tables already have a common unit."""
    parts = Parts(
        (
            Part(("where",), choices=((0, 4),)),
            Part(("view",), (2, 3, 3), largest=10.0),
            Part(("bytes",), (2,), largest=255.0),
            Part(("speed",), (2,)),
        ),
        (),
    )
    several = EnvSpec("several", (26,), 2, parts=parts)
    assert standard.measured(several).tolist() == [False] * 24 + [True] * 2
    view = several._replace(parts=parts._replace(taken=parts.taken[:2]), observation_shape=(22,))
    for spec in (GRID, VECTOR, view, EnvSpec("bytes", (3,), 2, dtype="uint8"), EnvSpec("picture", (5, 5, 3), 2)):
        assert not standard.measured(spec).any()
        there = jax.eval_shape(values.dense(spec, STANDARD).init, jax.random.key(0))
        assert there.seen == (), "it stays as it is"
    assert standard.measured(EnvSpec("vector", (3,), 2)).tolist() == [True] * 3
    assert standard.measured(EnvSpec("number", (), 2)).tolist() == [True]
    seen = standard.Statistics(jnp.array([1.0, 0.0, 5.0, 0.0]), jnp.array([4.0, 0.0, 16.0, 100.0]))
    found = standard.standardised(seen, jnp.array([4.0, 0.0, 3.0, 20.0]), np.array([True, True, False, True]))
    np.testing.assert_allclose(found, np.array([1.5, 0.0, 3.0, 2.0, 1.0]) / 2.0, rtol=1e-5)
