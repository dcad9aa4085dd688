"""The sparse form of an ensemble, for observations that are state indices: it moves only the rows that a batch touches.

What is frozen for an episode is the head's value of every action in every state.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tdu import adam as adams
from tdu.networks import mlp
from tdu.types import Array, EnvSpec, Key, Params, Values, Weights
from tdu.values import sparse_layer
from tdu.values.shape import Shape
from tdu.values.weights import PLAIN


class OneHot(NamedTuple):
    table: sparse_layer.Table
    params: Params
    """What is trained of the first bias [H, F] and the later layers."""
    target: Params
    prior: Array
    """λ·P as a constant table [S + 1, H, A]."""
    moments: adams.Moments
    step: Array
    """Learning steps."""
    noise: Any


class OneHotParams(NamedTuple):
    """What evaluating the online networks needs."""

    table: sparse_layer.Table
    trained: Params
    prior: Array
    step: Array
    noise: Any


def one_hot(spec: EnvSpec, shape: Shape, weights: Weights = PLAIN) -> Values:
    """The ensemble for one-hot observations."""
    sizes = shape.sizes(spec)
    states, width = sizes[0], sizes[1]
    adam = shape.adam

    def heads_first(rows: Array) -> Array:
        """[B, H·F] -> [H, B, F]."""
        return jnp.swapaxes(rows.reshape(-1, shape.heads, width), 0, 1)

    def evaluate(rows: Array, observations: Array, params: Params, prior: Array, draw: Any) -> Array:
        """[H, B, A] from what is trained, first-layer rows and the rest, and the prior [B, H, A]."""
        bias, rest = weights.drawn(params, draw)
        first = heads_first(weights.drawn_rows(rows, observations, draw)) + bias[:, None]
        return jax.vmap(mlp.apply_rest)(rest, first) + jnp.swapaxes(prior, 0, 1)

    def init_one(key: Key) -> mlp.Layers:
        return mlp.init_mlp(key, sizes)

    def init(key: Key) -> OneHot:
        key_params, key_prior = jax.random.split(key)
        networks = mlp.init_ensemble(key_params, shape.heads, init_one)
        (w, b), *rest = networks
        prior = mlp.init_ensemble(key_prior, shape.heads, init_one)
        params = weights.trainable((b, rest))
        return OneHot(
            table=sparse_layer.init(weights.trainable_rows(jnp.swapaxes(w, 0, 1).reshape(states, -1))),
            params=params,
            target=jax.tree.map(jnp.copy, params),
            prior=shape.prior_scale * _tabulate(prior),
            moments=adams.init(params),
            step=jnp.zeros((), jnp.int32),
            noise=weights.init(key, networks),
        )

    def update(state: OneHot, o_tm1: Array, o_t: Array, loss: Any, priors: Any = None) -> tuple[OneHot, Any]:
        del priors  # a table of them is at hand
        table, step = state.table, state.step + 1
        before, after = sparse_layer.read(table, o_tm1), sparse_layer.read(table, o_t)
        now = sparse_layer.brought_to(adam, before.rows, before.touched, state.step)
        prior_tm1, prior_t = state.prior[o_tm1], state.prior[o_t]
        draw, draw_target = weights.draw(state.noise, state.step, 0), weights.draw(state.noise, state.step, 1)
        rows_target = sparse_layer.target(adam, after, table.copied)
        target_t = evaluate(rows_target, o_t, state.target, prior_t, draw_target)
        online_t = None
        if shape.double:
            rows_t = sparse_layer.brought_to(adam, after.rows, after.touched, state.step)
            online_t = evaluate(rows_t, o_t, state.params, prior_t, draw)

        def objective(rows: Array, params: Params) -> tuple[Array, Any]:
            return loss(evaluate(rows, o_tm1, params, prior_tm1, draw), target_t, online_t)

        (row_gradient, gradient), aux = jax.grad(objective, argnums=(0, 1), has_aux=True)(now, state.params)
        table = sparse_layer.write(adam, table, states=o_tm1, before=before, now=now, gradient=row_gradient, step=step)
        params, moments = adams.update(adam, state.params, state.moments, gradient, step)
        target, copy = shape.copied(params, state.target, step)
        table = table._replace(copied=jnp.where(copy, step, table.copied))
        return OneHot(table, params, target, state.prior, moments, step, state.noise), aux

    def params(state: OneHot) -> OneHotParams:
        return OneHotParams(state.table, state.params, state.prior, state.step, state.noise)

    def evaluated(params: OneHotParams, observation: Array, draw: Any) -> Array:
        read = sparse_layer.read(params.table, observation[None])
        rows = sparse_layer.brought_to(adam, read.rows, read.touched, params.step)
        return evaluate(rows, observation[None], params.trained, params.prior[observation][None], draw)[:, 0]

    def q(params: OneHotParams, observation: Array) -> Array:
        return evaluated(params, observation, weights.draw(params.noise, params.step, 0))

    def noiseless_q(params: OneHotParams, observation: Array) -> Array:
        return evaluated(params, observation, None)

    def freeze(params: OneHotParams, head: Array) -> Array:
        if weights is not PLAIN:
            raise ValueError("noisy networks act live")
        bias, rest = jax.tree.map(lambda x: x[head], params.trained)
        rows = jax.lax.dynamic_slice_in_dim(params.table.rows, head * width, width, axis=2)
        first = sparse_layer.brought_to(adam, rows, params.table.touched, params.step) + bias
        return mlp.apply_rest(rest, first) + params.prior[:, head]

    def frozen_q(frozen: Array, observation: Array) -> Array:
        return frozen[observation]

    def rebase(state: OneHot) -> OneHot:
        by = shape.excess(state.step)
        return state._replace(table=sparse_layer.rebased(state.table, by), step=state.step - by)

    return Values(init, update, params, q, noiseless_q, freeze, frozen_q, rebase)


def _tabulate(params: mlp.Layers) -> Array:
    """Output of stacked networks for every one-hot input and for the all-zero one, [S + 1, H, A]."""

    def every_state(one: mlp.Layers) -> Array:
        (w, b), *rest = one
        return mlp.apply_rest(rest, jnp.concatenate([w, jnp.zeros_like(w[:1])]) + b)

    return jnp.swapaxes(jax.lax.map(every_state, params), 0, 1)
