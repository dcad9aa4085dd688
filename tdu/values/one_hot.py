"""The sparse form of an ensemble, for observations that are state indices: a step updates only the rows of its batch.

A head that is frozen for an episode is a table of its values of every action in every state.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tdu.adam import Adam, AdamMoments
from tdu.networks import mlp
from tdu.types import Array, Aux, EnvSpec, Evaluated, Key, Loss, Params, State, Values, Weights
from tdu.values import sparse_layer
from tdu.values.shape import PLAIN, EnsembleShape


class OneHot(NamedTuple):
    table: sparse_layer.RowTable
    params: Params
    """What is trained of the first bias [H, F] and the later layers, as `Rest`."""
    target: Params
    prior: Array
    """λ·P as a constant table [S + 1, H, A]."""
    optimiser: AdamMoments[Params]
    step: Array
    """Learning steps."""
    noise: State


class OneHotParams(NamedTuple):
    table: sparse_layer.RowTable
    trained: Params
    prior: Array
    step: Array
    noise: State


class Rest(NamedTuple):
    """Networks without the weights of their first layer."""

    bias: Array
    """Of the first layer."""
    layers: mlp.Layers
    """Those after it."""


class _Batch(NamedTuple):
    """What a step reads of the table, and the batch's values as a function of what is trained."""

    rows: sparse_layer.Read
    """Of o_tm1, as they are stored."""
    now: Array
    """Their weights at this step."""
    q_tm1: Callable[[Array, Params], Array]
    """q_tm1(weights of the rows, params) -> [H, B, A]."""
    target_t: Array
    online_t: Array | None


def one_hot(spec: EnvSpec, shape: EnsembleShape, weights: Weights = PLAIN) -> Values:
    torso, layout, adam = shape.torso_for(spec), shape.heads_in(spec), shape.optimiser
    if not isinstance(adam, Adam):
        raise ValueError("the sparse layer is trained with Adam")

    def apply_rest(rest: mlp.Layers, first: Array) -> Array:
        return mlp.apply_rest(rest, first, torso.activation)

    def values_of(rows: Array, observations: Array, params: Params, prior: Array, draw: State) -> Array:
        """[H, B, A] from what is trained, first-layer rows and the rest, and the prior [B, H, A]."""
        bias, layers = weights.drawn(params, draw)
        rows = weights.drawn_rows(rows, observations, draw)
        return layout.apply_rest(apply_rest, layers, rows, bias) + jnp.swapaxes(prior, 0, 1)

    def init_one(key: Key) -> mlp.Layers:
        return torso.init(key, shape.sizes(spec, torso.width))

    def init(key: Key) -> OneHot:
        key_params, key_prior = jax.random.split(key)
        networks = layout.init(key_params, init_one)
        first, *layers = networks
        prior = layout.init(key_prior, init_one)
        params = weights.trainable(Rest(first.b, layers))
        rows = jnp.swapaxes(first.w.reshape(layout.networks, *first.w.shape[-2:]), 0, 1)
        return OneHot(
            table=sparse_layer.init(weights.trainable_rows(rows)),
            params=params,
            target=jax.tree.map(jnp.copy, params),
            prior=shape.prior_scale * tabulate(prior),
            optimiser=adam.init(params),
            step=jnp.zeros((), jnp.int32),
            noise=weights.init(key, networks),
        )

    def tabulate(prior: mlp.Layers) -> Array:
        """The prior's values of every state and of the all-zero observation, [S + 1, H, A]."""
        rest_of = mlp.apply_unit if shape.unit_prior else mlp.apply_rest

        def of_every_state(layers: mlp.Layers) -> Array:
            """One network's outputs [S + 1, A]."""
            first, *rest = layers
            rows = jnp.concatenate([first.w, jnp.zeros_like(first.w[:1])]) + first.b
            return rest_of(rest, rows, torso.activation)

        if layout.heads_per_network == 1:
            return jnp.swapaxes(jax.lax.map(of_every_state, prior), 0, 1)  # one network at a time saves memory
        return of_every_state(prior).reshape(-1, shape.heads, spec.num_actions)

    def read(state: OneHot, o_tm1: Array, o_t: Array) -> _Batch:
        table = state.table
        rows, rows_t = sparse_layer.read(table, o_tm1), sparse_layer.read(table, o_t)
        prior_tm1, prior_t = state.prior[o_tm1], state.prior[o_t]
        draw, draw_target = weights.draw(state.noise, state.step, 0), weights.draw(state.noise, state.step, 1)
        target_rows = sparse_layer.target(adam, rows_t, table.copied)
        online_t = None
        if shape.double:
            online_rows = sparse_layer.catch_up(adam, rows_t, state.step)
            online_t = values_of(online_rows, o_t, state.params, prior_t, draw)
        return _Batch(
            rows=rows,
            now=sparse_layer.catch_up(adam, rows, state.step),
            q_tm1=lambda rows, params: values_of(rows, o_tm1, params, prior_tm1, draw),
            target_t=values_of(target_rows, o_t, state.target, prior_t, draw_target),
            online_t=online_t,
        )

    def evaluate(state: OneHot, o_tm1: Array, o_t: Array) -> Evaluated:
        batch = read(state, o_tm1, o_t)
        return Evaluated(batch.q_tm1(batch.now, state.params), batch.target_t, batch.online_t)

    def update(
        state: OneHot, o_tm1: Array, o_t: Array, loss: Loss[Aux], priors: tuple[Array, Array] | None = None
    ) -> tuple[OneHot, Aux]:
        del priors  # they are in a table
        batch, step = read(state, o_tm1, o_t), state.step + 1
        q_tm1, back = jax.vjp(batch.q_tm1, batch.now, state.params)
        by_value, aux = jax.grad(loss, has_aux=True)(q_tm1, batch.target_t, batch.online_t)
        # Equal states have equal activations, so their gradients are summed before they pass through the network.
        first, sums = sparse_layer.distinct(o_tm1)
        row_gradient, gradient = back(jnp.einsum("ij,hja->hia", sums, by_value))
        if layout.trunk_mean:
            of_first, *of_layers = layout.trunk_mean([mlp.Linear(row_gradient, gradient.bias), *gradient.layers])
            row_gradient, gradient = of_first.w, Rest(of_first.b, of_layers)
        table = sparse_layer.write(
            adam, state.table, states=o_tm1, first=first, before=batch.rows, now=batch.now, gradient=row_gradient,
            step=step,
        )  # fmt: skip
        params, optimiser = adam.update(state.params, state.optimiser, gradient, step)
        target, copy = shape.copied(params, state.target, step)
        table = table._replace(copied=jnp.where(copy, step, table.copied))
        return OneHot(table, params, target, state.prior, optimiser, step, state.noise), aux

    def params(state: OneHot) -> OneHotParams:
        return OneHotParams(state.table, state.params, state.prior, state.step, state.noise)

    def drawn_q(params: OneHotParams, observation: Array, draw: State) -> Array:
        row = sparse_layer.read(params.table, observation[None])
        weight = sparse_layer.catch_up(adam, row, params.step)
        return values_of(weight, observation[None], params.trained, params.prior[observation][None], draw)[:, 0]

    def q(params: OneHotParams, observation: Array) -> Array:
        return drawn_q(params, observation, weights.draw(params.noise, params.step, 0))

    def noiseless_q(params: OneHotParams, observation: Array) -> Array:
        return drawn_q(params, observation, None)

    def freeze(params: OneHotParams, head: Array) -> Array:
        if weights is not PLAIN:
            raise ValueError("noisy networks act live")
        bias, layers = params.trained
        if layout.trunk_mean is None:
            number, bias = head, bias[head]
        else:
            number = jnp.zeros((), jnp.int32)
        first = sparse_layer.network(adam, params.table, number, params.step) + bias
        return apply_rest(layout.head(layers, head), first) + params.prior[:, head]

    def frozen_q(frozen: Array, observation: Array) -> Array:
        return frozen[observation]

    def rebase(state: OneHot) -> OneHot:
        by = shape.excess(state.step)
        return state._replace(table=sparse_layer.rebased(state.table, by), step=state.step - by)

    def rescaled(state: OneHot, factor: Array) -> OneHot:
        def scale(rest: Rest) -> Rest:
            return rest._replace(layers=mlp.scale_output(rest.layers, factor))

        params, target = (weights.each(scale, x) for x in (state.params, state.target))
        return state._replace(params=params, target=target)

    return Values(
        init=init, evaluate=evaluate, update=update, params=params, q=q, noiseless_q=noiseless_q, freeze=freeze,
        frozen_q=frozen_q, rebase=rebase, rescaled=rescaled,
    )  # fmt: skip
