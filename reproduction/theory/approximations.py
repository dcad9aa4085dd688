"""Common kinds of p(θ), as samples of values [members, S, A], from the same data as the true posterior.

Every member has a bootstrap of the data: as many transitions, drawn with replacement (Efron). From it, it estimates Q_π with
a table, a last layer over fixed features, or a neural network. A pair without data keeps the value of the member's prior.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from tdu import random
from tdu.adam import Adam, AdamMoments
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
from tdu.types import Array, Key, Params

_Fitting = tuple[Params, Params, AdamMoments[Params]]
"""Parameters, target parameters and Adam's moments."""


class Bootstraps(NamedTuple):
    """Each member's resampled data."""

    visits: Real
    """Counts of transitions, [members, S, A, S + 1]."""
    rewards: Real
    """Sums of rewards, [members, S, A]."""


def bootstraps(data: Data, states: int, actions: int, *, members: int, rng: np.random.Generator) -> Bootstraps:
    """One bootstrap of the data per member."""
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
    data: Bootstraps, policy: ArrayLike, *, gamma: float, prior_sd: float = 0.0, rng: np.random.Generator
) -> Real:
    """The value in each member's empirical MDP; the value of a pair without data is drawn from N(0, prior_sd²)."""
    data = _checked(data)
    check_generator(rng)
    check_number("prior_sd", prior_sd)
    visits = data.visits.sum(axis=-1)
    prior = prior_sd * rng.standard_normal(visits.shape)
    rewards = np.where(visits > 0, data.rewards / np.maximum(visits, 1), prior)
    transitions = data.visits / np.maximum(visits, 1)[..., None]
    transitions[..., -1] += visits == 0
    return values(MDP(transitions, rewards), policy, gamma=gamma)


def random_features(states: int, actions: int, n: int, rng: np.random.Generator) -> Real:
    """A random hidden layer of n rectified units over one-hot states and actions, one of them constant, [S, A, n]."""
    check_generator(rng)
    for name, size in (("states", states), ("actions", actions), ("n", n)):
        check_count(name, size)
    of_state, of_action = rng.standard_normal((states, 1, n)), rng.standard_normal((1, actions, n))
    features = np.maximum(of_state + of_action, 0)
    features[..., 0] = 1.0
    return features


def learned_features(tables: ArrayLike, n: int) -> Real:
    """The first n principal directions of the members' tables [members, S, A]: the best features to learn, [S, A, n]."""
    check_count("n", n)
    every = _array("tables", tables, ("members", "S", "A"))
    flat = every.reshape(len(every), -1)
    if n > min(flat.shape):
        raise UserError(f"{len(flat)} members over {flat.shape[1]} pairs have fewer than {n} directions.")
    return np.ascontiguousarray(np.linalg.svd(flat, full_matrices=False)[2][:n].T).reshape(*every.shape[1:], n)


def last_layer(tables: ArrayLike, data: Bootstraps, features: ArrayLike, *, ridge: float = 1e-3) -> Real:
    """Weights [members, n] fitted to each member's table by least squares, with pairs weighted by its visits."""
    every, layer, data = (
        _array("tables", tables, ("members", "S", "A")),
        _array("features", features, _LAYER),
        _checked(data),
    )
    if every.shape != data.rewards.shape or layer.shape[:-1] != every.shape[1:]:
        raise UserError(
            f"tables {every.shape}, bootstraps {data.rewards.shape} and features {layer.shape} do not belong to one ensemble."
        )
    check_number("ridge", ridge)
    flat, n = layer.reshape(-1, layer.shape[-1]), layer.shape[-1]
    weights = data.visits.sum(axis=-1).reshape(len(every), -1)
    system = np.einsum("xi,kx,xj->kij", flat, weights, flat, optimize=True) + ridge * np.eye(n)
    against = np.einsum("xi,kx,kx->ki", flat, weights, every.reshape(len(every), -1), optimize=True)
    try:
        return np.asarray(np.linalg.solve(system, against[..., None])[..., 0])
    except np.linalg.LinAlgError as e:
        raise UserError("a member has data on fewer pairs than there are features; give a ridge above 0.") from e


def factorised(weights: ArrayLike, rng: np.random.Generator) -> Real:
    """New weights [members, n], drawn independently with the same means and variances."""
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
    """The numbers as a finite array with these axes, none of them empty."""
    array = finite(name, numbers)
    if array.ndim != len(axes) or 0 in array.shape:
        raise UserError(f"{name} must have the nonempty shape [{', '.join(axes)}], not {array.shape}.")
    return array


def _checked(data: Bootstraps) -> Bootstraps:
    """Checked bootstraps: consistent shapes, and data for every member."""
    visits = _array("visits", data.visits, ("members", "S", "A", "S + 1"))
    rewards = _array("sums of rewards", data.rewards, ("members", "S", "A"))
    if visits.shape != (*rewards.shape, rewards.shape[1] + 1):
        raise UserError(f"visits {visits.shape} and rewards {rewards.shape} do not belong to one ensemble.")
    if (visits < 0).any() or not visits.any(axis=(1, 2, 3)).all():
        raise UserError("every member must have data, and no count may be negative.")
    return Bootstraps(visits, rewards)


class Networks(NamedTuple):
    """Settings of a neural bootstrap."""

    hidden_sizes: tuple[int, ...] = (32, 32)
    prior_scale: float = 0.0
    learning_rate: float = 5e-3
    steps: int = 600
    target_period: int = 4


def neural(data: Bootstraps, policy: ArrayLike, *, gamma: float, networks: Networks, seed: int) -> Real:
    """Policy evaluation by networks over one-hot states, each fitted to all data of its member, in float32."""
    data = _checked(data)
    check_discount(gamma)
    check_number("prior_scale", networks.prior_scale)
    check_number("learning_rate", networks.learning_rate)
    for name, count in (("steps", networks.steps), ("target_period", networks.target_period)):
        check_count(name, count)
    members, states, actions = data.rewards.shape
    chosen = checked_policy(policy, states, actions)
    visits = data.visits.sum(axis=-1)
    often = np.maximum(visits, 1)
    inputs = (
        data.visits[..., :-1] / often[..., None],
        data.rewards / often,
        visits / visits.sum(axis=(1, 2), keepdims=True),
    )
    fit = _fit(networks._replace(prior_scale=0.0), members, states, actions)  # compiled once for all scales
    learned = fit(
        random.key(seed),
        *(jnp.asarray(x, jnp.float32) for x in inputs),
        chosen,
        np.float32(gamma),
        np.float32(networks.prior_scale),
    )
    return finite("the networks' values", np.asarray(learned, np.float64))


@lru_cache(maxsize=16)
def _fit(networks: Networks, members: int, states: int, actions: int) -> Callable[..., Array]:
    """The compiled fit for these shapes."""
    adam = Adam(networks.learning_rate)
    every_state = jnp.eye(states)

    def init(key: Key) -> Params:
        return mlp.init_mlp(key, (states, *networks.hidden_sizes, actions))

    def one(
        key: Key, transitions: Array, rewards: Array, weights: Array, policy: Array, gamma: Array, scale: Array
    ) -> Array:
        key_first, key_prior = jax.random.split(key)
        params = init(key_first)
        prior = scale * mlp.apply_mlp(init(key_prior), every_state)

        def q(params: Params) -> Array:
            return mlp.apply_mlp(params, every_state) + prior

        def step(i: Array, carry: _Fitting) -> _Fitting:
            params, target, moments = carry
            following = q(target)[jnp.arange(states), policy]
            goal = rewards + gamma * transitions @ following
            gradient = jax.grad(lambda p: jnp.sum(weights * jnp.square(q(p) - goal)))(params)
            params, moments = adam.update(params, moments, gradient, i + 1)
            copy = (i + 1) % networks.target_period == 0
            return params, jax.tree.map(lambda p, t: jnp.where(copy, p, t), params, target), moments

        start = (params, params, adam.init(params))
        return q(jax.lax.fori_loop(0, networks.steps, step, start)[0])

    def all_members(key: Key, *inputs: Array) -> Array:
        axes = (0, 0, 0, 0, None, None, None)
        return jax.vmap(one, in_axes=axes)(jax.random.split(key, members), *inputs)

    return jax.jit(all_members)
