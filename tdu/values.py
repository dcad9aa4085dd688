"""An ensemble of value functions Q_k + λ·P_k with targets and Adam, behind one set of functions (`types.Values`).

`dense` takes any observation. `one_hot` takes observations that are state indices and keeps its first layer in a
`sparse.Table`; it learns the same numbers at a cost that does not grow with the number of states. The prior P_k is never
trained and lies outside the optimiser's tree; a head's target shares its prior.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tdu import adam as adams
from tdu import networks, sparse
from tdu.types import Array, EnvSpec, Key, Values


class Shape(NamedTuple):
    """What both forms need to know."""

    heads: int
    hidden_sizes: tuple[int, ...]
    prior_scale: float
    target_period: int
    double: bool
    adam: adams.Adam

    def sizes(self, spec: EnvSpec) -> Sequence[int]:
        size = 1
        for n in spec.observation_shape:
            size *= n
        return (spec.num_states or size, *self.hidden_sizes, spec.num_actions)


class Dense(NamedTuple):
    params: networks.Params
    target: networks.Params
    prior: networks.Params
    moments: adams.Moments
    step: Array


class OneHot(NamedTuple):
    table: sparse.Table
    first_bias: Array
    """[H, F]."""
    rest: networks.Params
    target: tuple[Array, networks.Params]
    """First bias and rest."""
    prior: Array
    """λ·P as a constant table [S + 1, H, A]."""
    moments: adams.Moments
    step: Array


def make(spec: EnvSpec, shape: Shape, *, force_dense: bool = False) -> Values:
    """The ensemble for an environment: sparse where its observation is one-hot, unless told otherwise."""
    if spec.num_states is None or force_dense:
        return dense(spec, shape)
    return one_hot(spec, shape)


def dense(spec: EnvSpec, shape: Shape) -> Values:
    """The ordinary form: every layer is a matrix product and every weight moves at every step."""
    sizes = shape.sizes(spec)
    rank = len(spec.observation_shape)

    def flat(observation: Array) -> Array:
        if spec.num_states is not None:
            return jax.nn.one_hot(observation, spec.num_states)
        return observation.reshape(*observation.shape[: observation.ndim - rank], -1).astype(jnp.float32)

    def evaluate(params: networks.Params, prior: networks.Params, x: Array) -> Array:
        q = networks.apply_mlp(params, x)
        return q + shape.prior_scale * networks.apply_mlp(prior, x) if shape.prior_scale else q

    every_head = jax.vmap(evaluate, in_axes=(0, 0, None))

    def init(key: Key) -> Dense:
        key_params, key_prior = jax.random.split(key)
        params = networks.init_ensemble(key_params, shape.heads, sizes)
        prior = networks.init_ensemble(key_prior, shape.heads, sizes)
        return Dense(
            params=params,
            target=jax.tree.map(jnp.copy, params),
            prior=prior,
            moments=adams.init(params),
            step=jnp.zeros((), jnp.int32),
        )

    def update(state: Dense, o_tm1: Array, o_t: Array, loss: Any) -> tuple[Dense, Any]:
        x_tm1, x_t = flat(o_tm1), flat(o_t)
        target_t = every_head(state.target, state.prior, x_t)
        online_t = every_head(state.params, state.prior, x_t) if shape.double else None

        def objective(params: networks.Params) -> tuple[Array, Any]:
            return loss(every_head(params, state.prior, x_tm1), target_t, online_t)

        gradient, aux = jax.grad(objective, has_aux=True)(state.params)
        step = state.step + 1
        params, moments = adams.update(shape.adam, state.params, state.moments, gradient, step)
        copy = step % shape.target_period == 0
        target = jax.tree.map(lambda p, t: jnp.where(copy, p, t), params, state.target)
        return state._replace(params=params, target=target, moments=moments, step=step), aux

    def q(state: Dense, observation: Array) -> Array:
        return every_head(state.params, state.prior, flat(observation))

    def freeze(state: Dense, head: Array) -> Any:
        return jax.tree.map(lambda x: x[head], (state.params, state.prior))

    def frozen_q(frozen: Any, observation: Array) -> Array:
        params, prior = frozen
        return evaluate(params, prior, flat(observation))

    return Values(init, update, q, freeze, frozen_q)


def one_hot(spec: EnvSpec, shape: Shape) -> Values:
    """The sparse form. What is frozen for an episode is the head's value of every action in every state."""
    sizes = shape.sizes(spec)
    states, width = sizes[0], sizes[1]
    adam = shape.adam

    def heads_first(rows: Array) -> Array:
        """[B, H·F] -> [H, B, F]."""
        return jnp.swapaxes(rows.reshape(-1, shape.heads, width), 0, 1)

    def evaluate(rows: Array, bias: Array, rest: networks.Params, prior: Array) -> Array:
        """[H, B, A] from first-layer rows [B, H·F] and prior [B, H, A]."""
        first = heads_first(rows) + bias[:, None]
        return jax.vmap(networks.apply_rest)(rest, first) + jnp.swapaxes(prior, 0, 1)

    def init(key: Key) -> OneHot:
        key_params, key_prior = jax.random.split(key)
        (w, b), *rest = networks.init_ensemble(key_params, shape.heads, sizes)
        prior = networks.init_ensemble(key_prior, shape.heads, sizes)
        return OneHot(
            table=sparse.init(jnp.swapaxes(w, 0, 1).reshape(states, -1)),
            first_bias=b,
            rest=rest,
            target=jax.tree.map(jnp.copy, (b, rest)),
            prior=shape.prior_scale * _tabulate(prior),
            moments=adams.init((b, rest)),
            step=jnp.zeros((), jnp.int32),
        )

    def update(state: OneHot, o_tm1: Array, o_t: Array, loss: Any) -> tuple[OneHot, Any]:
        table, step = state.table, state.step + 1
        before, after = sparse.read(table, o_tm1), sparse.read(table, o_t)
        now = sparse.brought_to(adam, before.rows, before.touched, state.step)
        prior_tm1, prior_t = state.prior[o_tm1], state.prior[o_t]
        bias_target, rest_target = state.target
        target_t = evaluate(sparse.target(adam, after, table.copied), bias_target, rest_target, prior_t)
        online_t = None
        if shape.double:
            rows_t = sparse.brought_to(adam, after.rows, after.touched, state.step)
            online_t = evaluate(rows_t, state.first_bias, state.rest, prior_t)

        def objective(rows: Array, trained: Any) -> tuple[Array, Any]:
            bias, rest = trained
            return loss(evaluate(rows, bias, rest, prior_tm1), target_t, online_t)

        trained = (state.first_bias, state.rest)
        (row_gradient, gradient), aux = jax.grad(objective, argnums=(0, 1), has_aux=True)(now, trained)
        table = sparse.write(adam, table, o_tm1, before, now, row_gradient, step)
        trained, moments = adams.update(adam, trained, state.moments, gradient, step)
        copy = step % shape.target_period == 0
        target = jax.tree.map(lambda p, t: jnp.where(copy, p, t), trained, state.target)
        table = table._replace(copied=jnp.where(copy, step, table.copied))
        bias, rest = trained
        return OneHot(table, bias, rest, target, state.prior, moments, step), aux

    def q(state: OneHot, observation: Array) -> Array:
        one = sparse.read(state.table, observation[None])
        rows = sparse.brought_to(adam, one.rows, one.touched, state.step)
        return evaluate(rows, state.first_bias, state.rest, state.prior[observation][None])[:, 0]

    def freeze(state: OneHot, head: Array) -> Array:
        rows = jax.lax.dynamic_slice_in_dim(state.table.rows, head * width, width, axis=2)
        weights = sparse.brought_to(adam, rows, state.table.touched, state.step)
        rest = jax.tree.map(lambda x: x[head], state.rest)
        return networks.apply_rest(rest, weights + state.first_bias[head]) + state.prior[:, head]

    def frozen_q(frozen: Array, observation: Array) -> Array:
        return frozen[observation]

    return Values(init, update, q, freeze, frozen_q)


def _tabulate(params: networks.Params) -> Array:
    """Output of stacked networks for every one-hot input and for the all-zero one, [S + 1, H, A]."""

    def every_state(one: networks.Params) -> Array:
        (w, b), *rest = one
        return networks.apply_rest(rest, jnp.concatenate([w, jnp.zeros_like(w[:1])]) + b)

    return jnp.swapaxes(jax.lax.map(every_state, params), 0, 1)
