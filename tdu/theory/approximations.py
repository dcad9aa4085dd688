"""Distributions p(θ) of the kinds in use, as samples of values [members, S, A], all from the same data as the true posterior.

Every member has a bootstrap of the data (Efron's: as many transitions, drawn with replacement). It estimates Q_π from it in a
table, in a last layer over fixed features, or in a neural network; a pair that it has not met keeps the value of its prior.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from tdu import random
from tdu.adam import Adam
from tdu.errors import UserError
from tdu.networks import mlp
from tdu.theory.mdp import (
    MDP,
    Real,
    check_count,
    check_discount,
    check_generator,
    check_number,
    checked_policy,
    finite,
    values,
)
from tdu.theory.posterior import Data, checked_data


class Bootstraps(NamedTuple):
    """What each member has met."""

    visits: Real
    """[members, S, A, S + 1]."""
    rewards: Real
    """Their sums, [members, S, A]."""


def bootstraps(data: Data, states: int, actions: int, *, members: int, rng: np.random.Generator) -> Bootstraps:
    """Resampled data."""
    check_generator(rng)
    for name, size in (("states", states), ("actions", actions), ("the ensemble's members", members)):
        check_count(name, size)
    data = checked_data(data, states, actions)
    count = len(data.rewards)
    if not count:
        raise UserError("there are no data to resample; gather some first.")
    times = rng.multinomial(count, np.full(count, 1 / count), size=members).astype(np.float64)
    visits, rewards = np.zeros((states, actions, states + 1, members)), np.zeros((states, actions, members))
    np.add.at(visits, (data.states, data.actions, data.next_states), times.T)
    np.add.at(rewards, (data.states, data.actions), (times * data.rewards).T)
    return Bootstraps(np.moveaxis(visits, -1, 0), np.moveaxis(rewards, -1, 0))


def tabular(
    met: Bootstraps, policy: ArrayLike, *, gamma: float, prior_sd: float = 0.0, rng: np.random.Generator
) -> Real:
    """The value in each member's empirical MDP; a pair without data is worth a draw from N(0, prior_sd²)."""
    met = _checked(met)
    check_generator(rng)
    check_number("prior_sd", prior_sd)
    visits = met.visits.sum(axis=-1)
    prior = prior_sd * rng.standard_normal(visits.shape)
    rewards = np.where(visits > 0, met.rewards / np.maximum(visits, 1), prior)
    transitions = met.visits / np.maximum(visits, 1)[..., None]
    transitions[..., -1] += visits == 0
    return values(MDP(transitions, rewards), policy, gamma=gamma)


def random_features(states: int, actions: int, n: int, rng: np.random.Generator) -> Real:
    """A hidden layer of n rectified units over one-hot states and actions, with a constant among them: [S, A, n]."""
    check_generator(rng)
    for name, size in (("states", states), ("actions", actions), ("n", n)):
        check_count(name, size)
    of_state, of_action = rng.standard_normal((states, 1, n)), rng.standard_normal((1, actions, n))
    features = np.maximum(of_state + of_action, 0)
    features[..., 0] = 1.0
    return features


def learned_features(tables: ArrayLike, n: int) -> Real:
    """The n directions along which the members' tables [members, S, A] lie: what a layer can learn at best. [S, A, n]."""
    check_count("n", n)
    every = _array("tables", tables, ("members", "S", "A"))
    flat = every.reshape(len(every), -1)
    if n > min(flat.shape):
        raise UserError(f"{len(flat)} members over {flat.shape[1]} pairs have no {n} directions.")
    return np.ascontiguousarray(np.linalg.svd(flat, full_matrices=False)[2][:n].T).reshape(*every.shape[1:], n)


def last_layer(tables: ArrayLike, met: Bootstraps, features: ArrayLike, *, ridge: float = 1e-3) -> Real:
    """Weights [members, n] of the layer that is nearest to each member's table, pairs weighted by the member's visits."""
    every, layer, met = (
        _array("tables", tables, ("members", "S", "A")),
        _array("features", features, _LAYER),
        _checked(met),
    )
    if every.shape != met.rewards.shape or layer.shape[:-1] != every.shape[1:]:
        raise UserError(
            f"tables {every.shape}, bootstraps {met.rewards.shape} and features {layer.shape} are not of one ensemble."
        )
    check_number("ridge", ridge)
    flat, n = layer.reshape(-1, layer.shape[-1]), layer.shape[-1]
    weights = met.visits.sum(axis=-1).reshape(len(every), -1)
    system = np.einsum("xi,kx,xj->kij", flat, weights, flat, optimize=True) + ridge * np.eye(n)
    against = np.einsum("xi,kx,kx->ki", flat, weights, every.reshape(len(every), -1), optimize=True)
    try:
        return np.asarray(np.linalg.solve(system, against[..., None])[..., 0])
    except np.linalg.LinAlgError as e:
        raise UserError("a member has met too few pairs for so many features; give a ridge above 0.") from e


def factorised(weights: ArrayLike, rng: np.random.Generator) -> Real:
    """Weights [members, n] drawn anew, each on its own, with the same means and variances."""
    check_generator(rng)
    every = _array("weights", weights, _WEIGHTS)
    return np.asarray(every.mean(axis=0) + every.std(axis=0) * rng.standard_normal(every.shape))


def of_weights(weights: ArrayLike, features: ArrayLike) -> Real:
    """Values [members, S, A] of weights [members, n]."""
    every, layer = _array("weights", weights, _WEIGHTS), _array("features", features, _LAYER)
    if every.shape[1] != layer.shape[2]:
        raise UserError(f"{every.shape[1]} weights do not fit {layer.shape[2]} features.")
    return np.asarray(np.einsum("ki,sai->ksa", every, layer))


_LAYER = ("S", "A", "n")
_WEIGHTS = ("members", "n")


def _array(name: str, numbers: ArrayLike, axes: tuple[str, ...]) -> Real:
    """Finite numbers with these axes, none of them empty."""
    array = finite(name, numbers)
    if array.ndim != len(axes) or 0 in array.shape:
        raise UserError(f"{name} must have the shape [{', '.join(axes)}], none of them 0, not {array.shape}.")
    return array


def _checked(met: Bootstraps) -> Bootstraps:
    """Visits and rewards that fit each other, some of them for every member."""
    visits = _array("visits", met.visits, ("members", "S", "A", "S + 1"))
    rewards = _array("sums of rewards", met.rewards, ("members", "S", "A"))
    if visits.shape != (*rewards.shape, rewards.shape[1] + 1):
        raise UserError(f"visits {visits.shape} and rewards {rewards.shape} are not of one ensemble.")
    if (visits < 0).any() or not visits.any(axis=(1, 2, 3)).all():
        raise UserError("every member must have met something, and nothing a negative number of times.")
    return Bootstraps(visits, rewards)


class Networks(NamedTuple):
    """The networks of a neural bootstrap, and how long they learn."""

    hidden_sizes: tuple[int, ...] = (32, 32)
    prior_scale: float = 0.0
    learning_rate: float = 5e-3
    steps: int = 600
    target_period: int = 4


def neural(met: Bootstraps, policy: ArrayLike, *, gamma: float, networks: Networks, seed: int) -> Real:
    """Fitted evaluation of the policy by networks over one-hot states, each on all that its member has met, in float32."""
    met = _checked(met)
    check_discount(gamma)
    check_number("prior_scale", networks.prior_scale)
    check_number("learning_rate", networks.learning_rate)
    for name, count in (("steps", networks.steps), ("target_period", networks.target_period)):
        check_count(name, count)
    members, states, actions = met.rewards.shape
    chosen = checked_policy(policy, states, actions)
    visits = met.visits.sum(axis=-1)
    often = np.maximum(visits, 1)
    inputs = (
        met.visits[..., :-1] / often[..., None],
        met.rewards / often,
        visits / visits.sum(axis=(1, 2), keepdims=True),
    )
    fit = _fit(networks._replace(prior_scale=0.0), members, states, actions)  # one program for every scale
    learned = fit(
        random.key(seed),
        *(jnp.asarray(x, jnp.float32) for x in inputs),
        chosen,
        np.float32(gamma),
        np.float32(networks.prior_scale),
    )
    return finite("the networks' values", np.asarray(learned, np.float64))


@lru_cache(maxsize=16)
def _fit(networks: Networks, members: int, states: int, actions: int) -> Any:
    """The compiled fit for these shapes."""
    adam = Adam(networks.learning_rate)
    every_state = jnp.eye(states)

    def init(key: Any) -> Any:
        return mlp.init_mlp(key, (states, *networks.hidden_sizes, actions))

    def one(key: Any, transitions: Any, rewards: Any, weights: Any, policy: Any, gamma: Any, scale: Any) -> Any:
        key_first, key_prior = jax.random.split(key)
        params = init(key_first)
        prior = scale * mlp.apply_mlp(init(key_prior), every_state)

        def q(params: Any) -> Any:
            return mlp.apply_mlp(params, every_state) + prior

        def step(i: Any, carry: Any) -> Any:
            params, target, moments = carry
            onward = q(target)[jnp.arange(states), policy]
            goal = rewards + gamma * transitions @ onward
            gradient = jax.grad(lambda p: jnp.sum(weights * jnp.square(q(p) - goal)))(params)
            params, moments = adam.update(params, moments, gradient, i + 1)
            copy = (i + 1) % networks.target_period == 0
            return params, jax.tree.map(lambda p, t: jnp.where(copy, p, t), params, target), moments

        start = (params, params, adam.init(params))
        return q(jax.lax.fori_loop(0, networks.steps, step, start)[0])

    def all_members(key: Any, *inputs: Any) -> Any:
        axes = (0, 0, 0, 0, None, None, None)
        return jax.vmap(one, in_axes=axes)(jax.random.split(key, members), *inputs)

    return jax.jit(all_members)
