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
    layout = shape.heads_in(spec)
    adam = shape.adam

    def evaluate(rows: Array, observations: Array, params: Params, prior: Array, draw: Any) -> Array:
        """[H, B, A] from what is trained, first-layer rows and the rest, and the prior [B, H, A]."""
        bias, rest = weights.drawn(params, draw)
        rows = weights.drawn_rows(rows, observations, draw)
        return layout.apply_rest(mlp.apply_rest, rest, rows, bias) + jnp.swapaxes(prior, 0, 1)

    def init_one(key: Key) -> mlp.Layers:
        return mlp.init_mlp(key, sizes)

    def init(key: Key) -> OneHot:
        key_params, key_prior = jax.random.split(key)
        networks = layout.init(key_params, init_one)
        (w, b), *rest = networks
        prior = layout.init(key_prior, init_one)
        params = weights.trainable((b, rest))
        rows = jnp.swapaxes(w.reshape(layout.networks, *w.shape[-2:]), 0, 1)
        return OneHot(
            table=sparse_layer.init(weights.trainable_rows(rows)),
            params=params,
            target=jax.tree.map(jnp.copy, params),
            prior=shape.prior_scale * tabulate(prior),
            moments=adams.init(params),
            step=jnp.zeros((), jnp.int32),
            noise=weights.init(key, networks),
        )

    def tabulate(prior: mlp.Layers) -> Array:
        """The prior's values of every state and of the all-zero observation, [S + 1, H, A]."""
        one = _every_state(mlp.apply_unit if shape.unit_prior else mlp.apply_rest)
        if layout.heads_per_network == 1:
            return jnp.swapaxes(jax.lax.map(one, prior), 0, 1)  # network by network, which takes less memory
        return one(prior).reshape(-1, shape.heads, spec.num_actions)

    def update(state: OneHot, o_tm1: Array, o_t: Array, loss: Any, priors: Any = None) -> tuple[OneHot, Any]:
        del priors  # a table of them is at hand
        table, step = state.table, state.step + 1
        before, after = sparse_layer.read(table, o_tm1), sparse_layer.read(table, o_t)
        now = sparse_layer.brought_to(adam, before, state.step)
        prior_tm1, prior_t = state.prior[o_tm1], state.prior[o_t]
        draw, draw_target = weights.draw(state.noise, state.step, 0), weights.draw(state.noise, state.step, 1)
        rows_target = sparse_layer.target(adam, after, table.copied)
        target_t = evaluate(rows_target, o_t, state.target, prior_t, draw_target)
        online_t = None
        if shape.double:
            rows_t = sparse_layer.brought_to(adam, after, state.step)
            online_t = evaluate(rows_t, o_t, state.params, prior_t, draw)

        q_tm1, back = jax.vjp(lambda rows, params: evaluate(rows, o_tm1, params, prior_tm1, draw), now, state.params)
        by_value, aux = jax.grad(loss, has_aux=True)(q_tm1, target_t, online_t)
        # Equal states have equal activations, so that what they want can be summed before it goes back through the network.
        first, sums = sparse_layer.distinct(o_tm1)
        row_gradient, gradient = back(jnp.einsum("ij,hja->hia", sums, by_value))
        if layout.trunk_mean:
            bias_gradient, rest_gradient = gradient
            (row_gradient, bias_gradient), *rest_gradient = layout.trunk_mean(
                [(row_gradient, bias_gradient), *rest_gradient]
            )
            gradient = bias_gradient, rest_gradient
        table = sparse_layer.write(
            adam, table, states=o_tm1, first=first, before=before, now=now, gradient=row_gradient, step=step
        )
        params, moments = adams.update(adam, state.params, state.moments, gradient, step)
        target, copy = shape.copied(params, state.target, step)
        table = table._replace(copied=jnp.where(copy, step, table.copied))
        return OneHot(table, params, target, state.prior, moments, step, state.noise), aux

    def params(state: OneHot) -> OneHotParams:
        return OneHotParams(state.table, state.params, state.prior, state.step, state.noise)

    def evaluated(params: OneHotParams, observation: Array, draw: Any) -> Array:
        read = sparse_layer.read(params.table, observation[None])
        rows = sparse_layer.brought_to(adam, read, params.step)
        return evaluate(rows, observation[None], params.trained, params.prior[observation][None], draw)[:, 0]

    def q(params: OneHotParams, observation: Array) -> Array:
        return evaluated(params, observation, weights.draw(params.noise, params.step, 0))

    def noiseless_q(params: OneHotParams, observation: Array) -> Array:
        return evaluated(params, observation, None)

    def freeze(params: OneHotParams, head: Array) -> Array:
        if weights is not PLAIN:
            raise ValueError("noisy networks act live")
        bias, rest = params.trained
        if layout.trunk_mean is None:
            number, bias, rest = head, bias[head], layout.head(rest, head)
        else:
            number, rest = jnp.zeros((), jnp.int32), layout.head(rest, head)
        first = sparse_layer.network(adam, params.table, number, params.step) + bias
        return mlp.apply_rest(rest, first) + params.prior[:, head]

    def frozen_q(frozen: Array, observation: Array) -> Array:
        return frozen[observation]

    def rebase(state: OneHot) -> OneHot:
        by = shape.excess(state.step)
        return state._replace(table=sparse_layer.rebased(state.table, by), step=state.step - by)

    def rescaled(state: OneHot, by: Array) -> OneHot:
        def times(bias_and_rest: Params) -> Params:
            bias, rest = bias_and_rest
            return bias, mlp.times(rest, by)

        params, target = (weights.each(times, x) for x in (state.params, state.target))
        return state._replace(params=params, target=target)

    return Values(init, update, params, q, noiseless_q, freeze, frozen_q, rebase, rescaled)


def _every_state(apply_rest: Any) -> Any:
    """One network's output for every one-hot input and for the all-zero one, [S + 1, A], as a function of its layers."""

    def evaluate(layers: mlp.Layers) -> Array:
        (w, b), *rest = layers
        return apply_rest(rest, jnp.concatenate([w, jnp.zeros_like(w[:1])]) + b)

    return evaluate
