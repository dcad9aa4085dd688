"""TD errors: by hand, against rlax, and with no gradient through the target."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import rlax

from tdu import td

Q_TM1 = jnp.array([1.0, 2.0, -0.5])
Q_T = jnp.array([0.0, 3.0, 1.0])
SELECTOR = jnp.array([5.0, 0.0, 1.0])


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit])
def test_hand_computed_values(wrap):
    assert wrap(td.q_learning)(Q_TM1, jnp.int32(1), jnp.float32(0.5), jnp.float32(0.9), Q_T) == pytest.approx(
        0.5 + 0.9 * 3.0 - 2.0
    )
    error = wrap(td.double_q_learning)(Q_TM1, jnp.int32(2), jnp.float32(0.5), jnp.float32(0.9), Q_T, SELECTOR)
    assert error == pytest.approx(0.5 + 0.9 * 0.0 + 0.5)


def test_equal_to_rlax_on_batches():
    keys = jax.random.split(jax.random.key(0), 4)
    q_tm1, q_t, selector = (jax.random.normal(k, (64, 5)) for k in keys[:3])
    a = jax.random.randint(keys[3], (64,), 0, 5)
    r, d = jnp.linspace(-1, 1, 64), jnp.linspace(0, 1, 64)
    ours = jax.vmap(td.q_learning)(q_tm1, a, r, d, q_t)
    np.testing.assert_allclose(ours, jax.vmap(rlax.q_learning)(q_tm1, a, r, d, q_t), rtol=1e-6)
    ours = jax.vmap(td.double_q_learning)(q_tm1, a, r, d, q_t, selector)
    np.testing.assert_allclose(ours, jax.vmap(rlax.double_q_learning)(q_tm1, a, r, d, q_t, selector), rtol=1e-6)


def of_three_steps(actions, follows=(True, True), q_t=((0.0, 50.0), (200.0, 1.0), (5.0, 4.0))):
    """Target of three steps with rewards 1, 10, 100 and γ = 0.9. The selector picks 1, 0, 1. The first step always counts."""
    selector = jnp.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    r_t, d_t = jnp.array([1.0, 10.0, 100.0]), jnp.full(3, 0.9)
    error = td.cut_q_learning(Q_TM1[:2], jnp.array(actions), r_t, d_t, jnp.array(q_t), selector, jnp.array(follows))
    return error + 2.0


def test_steps_count_up_to_the_first_that_is_not_one_s_own_and_was_worse():
    """After the first step, the head's own actions are 1 and 0. The last step is worth 103.6."""
    to_the_end = 1 + 0.9 * (10 + 0.9 * (100 + 0.9 * 4.0))
    assert of_three_steps([1, 1, 0]) == pytest.approx(to_the_end), "one's own, though worse than expected"
    assert of_three_steps([1, 1, 1]) == pytest.approx(1 + 0.9 * (10 + 0.9 * 200.0)), "worse than 200"
    hopeless = ((0.0, 50.0), (90.0, 1.0), (5.0, 4.0))
    assert of_three_steps([1, 1, 1], q_t=hopeless) == pytest.approx(to_the_end), "better than 90"
    assert of_three_steps([1, 0, 1], q_t=hopeless) == pytest.approx(to_the_end), "and better than 50"
    modest = ((0.0, 300.0), (90.0, 1.0), (5.0, 4.0))
    assert of_three_steps([1, 0, 1], q_t=modest) == pytest.approx(1 + 0.9 * 300.0), "what follows it counts no more"
    assert of_three_steps([1, 1, 0], (True, False)) == pytest.approx(1 + 0.9 * (10 + 0.9 * 200.0))
    assert of_three_steps([1, 1, 0], (False, True)) == pytest.approx(1 + 0.9 * 50.0)


def test_cut_steps_are_a_lambda_return_cut_there_and_of_one_step_double_q_learning():
    keys = jax.random.split(jax.random.key(1), 6)
    q_tm1, (q_t, selector) = jax.random.normal(keys[0], (500, 3)), jax.random.normal(keys[1], (2, 500, 4, 3))
    a, follows = jax.random.randint(keys[2], (500, 4), 0, 3), jax.random.bernoulli(keys[3], 0.8, (500, 3))
    r, d = jax.random.normal(keys[4], (500, 4)), jax.random.uniform(keys[5], (500, 4))
    ours = jax.vmap(td.cut_q_learning)(q_tm1, a, r, d, q_t, selector, follows)
    best = np.argmax(selector, axis=-1)
    v_t = np.take_along_axis(np.asarray(q_t), best[..., None], axis=-1)[..., 0]
    lambda_t = np.zeros((500, 4), np.float32)
    for k in (2, 1, 0):  # whether a step counts depends on what counts after it
        after = np.asarray(jax.vmap(rlax.lambda_returns)(r, d, v_t, lambda_t))[:, k + 1]
        lambda_t[:, k] = follows[:, k] & ((best[:, k] == a[:, k + 1]) | (after > v_t[:, k]))
    returns = jax.vmap(rlax.lambda_returns)(r, d, v_t, lambda_t)
    np.testing.assert_allclose(ours, returns[:, 0] - jax.vmap(td.taken)(q_tm1, a[:, 0]), atol=1e-5)
    assert 0.2 < lambda_t[:, 0].mean() < 0.8, "some go on and some do not"
    one = jax.vmap(td.cut_q_learning)(q_tm1, *(x[:, :1] for x in (a, r, d, q_t, selector)), follows[:, :0])
    double = jax.vmap(td.double_q_learning)(q_tm1, a[:, 0], r[:, 0], d[:, 0], q_t[:, 0], selector[:, 0])
    np.testing.assert_allclose(one, double, atol=1e-6)


def test_gradient_reaches_only_the_action_taken():
    args = (jnp.int32(1), jnp.float32(0.5), jnp.float32(0.9), Q_T)
    np.testing.assert_array_equal(jax.grad(td.q_learning)(Q_TM1, *args), [0.0, -1.0, 0.0])
    through_target = jax.grad(lambda q_t: td.q_learning(Q_TM1, *args[:3], q_t))(Q_T)
    np.testing.assert_array_equal(through_target, [0.0, 0.0, 0.0])


def test_a_batch_without_vmap_is_refused():
    with pytest.raises(ValueError, match="vmap"):
        td.q_learning(jnp.zeros((2, 3)), jnp.int32(0), jnp.float32(0), jnp.float32(0), Q_T)


def test_squashing_is_rlax_s_and_can_be_undone():
    x = jnp.concatenate([-jnp.logspace(-3, 5, 30), jnp.zeros(1), jnp.logspace(-3, 5, 30)])
    np.testing.assert_allclose(td.squash(x), rlax.signed_hyperbolic(x), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(td.unsquash(td.squash(x)), x, rtol=1e-5)  # rlax's version loses four digits near 0
    np.testing.assert_allclose(td.unsquash(x / 1e3), rlax.signed_parabolic(x / 1e3), rtol=1e-3, atol=2e-4)


def test_transformed_q_lambda_by_hand():
    """The last of two steps bootstraps. The first mixes its own bootstrap with the return of the last."""
    q_tm1, q_t = jnp.array([[0.1, 0.2], [0.3, 0.4]]), jnp.array([[0.5, 0.1], [0.2, 0.6]])
    selector = jnp.array([[0.0, 1.0], [1.0, 0.0]])  # picks the smaller value
    r, d = jnp.array([1.0, 2.0]), jnp.array([0.9, 0.8])
    last = 2.0 + 0.8 * td.unsquash(0.2)
    first = 1.0 + 0.9 * (0.3 * td.unsquash(0.1) + 0.7 * last)
    errors = td.transformed_q_lambda(q_tm1, jnp.array([1, 0]), r, d, q_t, selector, 0.7)
    np.testing.assert_allclose(errors, [td.squash(first) - 0.2, td.squash(last) - 0.3], rtol=1e-5)


def test_transformed_q_lambda_is_rlax_s_where_the_largest_value_is_picked():
    keys = jax.random.split(jax.random.key(1), 4)
    q_tm1, q_t = (jax.random.normal(k, (20, 5)) for k in keys[:2])
    a, r = jax.random.randint(keys[2], (20,), 0, 5), jax.random.normal(keys[3], (20,))
    d = jnp.where(jnp.arange(20) % 7 == 6, 0.0, 0.99)
    for lambda_ in (0.0, 0.97, 1.0):
        theirs = rlax.transformed_q_lambda(q_tm1, a, r, d, q_t, lambda_, tx_pair=rlax.SIGNED_HYPERBOLIC_PAIR)
        np.testing.assert_allclose(
            td.transformed_q_lambda(q_tm1, a, r, d, q_t, q_t, lambda_), theirs, rtol=1e-3, atol=1e-4
        )


def test_no_gradient_goes_through_the_target_of_q_lambda():
    q, a, r = jnp.ones((3, 2)), jnp.zeros(3, jnp.int32), jnp.ones(3)
    through = jax.grad(lambda q_t: td.transformed_q_lambda(q, a, r, r, q_t, q_t, 0.9).sum())(q)
    np.testing.assert_array_equal(through, 0)
