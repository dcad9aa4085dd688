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


def test_gradient_reaches_only_the_action_taken():
    args = (jnp.int32(1), jnp.float32(0.5), jnp.float32(0.9), Q_T)
    np.testing.assert_array_equal(jax.grad(td.q_learning)(Q_TM1, *args), [0.0, -1.0, 0.0])
    through_target = jax.grad(lambda q_t: td.q_learning(Q_TM1, *args[:3], q_t))(Q_T)
    np.testing.assert_array_equal(through_target, [0.0, 0.0, 0.0])


def test_a_batch_without_vmap_is_refused():
    with pytest.raises(ValueError, match="vmap"):
        td.q_learning(jnp.zeros((2, 3)), jnp.int32(0), jnp.float32(0), jnp.float32(0), Q_T)
