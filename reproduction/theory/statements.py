"""Lemma 1 (a), Theorem 1 (b) and Theorem 2 (c) on MDPs with a known posterior: the rows of their tables."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from reproduction.theory import approximations, capacity
from tdu.environments.binary_tree import onward_actions
from tdu.environments.deep_sea import action_mapping
from tdu.theory import bellman, bias, families
from tdu.theory.mdp import MDP, Real, Whole, next_values, values
from tdu.theory.posterior import Data, Posterior, gather, moments, prior

TableRow = dict[str, Any]
Advance = Callable[[float], None]
"""Takes the share that is done."""

MAPPING_SEED = 42
NOISE_SD = 0.5


class Workload(NamedTuple):
    """How much is computed."""

    seeds: int
    discounts: tuple[float, ...]
    transitions: tuple[int, ...]
    lemma_samples: int
    layer_seeds: int
    layers: tuple[int, ...]
    pairs: tuple[int, ...]
    iterations: int
    samples: int
    members: int
    networks: int
    network_steps: int


class Problem(NamedTuple):
    """A task, a policy, data, and the posterior given the data."""

    task: MDP
    policy: Whole
    posterior: Posterior
    data: Data


def _chain(rng: np.random.Generator) -> tuple[MDP, Any, Whole, Any]:
    """A corridor of six states with known moves and unknown rewards."""
    states = 6
    support = np.zeros((states, 1, states + 1), bool)
    support[np.arange(states), 0, np.arange(states) + 1] = True
    task = families.random_mdp(support, rng)
    return task, support, np.zeros(states, np.int64), None


def _deep_sea(rng: np.random.Generator) -> tuple[MDP, Any, Whole, Any]:
    size = 5
    right = action_mapping(size, MAPPING_SEED)
    pairs = np.repeat(families.deep_sea_reachable(size)[:, None], 2, axis=1)
    return families.deep_sea(right), families.deep_sea_support(size), right.ravel().astype(np.int64), pairs


def _tree(rng: np.random.Generator) -> tuple[MDP, Any, Whole, Any]:
    onward = onward_actions(8, MAPPING_SEED)
    return families.binary_tree(onward), families.binary_tree_support(8), onward.astype(np.int64), None


def _random(rng: np.random.Generator, *, acyclic: bool) -> tuple[MDP, Any, Whole, Any]:
    states, actions = 12, 2
    support = families.random_support(states, actions, 4, rng, acyclic=acyclic)
    return families.random_mdp(support, rng), support, rng.integers(actions, size=states), None


FAMILIES: dict[str, Callable[[np.random.Generator], tuple[MDP, Any, Whole, Any]]] = {
    "chain": _chain,
    "deep_sea": _deep_sea,
    "tree": _tree,
    "acyclic": lambda rng: _random(rng, acyclic=True),
    "cyclic": lambda rng: _random(rng, acyclic=False),
}
"""Functions that return the task, the prior's support, the policy, and the pairs that can be met (None: all)."""


def problem(family: str, transitions: int, rng: np.random.Generator) -> Problem:
    """A problem of a family, with transitions from uniformly drawn pairs."""
    task, support, policy, pairs = FAMILIES[family](rng)
    data = gather(task, transitions, rng, noise_sd=NOISE_SD, pairs=pairs)
    return Problem(task, policy, prior(support, noise_sd=NOISE_SD).given(data), data)


def _rng(*numbers: int) -> np.random.Generator:
    return np.random.default_rng(numbers)


def _cells(sizes: Workload, kinds: tuple[str, ...]) -> list[tuple[int, str, int, float, int]]:
    """(number of the family, family, transitions, γ, seed); γ does not change the task or the data."""
    return [
        (list(FAMILIES).index(family), family, count, gamma, seed)
        for family in kinds
        for count in sizes.transitions
        for gamma in sizes.discounts
        for seed in range(sizes.seeds)
    ]


# (a) Lemma 1

READINGS = ("true MDP", "mean of the posterior", "each draw's own MDP")


def lemma1(sizes: Workload, progress: Advance) -> Iterator[TableRow]:
    """Residuals of both Bellman equations for p(θ) = the true posterior of Q_π. It has no bias, so any residual refutes."""
    cells = _cells(sizes, tuple(FAMILIES))
    for i, (number, family, transitions, gamma, seed) in enumerate(cells):
        progress(i / len(cells))
        rng = _rng(1, number, transitions, seed)
        task, policy, posterior, _ = problem(family, transitions, rng)
        draws = posterior.draw(sizes.lemma_samples, rng)
        q = values(draws, policy, gamma=gamma)
        truth = moments(q)
        for reading, mdp in zip(READINGS, (task, posterior.mean(), draws), strict=True):
            found = bellman.residuals(q, policy, mdp, gamma=gamma)
            for moment, residual, error, size in (
                ("mean", found.mean, found.mean_error, np.sqrt(truth.variance)),
                ("variance", found.variance, found.variance_error, truth.variance),
            ):
                refuting = np.abs(residual) > 5 * error + 1e-9 * np.abs(size).max()
                yield {
                    "family": family, "transitions": transitions, "gamma": gamma, "seed": seed, "reading": reading,
                    "moment": moment, "pairs": residual.size, "refuting_pairs": int(refuting.sum()),
                    "relative_residual": _rms(residual) / _rms(size), "relative_error": _rms(error) / _rms(size),
                }  # fmt: skip


def _rms(numbers: Real) -> float:
    return float(np.sqrt(np.square(numbers).mean()))


# (b) Theorem 1

LAYER_GAMMA = 0.9


def theorem1(sizes: Workload, progress: Advance) -> Iterator[TableRow]:
    """The best last layer over generic features, at the first N pairs of a random MDP of 80."""
    for j, n in enumerate(sizes.layers):
        made = [_layer_problem(n, _rng(2, n, seed), sizes) for seed in range(sizes.layer_seeds)]
        every = {name: np.stack([one[name] for one in made]) for name in made[0]}
        for i, pairs in enumerate(sizes.pairs):
            progress((j + i / len(sizes.pairs)) / len(sizes.layers))
            for equation, residual, certificate in _layer_residuals(
                {name: array[:, :pairs] for name, array in every.items()}, sizes.iterations
            ):
                for seed in range(sizes.layer_seeds):
                    yield {
                        "equation": equation, "n": n, "pairs": pairs, "seed": seed,
                        "residual": float(residual[seed]), "certificate": float(certificate[seed]),
                    }  # fmt: skip


def _layer_problem(n: int, rng: np.random.Generator, sizes: Workload) -> dict[str, Real]:
    """Features and moments of 80 pairs in random order, a row each."""
    states, actions, draws = 40, 2, 24
    support = families.random_support(states, actions, 5, rng)
    task = families.random_mdp(support, rng)
    posterior = prior(support, noise_sd=NOISE_SD).given(gather(task, 400, rng, noise_sd=NOISE_SD))
    policy = rng.integers(actions, size=states)
    q = posterior.values(policy, gamma=LAYER_GAMMA, samples=sizes.samples, rng=rng)
    order = rng.permutation(states * actions)
    truth = moments(q)

    def following(features: Real) -> Real:
        """E[φ(s', π(s'))] under the true MDP, [..., S, A, n]."""
        onward = np.moveaxis(next_values(np.moveaxis(features, -1, 0), policy), 0, -1)
        return np.asarray(np.einsum("sak,kn->san", task.transitions, onward))

    random = rng.standard_normal((states, actions, n))
    learned = approximations.learned_features(q, n)
    networks = random + 0.5 * rng.standard_normal((draws, states, actions, n))
    after = np.stack([following(one) for one in networks])
    mean_weights = rng.standard_normal(n)
    spread = np.square(_centred(networks) @ mean_weights).mean(axis=0)
    spread_after = np.square(_centred(after) @ mean_weights).mean(axis=0)
    forms = capacity.quadratic_forms(networks, after, gamma=LAYER_GAMMA).mean(axis=0)
    flat = {
        "rewards": task.rewards, "mean": truth.mean, "variance": truth.variance,
        "random": random, "after": following(random), "learned": learned,
        "factor_forms": forms, "factor_targets": -(spread - LAYER_GAMMA**2 * spread_after),
    }  # fmt: skip
    return {name: array.reshape(states * actions, *array.shape[2:])[order] for name, array in flat.items()}


def _centred(numbers: Real) -> Real:
    return np.asarray(numbers - numbers.mean(axis=0))


def _layer_residuals(at: dict[str, Real], iterations: int) -> Iterator[tuple[str, Real, Real]]:
    """(equation, residual relative to the targets [seeds], a lower bound [seeds])."""
    none = np.zeros(len(at["mean"]))

    def relative(residual: Real, targets: Real) -> Real:
        return np.asarray(residual / np.sqrt(np.square(targets).mean(axis=-1)))

    rewards, mean, variance = at["rewards"], at["mean"], at["variance"]
    both = at["random"] - LAYER_GAMMA * at["after"]
    yield "mean, Bellman", relative(capacity.mean_residual(both, rewards), rewards), none
    yield "mean, truth", relative(capacity.mean_residual(at["random"], mean), mean), none
    yield "mean, truth, learned features", relative(capacity.mean_residual(at["learned"], mean), mean), none
    forms = capacity.quadratic_forms(at["random"])
    yield "variance, truth, symmetric", relative(capacity.symmetric_residual(forms, variance), variance), none
    yield "variance, truth, factorised", relative(capacity.diagonal_residual(forms, variance), variance), none
    scale = np.sqrt(np.square(variance).mean(axis=-1))[:, None]
    best = capacity.covariance_residual(forms, variance / scale, iterations=iterations)
    yield "variance, truth, covariance", best.residual, none
    bellmans = capacity.quadratic_forms(at["random"], at["after"], gamma=LAYER_GAMMA)
    bellmans = bellmans / np.linalg.norm(bellmans, axis=(-2, -1), keepdims=True)
    yield "variance, Bellman, symmetric", capacity.nonzero_symmetric_residual(bellmans), none
    best = capacity.covariance_residual(bellmans, np.zeros_like(variance), iterations=iterations)
    yield "variance, Bellman, covariance", best.residual, best.certificate
    targets = at["factor_targets"]
    residual = relative(capacity.symmetric_residual(at["factor_forms"], targets), targets)
    yield "variance, Bellman, p(w)p(ϑ)", residual, none


# (c) Theorem 2

FEATURES = 6
GROUPS = 10
DISTRIBUTIONS = (
    "tabular", "tabular with prior", "last layer, random", "last layer, learned", "factorised", "neural", "neural with prior",
)  # fmt: skip
BIAS_FAMILIES = ("deep_sea", "tree", "cyclic")


def theorem2(sizes: Workload, progress: Advance) -> Iterator[TableRow]:
    """At how many transitions V[δ] is less biased than V[Q], inside and outside the theorem's condition."""
    cells = _cells(sizes, BIAS_FAMILIES)
    for i, (number, family, transitions, gamma, seed) in enumerate(cells):
        progress(i / len(cells))
        rng = _rng(3, number, transitions, seed)
        case = problem(family, transitions, rng)
        states = case.task.states
        met = np.unique(np.stack([case.data.states, case.data.actions, case.data.next_states], axis=-1), axis=0)
        met = met[met[:, 2] < states]
        if not len(met):
            continue
        truth = case.posterior.values(case.policy, gamma=gamma, samples=sizes.samples, rng=rng)
        for name, q in _distributions(case, gamma, sizes, seed, rng):
            row = {"family": family, "transitions": transitions, "gamma": gamma, "seed": seed, "distribution": name}
            yield row | _compared(_of_transitions(q, case.policy, met), _of_transitions(truth, case.policy, met), gamma)


def _distributions(
    case: Problem, gamma: float, sizes: Workload, seed: int, rng: np.random.Generator
) -> Iterator[tuple[str, Real]]:
    states, actions = case.task.rewards.shape
    met = approximations.bootstraps(case.data, states, actions, members=sizes.members, rng=rng)
    tables = approximations.tabular(met, case.policy, gamma=gamma, rng=rng)
    yield "tabular", tables
    yield "tabular with prior", approximations.tabular(met, case.policy, gamma=gamma, prior_sd=1.0, rng=rng)
    for kind, features in (
        ("random", approximations.random_features(states, actions, FEATURES, rng)),
        ("learned", approximations.learned_features(tables, FEATURES)),
    ):
        weights = approximations.last_layer(tables, met, features)
        yield f"last layer, {kind}", approximations.of_weights(weights, features)
    yield "factorised", approximations.of_weights(approximations.factorised(weights, rng), features)
    few = approximations.Bootstraps(met.visits[: sizes.networks], met.rewards[: sizes.networks])
    for name, scale in (("neural", 0.0), ("neural with prior", 3.0)):
        networks = approximations.Networks(prior_scale=scale, steps=sizes.network_steps)
        yield name, approximations.neural(few, case.policy, gamma=gamma, networks=networks, seed=seed)


def _of_transitions(q: Real, policy: Whole, met: Whole) -> Real:
    """(Q(s, a), Q(s', π(s'))) of every transition met, [samples, T, 2]."""
    s, a, following = met.T
    return np.stack([q[:, s, a], next_values(q, policy)[:, following]], axis=-1)


def _compared(theta: Real, truth: Real, gamma: float) -> TableRow:
    record = bias.transition_bias(theta, truth, gamma=gamma)
    inside = np.asarray(record.sufficient)
    ratios = (record.rho, record.phi, record.kappa, record.alpha)
    in_text = np.asarray(bias.condition_of_the_text(*ratios, gamma=gamma))
    repaired = inside & np.asarray(bias.same_sign(record))
    less = np.abs(record.var_td) < np.abs(record.var_q)
    gain = np.stack([_gain(theta, part, gamma) for part in np.array_split(truth, GROUPS)])
    decided = np.abs(gain.mean(axis=0)) > 3 * gain.std(axis=0, ddof=1) / np.sqrt(GROUPS)
    both_errors = np.hypot(_gain_error(theta, record, gamma), _gain_error(truth, record, gamma))
    sure = np.abs(np.abs(record.var_q) - np.abs(record.var_td)) > 3 * both_errors
    size = np.square(theta).mean(axis=0).max() + np.square(truth).mean(axis=0).max()
    off = max(
        np.abs(record.var_q - record.var_q_predicted).max(), np.abs(record.var_td - record.var_td_predicted).max()
    )
    true_variance = truth[..., 0].var(axis=0)
    true_td = (gamma * truth[..., 1] - truth[..., 0]).var(axis=0)
    own_td, own_q = np.abs(record.var_td) * true_variance, np.abs(record.var_q) * true_td
    error, of_members = (moments(samples[..., 0]).variance_error for samples in (truth, theta))
    measured = max(_rms(np.asarray(record.var_q)), 1e-12)
    counts = {
        "met": np.ones_like(less), "inside": inside, "in_text": in_text, "repaired": repaired, "decided": decided,
        "decided_inside": decided & inside, "sure": sure, "sure_inside": sure & inside,
    }  # fmt: skip
    row: TableRow = {name: int(which.sum()) for name, which in counts.items()}
    row |= {f"less_{name}": int((which & less).sum()) for name, which in counts.items()}
    return row | {
        "less_sd": int((_sd_bias(theta, truth, gamma) < 0).sum()),
        "less_relative": int((own_td < (1 - 1e-9) * own_q).sum()),  # equal up to rounding from a state to itself
        "less_mean": int((np.abs(record.mean_td) < np.abs(record.mean_q)).sum()),
        "mean_inside": int((np.abs(gamma * np.asarray(record.rho) - 1) < 1).sum()),
        "ratios_undefined": int(np.isnan(np.stack(ratios)).any(axis=0).sum()),
        "identity_error": off / size,
        "sampling_error": _rms(error) / measured,
        "member_error": _rms(of_members) / measured,
        "relative_bias_q": _rms(np.asarray(record.var_q)) / _rms(true_variance),
        "relative_bias_td": _rms(np.asarray(record.var_td)) / _rms(true_td),
    }


def _gain(theta: Real, truth: Real, gamma: float) -> Real:
    """|Bias V[Q]| − |Bias V[δ]|."""
    record = bias.transition_bias(theta, truth, gamma=gamma)
    return np.asarray(np.abs(record.var_q) - np.abs(record.var_td))


def _gain_error(samples: Real, record: bias.TransitionBias, gamma: float) -> Real:
    """The standard error of |Bias V[Q]| − |Bias V[δ]| from sampling one side, p(θ) or p(M)."""
    each = [np.square(_centred(x)) for x in (samples[..., 0], gamma * samples[..., 1] - samples[..., 0])]
    both = np.sign(record.var_q) * each[0] - np.sign(record.var_td) * each[1]
    return np.asarray(both.std(axis=0) / np.sqrt(len(samples)))


def _sd_bias(theta: Real, truth: Real, gamma: float) -> Real:
    """|bias of σ(δ)| − |bias of σ(Q)|."""
    biases = []
    for one in (lambda x: gamma * x[..., 1] - x[..., 0], lambda x: x[..., 0]):
        biases.append(np.abs(one(theta).std(axis=0) - one(truth).std(axis=0)))
    return np.asarray(biases[0] - biases[1])
