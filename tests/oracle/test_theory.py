"""The theory library: closed forms, identities, and errors in the paper, each with a proof step or a counterexample."""

import itertools

import hypothesis
import hypothesis.strategies as st
import jax.numpy as jnp
import numpy as np
import pytest

from reproduction.theory import approximations, capacity
from tdu.environments import binary_tree, deep_sea
from tdu.errors import UserError
from tdu.theory import MDP, Data, bellman, bias, families, gather, mdp, moments, prior, values
from tdu.theory.bias import condition_of_the_text, same_sign, transition_bias, weights
from tdu.theory.mdp import next_values

quick = hypothesis.settings(max_examples=60, deadline=None, derandomize=True)
discounts = st.sampled_from([0.0, 0.3, 0.9, 0.99, 1.0])
seeds = st.integers(0, 10_000)


def drawn(seed, states=5, actions=2, *, acyclic=False):
    rng = np.random.default_rng(seed)
    support = families.random_support(states, actions, 3, rng, acyclic=acyclic)
    return families.random_mdp(support, rng), rng.integers(actions, size=states), rng


def two_samples(seed, shape=(7, 2), other=(9, 2)):
    rng = np.random.default_rng(seed)
    return rng.normal(2, 3, shape), rng.normal(-1, 2, other)


# Values and posteriors, by hand


def test_a_two_state_chain_by_hand():
    # State 0 stays with probability p, else goes to state 1. State 1 ends. Rewards are 2 and 3.
    p, gamma = 0.25, 0.9
    task = mdp([[[p, 1 - p, 0]], [[0, 0, 1]]], [[2], [3]])
    by_hand = (2 + gamma * (1 - p) * 3) / (1 - gamma * p)
    np.testing.assert_allclose(values(task, [0, 0], gamma=gamma), [[by_hand], [3]], atol=1e-12)
    assert by_hand == pytest.approx(4.025 / 0.775)


def test_the_posterior_mean_of_the_two_state_chain_is_its_integral():
    # With p uniform and rewards 1 and 0, E[Q(0)] = ∫ 1/(1 − γp) dp = −ln(1 − γ)/γ. The mean MDP has a smaller value.
    gamma = 0.9
    nodes, node_weights = np.polynomial.legendre.leggauss(60)
    p = (nodes + 1) / 2
    transitions = np.zeros((60, 2, 1, 3))
    transitions[:, 0, 0, 0], transitions[:, 0, 0, 1], transitions[:, 1, 0, 2] = p, 1 - p, 1
    rewards = np.broadcast_to([[1.0], [0.0]], (60, 2, 1))
    q = values(MDP(transitions, rewards), [0, 0], gamma=gamma)[:, 0, 0]
    exact = -np.log(1 - gamma) / gamma
    assert q @ node_weights / 2 == pytest.approx(exact, abs=1e-6)
    posterior = prior(transitions[30] > 0, reward_mean=[[1.0], [0.0]], reward_sd=0.0)
    sampled = moments(posterior.values([0, 0], gamma=gamma, samples=20_000, rng=np.random.default_rng(0)))
    assert sampled.mean[0, 0] == pytest.approx(exact, abs=5 * sampled.mean_error[0, 0])
    assert sampled.mean_error[0, 0] < 0.02
    assert values(posterior.mean(), [0, 0], gamma=gamma)[0, 0] == pytest.approx(1 / (1 - gamma / 2), abs=1e-9)


def test_a_bandit_s_posterior_is_the_textbook_s():
    support = np.array([[[False, True]] * 2])
    data = Data(np.zeros(3, int), np.array([0, 0, 1]), np.array([1.0, 2.0, -1.0]), np.ones(3, int))
    posterior = prior(support, reward_mean=0.5, reward_sd=2.0, noise_sd=0.5).given(data)
    precision = np.array([[1 / 4 + 2 / 0.25, 1 / 4 + 1 / 0.25]])
    np.testing.assert_allclose(posterior.reward_precision, precision, atol=1e-12)
    np.testing.assert_allclose(posterior.reward_mean, [[0.125 + 12, 0.125 - 4]] / precision, atol=1e-12)
    found = moments(posterior.values([0], gamma=1.0, samples=40_000, rng=np.random.default_rng(1)))
    assert (np.abs(found.mean - posterior.reward_mean) < 5 * found.mean_error).all()
    assert (np.abs(found.variance - 1 / precision) < 5 * found.variance_error).all()


def sigma_points(sd):
    """Rewards [2n, n] with mean 0 and exactly the covariance of independent numbers with these standard deviations."""
    root = np.diag(np.sqrt(len(sd)) * np.asarray(sd))
    return np.concatenate([root, -root])


def gaussian_chain(sd, gamma):
    """Values [2n, n, 1] of a corridor with known moves and rewards of mean 0, its mean MDP, and all its MDPs."""
    n = len(sd)
    transitions = np.zeros((n, 1, n + 1))
    transitions[np.arange(n), 0, np.arange(n) + 1] = 1
    rewards = sigma_points(sd)[..., None]
    draws = MDP(np.broadcast_to(transitions, (2 * n, *transitions.shape)), rewards)
    return values(draws, np.zeros(n, int), gamma=gamma), MDP(transitions, np.zeros((n, 1))), draws


def test_a_deterministic_chain_with_gaussian_rewards_sums_discounted_variances():
    sd, gamma = [0.5, 1.0, 2.0], 0.8
    q, _, _ = gaussian_chain(sd, gamma)
    found = moments(q)
    exact = [sum(gamma ** (2 * (k - i)) * sd[k] ** 2 for k in range(i, 3)) for i in range(3)]
    np.testing.assert_allclose(found.variance[:, 0], exact, atol=1e-6)
    np.testing.assert_allclose(found.mean, 0, atol=1e-12)


def test_the_bias_of_a_point_estimate_on_that_chain_by_hand():
    # p(θ) is a point mass at the true mean plus b, so B = b and all variance is missing.
    sd, gamma, b = [0.5, 1.0], 0.8, 0.25
    q, _, _ = gaussian_chain(sd, gamma)
    truth = np.stack([q[:, 0, 0], q[:, 1, 0]], axis=-1) + 1.0
    record = transition_bias([[1 + b, 1 + b]], truth, gamma=gamma)
    assert record.mean_q == pytest.approx(b, abs=1e-6)
    assert record.mean_td == pytest.approx((gamma - 1) * b, abs=1e-6)
    assert record.var_q == pytest.approx(-(0.25 + 0.64 * 1.0), abs=1e-6)
    assert record.var_td == pytest.approx(-0.25, abs=1e-6), "δ = r + γQ' − Q leaves the reward of s alone"
    assert pytest.approx(b, abs=1e-6) == record.A
    assert pytest.approx((1 + b) ** 2 - (1 + 0.25 + 0.64), abs=1e-6) == record.C


@quick
@hypothesis.given(seeds, discounts.filter(lambda gamma: gamma < 1))
def test_values_are_the_fixed_point_and_constants_add_up(seed, gamma):
    task, policy, _ = drawn(seed)
    q = values(task, policy, gamma=gamma)
    np.testing.assert_allclose(bellman.backup(q[None], policy, task, gamma=gamma)[0], q, atol=1e-9)
    richer = values(task._replace(rewards=task.rewards + 2), policy, gamma=gamma)
    np.testing.assert_allclose(richer, q + 2 / (1 - gamma), atol=1e-8)


@quick
@hypothesis.given(seeds)
def test_without_discount_values_are_rewards_and_towards_one_they_are_sums(seed):
    task, policy, _ = drawn(seed, acyclic=True)
    np.testing.assert_array_equal(values(task, policy, gamma=0.0), task.rewards)
    nearly, whole = (values(task, policy, gamma=gamma) for gamma in (1 - 1e-9, 1.0))
    np.testing.assert_allclose(nearly, whole, atol=1e-6)


@quick
@hypothesis.given(seeds)
def test_data_narrow_the_posterior_around_the_truth(seed):
    rng = np.random.default_rng(seed)
    support = families.random_support(3, 2, 2, rng)
    task = families.random_mdp(support, rng)
    some, more = gather(task, 20, rng), gather(task, 20_000, rng)
    before, after = prior(support).given(some), prior(support).given(some).given(more)
    assert np.abs(after.mean().transitions - task.transitions).max() < 0.06
    assert np.abs(after.mean().rewards - task.rewards).max() < 0.15
    spread = [moments(p.values([0, 1, 0], gamma=0.9, samples=200, rng=rng)).variance.max() for p in (before, after)]
    assert spread[1] < spread[0]
    joined = Data(*(np.concatenate(both) for both in zip(some, more, strict=True)))
    np.testing.assert_allclose(prior(support).given(joined).reward_mean, after.reward_mean, atol=1e-9)


def test_tiny_dirichlet_weights_do_not_vanish():
    posterior = prior(np.ones((1, 1, 2), bool), concentration=1e-4)
    drawn_rows = posterior.draw(500, np.random.default_rng(0)).transitions
    np.testing.assert_allclose(drawn_rows.sum(axis=-1), 1)
    assert 0.4 < drawn_rows[:, 0, 0, 1].mean() < 0.6


# Theorem 2


@quick
@hypothesis.given(seeds, discounts, st.sampled_from([1e-3, 1.0, 1e4]))
def test_both_identities_hold_to_rounding(seed, gamma, scale):
    theta, truth = (scale * samples for samples in two_samples(seed, (7, 5, 2), (9, 5, 2)))
    record = transition_bias(theta, truth, gamma=gamma)
    rounding = 1e-14 * (np.square(theta).mean() + np.square(truth).mean())
    np.testing.assert_allclose(record.var_q, record.var_q_predicted, rtol=0, atol=20 * rounding)
    np.testing.assert_allclose(record.var_td, record.var_td_predicted, rtol=0, atol=20 * rounding)
    one, two, three = weights(record, gamma=gamma)
    by_weights = one * record.C - 2 * two * record.A - three * record.B**2
    size = np.abs(one * record.C) + np.abs(two * record.A) + np.abs(three * record.B**2)
    np.testing.assert_array_less(np.abs(by_weights - record.var_td), 1e-12 * size + 20 * rounding)


@quick
@hypothesis.given(seeds, discounts, st.sampled_from([0.0, 1e4, 1e8]))
def test_large_values_with_a_small_spread_keep_the_identities_digits(seed, gamma, offset):
    # Far from zero, most digits of a square belong to the offset. Whole numbers can be shifted there without rounding.
    theta, truth = (np.round(samples) for samples in two_samples(seed))
    near = transition_bias(theta, truth, gamma=gamma)
    far = np.array([offset, 2 * offset])
    record = transition_bias(theta + far, truth + far, gamma=gamma)
    for name in ("var_q", "var_td", "var_q_predicted", "var_td_predicted", "mean_q", "mean_td"):
        assert getattr(record, name) == pytest.approx(getattr(near, name), rel=1e-6, abs=1e-6), name
    assert (
        pytest.approx(record.var_q_predicted, abs=1e-15 * (offset + 10) ** 2) == record.C - 2 * record.A - record.B**2
    )


def test_the_moments_reported_are_the_samples_own():
    theta, truth = two_samples(3)
    record = transition_bias(theta, truth, gamma=0.9)
    raw = [(x.mean(axis=0), np.square(x).mean(axis=0), x.prod(axis=1).mean()) for x in (theta, truth)]
    bias_of_mean, bias_of_square, bias_of_product = (one - other for one, other in zip(*raw, strict=True))
    np.testing.assert_allclose([record.B, record.C, record.D], [bias_of_mean[0], bias_of_square[0], bias_of_product])
    assert pytest.approx(truth[:, 0].mean() * record.B) == record.A
    ratios = [bias_of_mean[1] / record.B, bias_of_square[1] / record.C, record.D / record.C]
    np.testing.assert_allclose([record.rho, record.phi, record.kappa], ratios)
    assert record.alpha == pytest.approx(truth[:, 1].mean() / truth[:, 0].mean())


@quick
@hypothesis.given(seeds, discounts)
def test_the_paper_s_plus_signs_miss_by_four_a_and_two_b_squared(seed, gamma):
    record = transition_bias(*two_samples(seed), gamma=gamma)
    plus = record.C + 2 * record.A + record.B**2
    assert plus - record.var_q == pytest.approx(4 * record.A + 2 * record.B**2, abs=1e-9)


@quick
@hypothesis.given(seeds, discounts, st.floats(-50, 50))
def test_adding_a_constant(seed, gamma, constant):
    theta, truth = two_samples(seed)
    record = transition_bias(theta, truth, gamma=gamma)
    both = transition_bias(theta + constant, truth + constant, gamma=gamma)
    alone = transition_bias(theta + constant, truth, gamma=gamma)
    for name in ("mean_q", "var_q", "mean_td", "var_td"):
        assert getattr(both, name) == pytest.approx(getattr(record, name), abs=1e-9)
    assert alone.var_q == pytest.approx(record.var_q, abs=1e-9)
    assert alone.var_td == pytest.approx(record.var_td, abs=1e-9)
    assert alone.mean_q == pytest.approx(record.mean_q + constant, abs=1e-9)
    assert alone.mean_td == pytest.approx(record.mean_td + (gamma - 1) * constant, abs=1e-9)


@quick
@hypothesis.given(seeds, discounts)
def test_the_mean_s_condition_is_exact(seed, gamma):
    record = transition_bias(*two_samples(seed), gamma=gamma)
    assert (abs(record.mean_td) < abs(record.mean_q)) == (abs(gamma * record.rho - 1) < 1)


@quick
@hypothesis.given(seeds)
def test_without_discount_td_errors_are_as_biased_as_values_and_never_less(seed):
    record = transition_bias(*two_samples(seed), gamma=0.0)
    assert record.mean_td == pytest.approx(-record.mean_q)
    assert record.var_td == pytest.approx(record.var_q)
    assert record.sufficient is False


@quick
@hypothesis.given(seeds, discounts.filter(bool))
def test_consistent_bias_shrinks_as_in_the_theorem(seed, gamma):
    rng = np.random.default_rng(seed)
    theta, truth = rng.normal(2, 1.5, (6, 1)), rng.normal(1, 0.5, (8, 1))
    record = transition_bias(np.repeat(theta, 2, axis=1), np.repeat(truth, 2, axis=1), gamma=gamma)
    np.testing.assert_allclose([record.rho, record.phi, record.kappa, record.alpha], 1)
    assert record.var_td == pytest.approx((gamma - 1) ** 2 * record.var_q, abs=1e-12)
    grown = np.array([[1, 1 / gamma]])
    none = transition_bias(theta * grown, truth * grown, gamma=gamma)
    assert none.mean_td == pytest.approx(0, abs=1e-12)
    assert none.var_td == pytest.approx(0, abs=1e-12)


@quick
@hypothesis.given(seeds, discounts)
def test_with_terms_of_one_sign_the_condition_is_sufficient(seed, gamma):
    rng = np.random.default_rng(seed)
    truth = rng.normal(2, 1, (12, 300, 1)) + 0.1 * rng.normal(0, 1, (12, 300, 2))
    theta = truth.mean(axis=0) + rng.uniform(0, 0.1, (300, 1)) + 0.01 * rng.normal(0, 1, (12, 300, 2))
    record = transition_bias(theta, truth, gamma=gamma)
    promised = record.sufficient & same_sign(record)
    assert promised.sum() > (10 if gamma else -1)
    assert (np.abs(record.var_td) < np.abs(record.var_q))[promised].all()


def test_theorem_2_s_condition_is_not_sufficient():
    # C = 2A + B², so V[Q] has no bias. V[δ] has one, although all ratios are inside their intervals.
    truth = [[0, 0], [2, 2]]
    theta = [[1, 2], [3, 2]]
    record = transition_bias(theta, truth, gamma=0.9)
    assert record.C == 2 * record.A + record.B**2 == 3
    assert record.sufficient is True
    assert record.var_q == 0
    assert record.var_td == pytest.approx(1 - 0.1**2)
    nearly = transition_bias([[0.99, 2], [3.01, 2]], truth, gamma=0.9)
    assert nearly.sufficient is True
    assert 0 < abs(nearly.var_q) < abs(nearly.var_td)


def test_the_text_s_interval_for_phi_lets_large_weights_in():
    truth = [[1, 1]]
    theta = [[1.1 + s, 1.1 + t] for s, t in itertools.product((-0.5, 0.5), (-1, 1))]
    record = transition_bias(theta, truth, gamma=0.9)
    ratios = (record.rho, record.phi, record.kappa, record.alpha)
    assert condition_of_the_text(*ratios, gamma=0.9)
    assert record.sufficient is False
    assert record.var_td == pytest.approx(0.81 + 0.25)
    assert record.var_q == pytest.approx(0.25)


def test_zero_denominators_are_nan_and_the_predictions_stay():
    record = transition_bias([[1, 2], [-1, 0]], [[0.5, 1], [-0.5, 3]], gamma=0.9)
    assert np.isnan(record.rho)
    assert np.isnan(record.alpha)
    assert np.isfinite(record.phi)
    assert record.sufficient is False
    assert record.var_td_predicted == pytest.approx(record.var_td)
    same = transition_bias([[1, 2], [3, 5]], [[1, 2], [3, 5]], gamma=0.9)
    assert np.isnan([same.rho, same.phi, same.kappa]).all()
    assert (same.var_q, same.var_td, same.sufficient) == (0, 0, False)


def test_rounding_is_no_denominator():
    theta, truth = np.full((3, 2), 0.1 + 0.2), np.full((7, 2), 0.3)
    assert np.isnan(transition_bias(theta, truth, gamma=0.9).rho)


def test_one_transition_gives_numbers_and_many_give_arrays():
    theta, truth = two_samples(0, (7, 3, 4, 2), (9, 3, 4, 2))
    many = transition_bias(theta, truth, gamma=0.9)
    one = transition_bias(theta[:, 1, 2], truth[:, 1, 2], gamma=0.9)
    assert all(field.shape == (3, 4) for field in many)
    assert {type(field) for field in one} == {float, bool}
    np.testing.assert_allclose([field[1, 2] for field in many], list(one), rtol=1e-12)
    names = "B C D A rho phi kappa alpha mean_q var_q mean_td var_td var_q_predicted var_td_predicted sufficient"
    assert one._fields == tuple(names.split())


# Lemma 1


def test_lemma_1_s_variance_fails_on_a_chain_by_the_variance_of_its_own_reward():
    sd, gamma = [0.5, 1.0, 2.0], 0.8
    q, mean, draws = gaussian_chain(sd, gamma)
    policy = np.zeros(3, int)
    found = bellman.residuals(q, policy, mean, gamma=gamma)
    np.testing.assert_allclose(found.mean, 0, atol=1e-12)
    np.testing.assert_allclose(found.variance[:, 0], np.square(sd), atol=1e-12)
    own = bellman.residuals(q, policy, draws, gamma=gamma)
    np.testing.assert_allclose([own.mean, own.variance], 0, atol=1e-12)


def test_lemma_1_s_mean_fails_with_cycles_and_under_the_true_mdp():
    nodes, _ = np.polynomial.legendre.leggauss(40)
    p = (nodes + 1) / 2
    transitions = np.stack([p, 1 - p], axis=-1)[:, None, None]
    draws = MDP(transitions, np.ones((40, 1, 1)))
    q = values(draws, [0], gamma=0.9)
    mean = MDP(transitions.mean(axis=0), np.ones((1, 1)))
    assert bellman.residuals(q, [0], mean, gamma=0.9).mean[0, 0] > 0.3
    truth = MDP(np.array([[[0.8, 0.2]]]), np.ones((1, 1)))
    assert abs(bellman.residuals(q, [0], truth, gamma=0.9).mean[0, 0]) > 0.1
    np.testing.assert_allclose(bellman.residuals(q, [0], draws, gamma=0.9).mean, 0, atol=1e-12)


def test_a_variance_does_not_move_through_an_expectation():
    q, mean, _ = gaussian_chain([0.5, 1.0, 2.0], 0.8)
    # V[γQ'] = γ²V[Q'], but the proof continues with γV[Q'].
    moved = bellman.moved_through(q, np.zeros(3, int), mean, gamma=0.8)
    following = np.append(q.var(axis=0)[1:, 0], 0)
    np.testing.assert_allclose(moved[:, 0], (0.8**2 - 0.8) * following, atol=1e-12)
    assert moved[0, 0] < -0.3


@quick
@hypothesis.given(seeds, discounts.filter(lambda gamma: gamma < 1))
def test_in_one_mdp_the_second_equation_has_no_solution_but_zero_variance(seed, gamma):
    # max V[r + γPQ] ≤ γ²·max V[Q], so V[Q] = V[r + γPQ] everywhere implies V[Q] = 0, for any p(θ).
    task, policy, rng = drawn(seed)
    q = rng.normal(0, 2, (20, 5, 2)) @ rng.normal(0, 1, (2, 2))
    after = bellman.backup(q, policy, task, gamma=gamma)
    assert after.var(axis=0).max() <= gamma**2 * q.var(axis=0).max() + 1e-9


# Theorem 1


@quick
@hypothesis.given(seeds, st.integers(1, 5))
def test_generic_layers_solve_n_means_and_half_n_squared_variances_and_no_more(seed, n):
    rng = np.random.default_rng(seed)
    features, targets = rng.normal(size=(30, n)), rng.uniform(1, 2, 30)
    assert capacity.mean_residual(features[:n], targets[:n]) < 1e-7
    assert capacity.mean_residual(features[: n + 1], targets[: n + 1]) > 1e-5
    forms, free = capacity.quadratic_forms(features), n * (n + 1) // 2
    assert capacity.symmetric_residual(forms[:free], targets[:free]) < 1e-6
    assert capacity.symmetric_residual(forms[: free + 1], targets[: free + 1]) > 1e-6
    assert capacity.diagonal_residual(forms[: n + 1], targets[: n + 1]) > 1e-6
    bellmans = capacity.quadratic_forms(features, rng.normal(size=(30, n)), gamma=0.9)
    assert capacity.nonzero_symmetric_residual(bellmans[: free - 1] if free > 1 else bellmans[:0]) == 0
    assert capacity.nonzero_symmetric_residual(bellmans[:free]) > 1e-6


def test_theorem_1_fails_for_features_that_contain_the_values():
    # n = 1, φ = Q_π, w has mean 1 and variance 1: 24 different predictions, nonzero TD errors for θ ≠ 1, an unbiased mean.
    task, policy, _ = drawn(3, states=12)
    q = values(task, policy, gamma=0.9)
    w = np.array([0.0, 2.0])[:, None, None]
    theta = w * q
    assert len(np.unique(q.round(9))) == 24 > 1 + 1
    errors = theta - bellman.backup(theta, policy, task, gamma=0.9)
    assert (np.abs(errors) > 1e-6).all()
    found = bellman.residuals(theta, policy, task, gamma=0.9)
    np.testing.assert_allclose(found.mean, 0, atol=1e-9)
    np.testing.assert_allclose(theta.mean(axis=0), q, atol=1e-12)


def test_a_factorised_posterior_has_variance_from_its_features_too():
    # p(w)p(ϑ) with w fixed: the proof's Σ Cov(w_i, w_j)·E[d⁻d⁺] is 0, but the variance is not.
    rng = np.random.default_rng(0)
    features, w = rng.normal(size=(50, 6, 3)), np.array([1.0, -2.0, 0.5])
    q = features @ w
    covariance = np.einsum("kxi,kxj->xij", features - features.mean(axis=0), features - features.mean(axis=0)) / 50
    np.testing.assert_allclose(q.var(axis=0), np.einsum("i,xij,j->x", w, covariance, w))
    assert q.var(axis=0).min() > 1


def test_the_best_covariance_is_found_and_bounded():
    rng = np.random.default_rng(1)
    features = rng.normal(size=(4, 12, 3))
    root = rng.normal(size=(4, 3, 3))
    forms = capacity.quadratic_forms(features)
    attainable = np.einsum("bkij,bij->bk", forms, root @ np.swapaxes(root, -1, -2))
    assert capacity.covariance_residual(forms, attainable, iterations=3000).residual.max() < 1e-5
    none = capacity.covariance_residual(forms, np.zeros((4, 12)))
    assert (none.certificate > 0.01).all(), "φφᵀ cannot average to zero"
    assert (none.residual >= none.certificate - 1e-9).all()
    tight = none.residual - none.certificate
    assert (tight < 1e-3 * none.residual).all()


# Families and approximations


@pytest.mark.parametrize("size", [2, 5])
def test_deep_sea_equals_the_environment(size):
    right = deep_sea.action_mapping(size, 7)
    task = families.deep_sea(right, move_cost=0.01)
    move = deep_sea.dynamics(size, mapping_seed=7, stochastic=False, move_cost=0.01)
    support = families.deep_sea_support(size)
    for row, column, action in np.ndindex(size, size, 2):
        state = deep_sea.DeepSeaState(*(jnp.asarray(x) for x in (row, column, 0, 0, 0)))
        _, step = move(state, jnp.asarray(action), deep_sea.Draws(jnp.ones(()), jnp.zeros(())))
        here = row * size + column
        assert task.transitions[here, action, int(step.observation)] == 1
        assert support[here, action, int(step.observation)]
        assert task.rewards[here, action] == pytest.approx(float(step.reward), abs=1e-6)
    slippery = families.deep_sea(right, stochastic=True)
    np.testing.assert_allclose(slippery.transitions.sum(axis=-1), 1)
    assert (support | (slippery.transitions == 0)).all()
    best = values(slippery._replace(transitions=task.transitions), right.ravel().astype(int), gamma=1.0)
    assert best[0].max() == pytest.approx(0.99)


def test_the_tree_is_the_environment_s():
    env = binary_tree.binary_tree(5, seed=3)
    task = families.binary_tree(binary_tree.onward_actions(5, 3))
    for branch, action in np.ndindex(5, 2):
        state = binary_tree.BinaryTreeState(jnp.asarray(branch), jnp.asarray(False))
        _, step = env.step(state, jnp.asarray(action), None)
        assert task.transitions[branch, action, int(step.observation)] == 1
        assert task.rewards[branch, action] == float(step.reward)
        assert families.binary_tree_support(5)[branch, action, int(step.observation)]


def test_bootstraps_hold_as_much_as_the_data_and_tables_learn_the_task():
    task, policy, rng = drawn(5)
    data = gather(task, 20_000, rng, noise_sd=0.1)
    met = approximations.bootstraps(data, 5, 2, members=6, rng=rng)
    np.testing.assert_array_equal(met.visits.sum(axis=(1, 2, 3)), 20_000)
    assert len(np.unique(met.visits[:, 0, 0].round(), axis=0)) > 1
    tables = approximations.tabular(met, policy, gamma=0.9, rng=rng)
    np.testing.assert_allclose(tables, np.broadcast_to(values(task, policy, gamma=0.9), (6, 5, 2)), atol=0.3)
    features = approximations.learned_features(tables, 6)
    exactly = approximations.of_weights(approximations.last_layer(tables, met, features, ridge=0), features)
    np.testing.assert_allclose(exactly, tables, atol=1e-6)
    drawn_anew = approximations.factorised(np.repeat([[1.0, 2.0], [3.0, 2.0]], 4000, axis=0), rng)
    np.testing.assert_allclose(drawn_anew.mean(axis=0), [2, 2], atol=0.1)
    np.testing.assert_allclose(drawn_anew.std(axis=0), [1, 0], atol=0.1)


def test_a_pair_without_data_is_worth_its_prior():
    data = Data(np.zeros(4, int), np.zeros(4, int), np.ones(4), np.full(4, 2))
    rng = np.random.default_rng(0)
    met = approximations.bootstraps(data, 2, 1, members=500, rng=rng)
    plain = approximations.tabular(met, [0, 0], gamma=0.9, rng=rng)
    np.testing.assert_array_equal(plain[:, :, 0], np.broadcast_to([1.0, 0.0], (500, 2)))
    with_prior = approximations.tabular(met, [0, 0], gamma=0.9, prior_sd=2.0, rng=rng)
    assert with_prior[:, 1, 0].std() == pytest.approx(2, rel=0.15)


def test_networks_learn_their_member_s_table_and_priors_stay_where_there_are_no_data():
    task, policy, rng = drawn(6, states=4)
    known = np.ones((4, 2), bool)
    known[3, 1 - policy[3]] = False
    data = gather(task, 500, rng, noise_sd=0.1, pairs=known)
    met = approximations.bootstraps(data, 4, 2, members=4, rng=rng)
    tables = approximations.tabular(met, policy, gamma=0.5, rng=rng)
    networks = approximations.Networks(hidden_sizes=(16,), steps=1500, learning_rate=1e-2)
    learned = {
        scale: approximations.neural(met, policy, gamma=0.5, networks=networks._replace(prior_scale=scale), seed=1)
        for scale in (0.0, 10.0)
    }
    for q in learned.values():
        assert np.abs(q - tables)[:, known].max() < 0.2
    assert learned[10.0][:, ~known].std() > 2 * learned[0.0][:, ~known].std()


# Bad input

GOOD = {"theta": np.ones((3, 2)), "truth": np.zeros((4, 2)), "gamma": 0.9}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"theta": np.ones((0, 2))}, "empty"),
        ({"truth": np.ones((3, 0, 2)), "theta": np.ones((3, 0, 2))}, "empty"),
        ({"theta": np.ones((3, 3))}, r"\[samples, 2\]"),
        ({"theta": np.ones(2)}, r"\[samples, 2\]"),
        ({"theta": np.ones((3, 4, 2))}, "same transitions"),
        ({"theta": [[1, np.nan]]}, "1 of its numbers are NaN"),
        ({"truth": [[1, np.inf]]}, "finite"),
        ({"theta": "ensemble"}, "array of numbers"),
        ({"theta": [[1, 2], [3]]}, "array of numbers"),
        ({"gamma": 1.01}, "between 0 and 1"),
        ({"gamma": -0.1}, "between 0 and 1"),
        ({"theta": [[1e200, 1.0]]}, "too large"),
        ({"truth": [[1e308, 1.0], [1e308, 1.0]]}, "too large"),
    ],
)
def test_invalid_samples_are_reported(changed, words):
    with pytest.raises(UserError, match=words):
        transition_bias(**GOOD | changed)


LOOP = [[[1.0, 0.0]]]
ONE = mdp(LOOP, [[1]])
VISIT = Data(np.zeros(1, int), np.zeros(1, int), np.ones(1), np.ones(1, int))
MET = approximations.Bootstraps(np.ones((2, 1, 1, 2)), np.ones((2, 1, 1)))


def rng():
    return np.random.default_rng(0)


def known(*successors):
    """The prior of states with one action each; the arguments list each state's possible successors."""
    return prior([[[to in possible for to in range(len(successors) + 1)]] for possible in successors])


@pytest.mark.parametrize(
    "take",
    [
        lambda gamma: transition_bias(**GOOD | {"gamma": gamma}),
        lambda gamma: values(ONE, [0], gamma=gamma),
        lambda gamma: prior([[[False, True]]]).values([0], gamma=gamma, samples=2, rng=rng()),
        lambda gamma: bellman.backup(np.ones((2, 1, 1)), [0], ONE, gamma=gamma),
        lambda gamma: bellman.residuals(np.ones((2, 1, 1)), [0], ONE, gamma=gamma),
        lambda gamma: bellman.moved_through(np.ones((2, 1, 1)), [0], ONE, gamma=gamma),
        lambda gamma: capacity.quadratic_forms(np.ones((2, 1)), np.ones((2, 1)), gamma=gamma),
        lambda gamma: approximations.tabular(MET, [0], gamma=gamma, rng=rng()),
        lambda gamma: approximations.neural(MET, [0], gamma=gamma, networks=approximations.Networks(), seed=0),
        lambda gamma: weights(transition_bias(**GOOD), gamma=gamma),
        lambda gamma: bias.condition(1, 1, 1, 1, gamma=gamma),
        lambda gamma: condition_of_the_text(1, 1, 1, 1, gamma=gamma),
    ],
)
def test_an_invalid_discount_is_reported_everywhere(take):
    for wrong in ("0.9", None, [0.9], np.array([0.5, 0.9]), float("nan"), 0.5j, -0.1, 1.01):
        with pytest.raises(UserError, match="gamma must be a number between 0 and 1"):
            take(wrong)


def test_without_discount_a_posterior_must_not_let_the_policy_return():
    # One state stays with uniform p. E[1/(1 − p)] is infinite, although the mean of any number of draws is finite.
    for circle in (known((0, 1)), known((1,), (0, 2)), known((1, 2, 3), (2,), (1, 3))):
        policy = np.zeros(len(circle.reward_mean), int)
        with pytest.raises(UserError, match="may go in circles from state 0"):
            circle.values(policy, gamma=1.0, samples=10, rng=rng())
        assert np.isfinite(circle.values(policy, gamma=0.99, samples=10, rng=rng())).all()
    assert known((1, 2), (2,)).values([0, 0], gamma=1, samples=3, rng=rng()).shape == (3, 2, 1)
    seen = prior(np.ones((1, 1, 2), bool), concentration=0).given(VISIT)
    assert seen.values([0], gamma=1.0, samples=3, rng=rng()).shape == (3, 1, 1), "what has no weight cannot happen"


@pytest.mark.parametrize("stays", [1.0, 1 - 1e-16, 1 - 1e-12])
def test_an_almost_endless_policy_is_reported(stays):
    with pytest.raises(UserError, match="more than 1e\\+10 steps"):
        values(mdp([[[stays, 1e-17 if stays == 1 else 1 - stays]]], [[1]]), [0], gamma=1.0)
    with pytest.raises(UserError, match="more than 1e\\+10 steps"):
        values(ONE, [0], gamma=1 - 1e-12)
    long = values(mdp([[[1 - 2.0**-20, 2.0**-20]]], [[1]]), [0], gamma=1.0)
    assert long[0, 0] == pytest.approx(2**20, rel=1e-9)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: mdp([[[0.5, 0.4]]], [[1]]), "state 0, action 0 sum to 0.9"),
        (lambda: mdp([[[1.5, -0.5]]], [[1]]), "negative"),
        (lambda: mdp([[[1, 0, 0]]], [[1]]), "shape"),
        (lambda: mdp(LOOP, [1]), "shape"),
        (lambda: mdp(LOOP, [[np.nan]]), "finite"),
        (lambda: mdp(np.zeros((0, 0, 1)), np.zeros((0, 0))), "at least"),
        (lambda: values(mdp(LOOP, [[1]]), [0], gamma=1.0), "never ends from state 0"),
        (lambda: values(mdp(LOOP, [[1]]), [0], gamma=1.5), "between 0 and 1"),
        (lambda: values(mdp(LOOP, [[1]]), [1], gamma=0.9), "between 0 and 0"),
        (lambda: values(mdp(LOOP, [[1]]), [0.5], gamma=0.9), "whole number"),
        (lambda: values(mdp(LOOP, [[1]]), [0, 0], gamma=0.9), "whole number"),
        (lambda: values(ONE, [[0], [0, 1]], gamma=0.9), "whole number"),
        (lambda: values(ONE._replace(transitions=[[[0.5, 0.4]]]), [0], gamma=0.9), "state 0, action 0 sum to 0.9"),
        (lambda: values(ONE._replace(transitions=[[[1.5, -0.5]]]), [0], gamma=0.9), "negative"),
        (lambda: values(ONE._replace(transitions=[[[np.nan, 1]]]), [0], gamma=0.9), "finite"),
        (lambda: values(ONE._replace(transitions=[[[1, 0, 0]]]), [0], gamma=0.9), "shape"),
        (lambda: values(ONE._replace(transitions=np.ones((3, 1, 1, 2)) / 2), [0], gamma=0.9), "shape"),
        (lambda: values(ONE._replace(rewards=[[np.inf]]), [0], gamma=0.9), "finite"),
        (lambda: values(ONE._replace(rewards=np.ones((0, 1, 1))), [0], gamma=0.9), "at least"),
        (lambda: values(ONE._replace(rewards=[[1e308]]), [0], gamma=0.99), "too large"),
        (lambda: values(MDP([LOOP, [[[0.5, 0.1]]]], [[[1]], [[1]]]), [0], gamma=0.9), "of MDP 1 sum to 0.6"),
        (lambda: values((LOOP, [[1]]), [0], gamma=0.9), "must be an MDP"),
        (lambda: next_values([[np.nan]], [0]), "finite"),
        (lambda: next_values([1.0], [0]), "shape"),
        (lambda: gather(ONE, -1, rng()), "transitions must be a whole number"),
        (lambda: gather(ONE, 2.5, rng()), "transitions must be a whole number"),
        (lambda: gather(ONE, 5, rng(), pairs=[[False]]), "at least one of them true"),
        (lambda: gather(ONE, 5, rng(), pairs=[[True, True]]), "pairs must be booleans"),
        (lambda: gather(ONE, 5, rng(), pairs="all"), "array of numbers"),
        (lambda: gather(ONE, 5, rng(), noise_sd=-1), "noise_sd"),
        (lambda: gather(ONE, 5, rng(), noise_sd=np.nan), "noise_sd"),
        (lambda: gather(MDP([[[0.5, 0.4]]], [[1]]), 5, rng()), "sum to 0.9"),
        (lambda: gather(MDP([LOOP], [[[1]]]), 5, rng()), "one MDP"),
        (lambda: moments([[1, np.nan], [2, 3]]), "finite"),
        (lambda: moments(3.0), "two samples"),
        (lambda: moments([[1e200], [-1e200]]), "too large"),
        (lambda: bellman.residuals([[[np.nan]], [[1]]], [0], ONE, gamma=0.9), "finite"),
        (lambda: bellman.residuals([[[1]]], [0], ONE, gamma=0.9), "two samples"),
        (lambda: bellman.backup([[[1]], [[1, 2]]], [0], ONE, gamma=0.9), "array of numbers"),
        (
            lambda: bellman.backup(np.ones((2, 1, 1)), [0], MDP([LOOP] * 3, [[[1]]] * 3), gamma=0.9),
            "one MDP or one for each",
        ),
        (lambda: bellman.backup(np.ones((2, 1, 1)), [0], MDP([[[0.5, 0.4]]], [[1]]), gamma=0.9), "sum to 0.9"),
        (lambda: approximations.bootstraps(VISIT._replace(states=[5]), 1, 1, members=2, rng=rng()), "outside"),
        (lambda: approximations.bootstraps(VISIT._replace(next_states=[-1]), 1, 1, members=2, rng=rng()), "outside"),
        (lambda: approximations.bootstraps(VISIT._replace(rewards=[np.nan]), 1, 1, members=2, rng=rng()), "finite"),
        (lambda: approximations.bootstraps(VISIT._replace(actions=[0.5]), 1, 1, members=2, rng=rng()), "whole"),
        (lambda: approximations.bootstraps(VISIT, 0, 1, members=2, rng=rng()), "states must be"),
        (lambda: approximations.bootstraps(VISIT, 1, 1, members=1.5, rng=rng()), "members must be"),
        (lambda: approximations.random_features(1, 1, 0, rng()), "n must be"),
        (lambda: approximations.learned_features(np.ones((2, 1, 1)), 0), "n must be"),
        (lambda: approximations.learned_features(np.ones((2, 1)), 1), "tables must have the nonempty shape"),
        (lambda: approximations.factorised(np.ones((0, 3)), rng()), "weights must have the nonempty shape"),
        (lambda: approximations.factorised([[np.nan]], rng()), "finite"),
        (lambda: approximations.of_weights(np.ones((2, 3)), np.ones((1, 1, 2))), "do not fit"),
        (lambda: approximations.last_layer(np.ones((3, 1, 1)), MET, np.ones((1, 1, 1))), "one ensemble"),
        (lambda: approximations.last_layer(np.ones((2, 1, 1)), MET, np.ones((1, 1, 2)), ridge=0), "ridge above 0"),
        (
            lambda: approximations.tabular(MET._replace(visits=0 * MET.visits), [0], gamma=0.9, rng=rng()),
            "every member",
        ),
        (
            lambda: approximations.tabular(MET._replace(rewards=np.ones((2, 2, 1))), [0], gamma=0.9, rng=rng()),
            "one ens",
        ),
        (lambda: prior([[[True, True]]], concentration="much"), "concentration"),
        (lambda: prior([[[True, True]]], concentration=np.nan), "concentration"),
        (lambda: prior([[[True, True]]], reward_mean=np.nan), "reward_mean must be finite"),
        (lambda: prior([[[True, True]]], reward_sd="large"), "reward_sd"),
        (lambda: prior([[[True, np.nan]]]), "finite"),
        (lambda: prior([[[False, True]]]).given([0, 0, 1.0, 1]), "Data"),
        (lambda: prior([[[False, True]]]).draw(2.5, rng()), "samples must be"),
        (lambda: families.random_mdp(np.ones((1, 1, 2), bool), rng(), concentration=0.0), "concentration"),
        (lambda: families.deep_sea(np.zeros((0, 0))), "zeros and ones"),
        (lambda: gather(ONE, 5, 0), r"np\.random\.default_rng\(0\), not 0"),
        (lambda: prior([[[False, True]]]).draw(2, None), "rng must be"),
        (lambda: families.random_mdp(np.ones((1, 1, 2), bool), 0), "rng must be"),
        (lambda: families.random_support(1, 1, 1, 0), "rng must be"),
        (lambda: approximations.bootstraps(VISIT, 1, 1, members=2, rng=0), "rng must be"),
        (lambda: approximations.factorised(np.ones((2, 3)), 0), "rng must be"),
        (lambda: capacity.mean_residual(np.full((2, 1), np.nan), np.ones(2)), "finite"),
        (lambda: prior([[[False, False]]]), "lead nowhere"),
        (lambda: prior([[True]]), "shape"),
        (lambda: prior([[[True, True]]], concentration=-1), "concentration"),
        (lambda: prior([[[True, True]]], reward_sd=-1), "reward_sd"),
        (lambda: prior([[[True, True]]], reward_sd=[1, 2, 3]), "shape"),
        (lambda: prior([[[True, True]]], noise_sd=0), "noise_sd"),
        (lambda: moments(np.ones((1, 2))), "two samples"),
        (lambda: families.deep_sea([[2]]), "zeros and ones"),
        (lambda: families.binary_tree([]), "zeros and ones"),
        (lambda: families.random_support(0, 1, 1, np.random.default_rng(0)), "at least"),
        (lambda: capacity.mean_residual(np.ones((3, 2)), np.ones(2)), "fit"),
        (lambda: bellman.backup(np.ones((2, 3, 1)), [0], mdp(LOOP, [[1]]), gamma=0.9), "values must be"),
    ],
)
def test_invalid_tasks_are_reported(wrong, words):
    with pytest.raises(UserError, match=words):
        wrong()


def test_an_improper_posterior_needs_data():
    both = np.ones((1, 2, 2), bool)
    rng = np.random.default_rng(0)
    visit = Data(np.zeros(1, int), np.zeros(1, int), np.ones(1), np.ones(1, int))
    vague = prior(both, concentration=0.0)
    with pytest.raises(UserError, match="transitions of state 0, action 1 is improper"):
        vague.given(visit).draw(1, rng)
    with pytest.raises(UserError, match="rewards of state 0, action 1 is improper"):
        prior(both, reward_sd=np.inf).given(visit).mean()
    other = visit._replace(actions=np.ones(1, int))
    proper = vague.given(visit).given(other)
    np.testing.assert_array_equal(proper.mean().transitions[0, :, 1], 1)
    np.testing.assert_array_equal(proper.draw(3, rng).transitions[:, 0, :, 0], 0, "not met: no probability")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"rewards": np.array([np.nan])}, "finite"),
        ({"states": np.array([5])}, "outside"),
        ({"actions": np.array([-1])}, "outside"),
        ({"next_states": np.array([0])}, "rules out"),
        ({"states": np.array([0.5])}, "whole numbers"),
        ({"states": np.array([0, 0])}, "one length"),
    ],
)
def test_invalid_data_are_reported(changed, words):
    good = Data(np.zeros(1, int), np.zeros(1, int), np.ones(1), np.ones(1, int))
    with pytest.raises(UserError, match=words):
        prior([[[False, True]]]).given(good._replace(**changed))


def test_ensembles_without_members_data_or_directions_are_reported():
    rng = np.random.default_rng(0)
    data = Data(np.zeros(1, int), np.zeros(1, int), np.ones(1), np.ones(1, int))
    with pytest.raises(UserError, match="member"):
        approximations.bootstraps(data, 1, 1, members=0, rng=rng)
    with pytest.raises(UserError, match="no data"):
        approximations.bootstraps(Data(*(column[:0] for column in data)), 1, 1, members=2, rng=rng)
    with pytest.raises(UserError, match="directions"):
        approximations.learned_features(np.ones((2, 3, 2)), 3)
    with pytest.raises(UserError, match="samples must be a whole number, at least 1"):
        prior([[[False, True]]]).draw(0, rng)
    assert next_values(np.ones((1, 2)), [0])[-1] == 0
    assert bias.TransitionBias is type(transition_bias(**GOOD))
