"""Adam against optax, and the sparse Adam, which updates rows late, against the dense one."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tdu.adam import Adam
from tdu.values import sparse_layer

STATES, ROW, BATCH = 12, (1, 3), 4


def test_adam_equals_optax():
    adam = Adam(1e-3)
    reference = optax.adam(1e-3)
    start = {"a": jnp.array([1.0, -2.0]), "b": jnp.ones((2, 2))}

    def both(carry, step):
        ours, moments, params, state = carry
        key = jax.random.fold_in(jax.random.key(0), step)
        gradient = jax.tree.map(lambda x: jax.random.normal(key, x.shape), params)
        ours, moments = adam.update(ours, moments, gradient, step)
        updates, state = reference.update(gradient, state)
        return (ours, moments, optax.apply_updates(params, updates), state), ()

    carry = start, adam.init(start), start, reference.init(start)
    (ours, _, params, _), _ = jax.jit(lambda *x: jax.lax.scan(both, *x))(carry, jnp.arange(1, 200))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), ours, params)
    assert np.abs(ours["a"] - start["a"]).max() > 1e-3


def _batches(steps: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """States with repeats, long absences and the all-zero observation, and gradients of size 1."""
    rng = np.random.default_rng(seed)
    states = rng.choice(STATES + 1, size=(steps, BATCH), p=_uneven())
    return states.astype(np.int32), rng.choice([-1.0, 1.0], size=(steps, BATCH, *ROW))


def _uneven() -> np.ndarray:
    weights = 0.5 ** np.arange(STATES + 1)
    return weights / weights.sum()


def _run(steps: int, adam: Adam, dtype: type, period: int = 4) -> tuple[float, float]:
    """Largest difference of weights and of targets between both forms, over all steps and rows."""
    states, gradients = _batches(steps, seed=1)
    weights = jnp.asarray(np.random.default_rng(0).normal(size=(STATES, *ROW)).astype(dtype))
    reference = optax.adam(adam.learning_rate, eps=adam.eps)
    everything = jnp.arange(STATES + 1)

    def both(carry, batch):
        table, dense, target, opt_state = carry
        s, g, step = batch
        read = sparse_layer.read(table, s)
        now = sparse_layer.catch_up(adam, read, step - 1)
        first, sums = sparse_layer.distinct(s)
        summed = jnp.einsum("ij,jrf->irf", sums, g)
        table = sparse_layer.write(adam, table, states=s, first=first, before=read, now=now, gradient=summed, step=step)
        gradient = jnp.zeros((STATES + 1, *ROW), dtype).at[s].add(g)[:STATES]
        updates, opt_state = reference.update(gradient, opt_state)
        dense = optax.apply_updates(dense, updates)
        copy = step % period == 0
        target = jnp.where(copy, dense, target)
        table = table._replace(copied=jnp.where(copy, step, table.copied))
        rows = sparse_layer.read(table, everything)
        value = sparse_layer.catch_up(adam, rows, step)
        targets = sparse_layer.target(adam, rows, table.copied)
        zero = jnp.abs(value[-1]).max() + jnp.abs(targets[-1]).max()
        difference = jnp.abs(value[:-1] - dense).max(), jnp.abs(targets[:-1] - target).max(), zero
        return (table, dense, target, opt_state), jnp.stack(difference)

    start = sparse_layer.init(weights), weights, weights, reference.init(weights)
    batches = jnp.asarray(states), jnp.asarray(gradients, dtype), jnp.arange(1, steps + 1, dtype=jnp.int32)
    (_, dense, _, _), differences = jax.jit(lambda *x: jax.lax.scan(both, *x))(start, batches)
    worst = np.asarray(differences).max(axis=0)
    assert np.abs(dense - weights).max() > 0.1, "the weights have moved"
    assert worst[2] == 0.0, "the all-zero observation has no weights"
    return float(worst[0]), float(worst[1])


def test_exact_in_double_precision():
    with jax.enable_x64(True):
        weights, targets = _run(3000, Adam(1e-3, eps=1e-30), np.float64)
    assert weights < 1e-12
    assert targets < 1e-12


def test_close_with_the_usual_epsilon_and_unit_gradients():
    weights, targets = _run(3000, Adam(1e-3, eps=1e-8), np.float32)
    assert weights < 1e-6 * 3000**0.5  # float32 rounds both forms at every step
    assert targets < 1e-6 * 3000**0.5


def test_close_with_the_usual_epsilon_in_double_precision():
    with jax.enable_x64(True):
        weights, targets = _run(3000, Adam(1e-3, eps=1e-8), np.float64)
    assert weights < 1e-6
    assert targets < 1e-6


@pytest.mark.parametrize(("start", "end"), [(0, 1), (3, 3), (5, 60), (100, 5000), (40_000, 40_010)])
def test_distance_is_the_sum_of_the_steps(start, end):
    adam = Adam(1e-3)
    ratio = adam.b1 / np.sqrt(adam.b2)
    expected = sum(ratio ** (s - start) * np.sqrt(1 - adam.b2**s) / (1 - adam.b1**s) for s in range(start + 1, end + 1))
    with jax.enable_x64(True):
        assert sparse_layer._distance(adam, jnp.int32(start), jnp.int32(end)) == pytest.approx(
            expected, rel=1e-9, abs=1e-12
        )
