"""The one-file example solves Deep Sea 10, and its parts equal the library's."""

import importlib.util
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tdu import bonus, environments, td

PATH = Path(__file__).parents[2] / "examples" / "tdu_in_one_file.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location(PATH.stem, PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def batch(example):
    """Random values of every head and of its target network, and random transitions."""
    rng = np.random.default_rng(0)
    q, q_target = rng.normal(size=(2, example.K + example.N, 32, 2)).astype(np.float32)
    cells, next_cells, actions = (jnp.asarray(rng.integers(0, most, 32)) for most in (16, 16, 2))
    rewards, discounts = rng.normal(size=32).astype(np.float32), rng.integers(0, 2, 32).astype(np.float32)
    return q, q_target, example.Transition(cells, actions, rewards, discounts, next_cells)


def library_td(example, q, q_target, batch):
    over_heads = jax.vmap(jax.vmap(td.q_learning), in_axes=(0, None, None, None, 0))
    return over_heads(q, batch.a, batch.r, example.DISCOUNT * batch.d, q_target)


def test_the_one_file_is_short_and_independent_of_the_library():
    source = PATH.read_text()
    assert len(source.splitlines()) < 250
    packages = set(re.findall(r"^\s*(?:import|from) (\w+)", source, re.MULTILINE))
    assert packages <= {"argparse", "time", "collections", "typing", "jax", "numpy", "optax", "matplotlib"}


def test_td_errors_and_sigma_are_the_library_s(example, batch):
    errors = example.td_errors(*batch)
    np.testing.assert_allclose(errors, library_td(example, *batch), rtol=1e-6, atol=1e-6)
    sigma = example.bonus(errors[: example.K])
    np.testing.assert_allclose(sigma, bonus.spread(errors[: example.K]), rtol=1e-5)


def test_the_loss_pays_sigma_to_explorers_alone_and_has_no_gradient_through_it(example, batch):
    *_, transitions = batch
    params, target, prior = (example.init_ensemble(jax.random.key(seed), 4) for seed in range(3))

    def expected(params):
        q, q_target = (
            example.q_values(weights, prior, s)
            for weights, s in ((params, transitions.s), (target, transitions.s_next))
        )
        errors = library_td(example, q, q_target, transitions)
        sigma = bonus.spread(errors[: example.K])
        raised = transitions._replace(r=transitions.r + 0.7 * sigma)
        explorers = library_td(example, q, q_target, raised)[example.K :]
        return bonus.critic_loss(errors[: example.K]) + bonus.critic_loss(explorers)

    got, sigma = example.loss(params, target, prior, transitions, 0.7)
    np.testing.assert_allclose(got, expected(params), rtol=1e-5)
    assert sigma > 0
    gradient = jax.grad(lambda p: example.loss(p, target, prior, transitions, 0.7)[0])(params)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), gradient, jax.grad(expected)(params)
    )


def test_the_one_file_s_deep_sea_is_the_library_s(example):
    env = environments.make("deep_sea:size=6")
    mapping = example.action_mapping(6)
    rng, key = np.random.default_rng(1), jax.random.key(0)
    chests = 0
    for episode in range(8):
        state, timestep = env.reset(key)
        s = jnp.zeros((), int)
        while not timestep.last:
            right = int(mapping[s // 6, s % 6])
            action = jnp.asarray(right if episode == 0 else rng.integers(2))
            state, timestep = env.step(state, action, key)
            ours = example.deep_sea(mapping, s, action)
            np.testing.assert_allclose(ours.r, timestep.reward, rtol=1e-6)
            assert (ours.s_next, ours.d) == (timestep.observation, timestep.discount)
            chests += ours.r > 0.5
            s = ours.s_next
    assert chests >= 1, "the first episode moves right only"


def test_the_one_file_solves_deep_sea_10_and_draws(example, tmp_path):
    log, solved = example.train(size=10, seed=0, episodes=400)
    assert solved is not None
    assert solved == len(log)
    assert max(episode.reward for episode in log) == pytest.approx(0.99)
    example.plot(log, 10, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 5000
