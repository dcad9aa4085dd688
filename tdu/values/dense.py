"""The ordinary form of an ensemble: every layer is a matrix product and every weight moves at every step.

With `Shape.standard`, networks see observations in standard form (`values/standard.py`).
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tdu import adam as adams
from tdu.networks import inputs, mlp
from tdu.types import Array, EnvSpec, Key, Params, Values, Weights
from tdu.values import standard
from tdu.values.shape import Shape
from tdu.values.weights import PLAIN


class Dense(NamedTuple):
    params: Params
    """What is trained; without noise, the networks' weights."""
    target: Params
    prior: Params
    """Of every head; nothing where λ = 0."""
    moments: adams.Moments
    step: Array
    """Learning steps."""
    noise: Any
    seen: Any = ()
    """`standard.Seen`, which brings observations into standard form; empty where they stay as they are."""


class DenseParams(NamedTuple):
    """What evaluating the online networks needs."""

    trained: Params
    prior: Params
    step: Array
    noise: Any
    seen: Any = ()


def dense(spec: EnvSpec, shape: Shape, weights: Weights = PLAIN) -> Values:
    """The ensemble for any observation; a one-hot one is written out."""
    rank = len(spec.observation_shape)
    conv = shape.looks_at_images(spec)
    layout = shape.heads_in(spec)
    apply = mlp.apply_image if conv else mlp.apply_mlp
    apply_prior = partial(apply, rest_of=mlp.apply_unit) if shape.unit_prior else apply
    every_head, every_prior = layout.apply(apply), layout.apply(apply_prior)
    has_prior = bool(shape.prior_scale)
    measured = standard.measured(spec)
    in_standard_form = shape.standard and bool(measured.any())
    numbers = shape.sizes(spec)[0]
    inputs_seen = numbers + 1 if in_standard_form else numbers
    # Of an input of length 1 a prior is as large as one over the root of its fan-in: that is taken off here.
    widened = in_standard_form and not shape.unit_prior
    prior_scale = shape.prior_scale * (standard.PRIOR_SIZE * inputs_seen**0.5 if widened else 1.0)

    def init_one(key: Key) -> mlp.Layers:
        if conv:
            height, width, channels = spec.observation_shape
            return mlp.init_image(key, (height, width, channels), shape.hidden_sizes, shape.sizes(spec)[-1])
        return mlp.init_mlp(key, (inputs_seen, *shape.sizes(spec)[1:]))

    def as_numbers(observation: Array) -> Array:
        if spec.num_states is not None:
            return jax.nn.one_hot(observation, spec.num_states)
        x = inputs.scaled(spec, observation)
        return x if conv else x.reshape(*x.shape[: x.ndim - rank], -1)

    def network_input(seen: Any, observation: Array) -> Array:
        x = as_numbers(observation)
        return standard.form(seen, x, measured) if in_standard_form else x

    def priors_of(networks: Params, x: Array) -> Array:
        """λ·P_k, [H, B, A] or [H, A], of what networks see."""
        return prior_scale * every_prior(networks, x)

    def init(key: Key) -> Dense:
        key_params, key_prior = jax.random.split(key)
        networks = layout.init(key_params, init_one)
        params = weights.trainable(networks)
        return Dense(
            params=params,
            target=jax.tree.map(jnp.copy, params),
            prior=layout.init(key_prior, init_one) if has_prior else (),
            moments=adams.init(params),
            step=jnp.zeros((), jnp.int32),
            noise=weights.init(key, networks),
            seen=standard.nothing(numbers) if in_standard_form else (),
        )

    def update(state: Dense, o_tm1: Array, o_t: Array, loss: Any, priors: Any = None) -> tuple[Dense, Any]:
        if in_standard_form:
            state = state._replace(seen=standard.met(state.seen, as_numbers(o_tm1), state.step))
        x_tm1, x_t = network_input(state.seen, o_tm1), network_input(state.seen, o_t)
        prior_tm1 = prior_t = jnp.zeros(())
        if has_prior:
            prior_tm1, prior_t = priors or (priors_of(state.prior, x_tm1), priors_of(state.prior, x_t))
        draw, draw_target = weights.draw(state.noise, state.step, 0), weights.draw(state.noise, state.step, 1)
        target_t = every_head(weights.drawn(state.target, draw_target), x_t) + prior_t
        online_t = every_head(weights.drawn(state.params, draw), x_t) + prior_t if shape.double else None

        def objective(params: Params) -> tuple[Array, Any]:
            return loss(every_head(weights.drawn(params, draw), x_tm1) + prior_tm1, target_t, online_t)

        gradient, aux = jax.grad(objective, has_aux=True)(state.params)
        if layout.trunk_mean:
            gradient = layout.trunk_mean(gradient)
        step = state.step + 1
        params, moments = adams.update(shape.adam, state.params, state.moments, gradient, step)
        target, _ = shape.copied(params, state.target, step)
        return state._replace(params=params, target=target, moments=moments, step=step), aux

    def params(state: Dense) -> DenseParams:
        return DenseParams(state.params, state.prior, state.step, state.noise, state.seen)

    def evaluated(params: DenseParams, observation: Array, draw: Any) -> Array:
        x = network_input(params.seen, observation)
        learned = every_head(weights.drawn(params.trained, draw), x)
        return learned + priors_of(params.prior, x) if has_prior else learned

    def q(params: DenseParams, observation: Array) -> Array:
        return evaluated(params, observation, weights.draw(params.noise, params.step, 0))

    def noiseless_q(params: DenseParams, observation: Array) -> Array:
        return evaluated(params, observation, None)

    def freeze(params: DenseParams, head: Array) -> tuple[Params, Params, Any]:
        drawn = weights.drawn(params.trained, weights.draw(params.noise, params.step, 0))
        return layout.head(drawn, head), layout.head(params.prior, head) if has_prior else (), params.seen

    def frozen_q(frozen: tuple[Params, Params, Any], observation: Array) -> Array:
        learned, prior, seen = frozen
        x = network_input(seen, observation)
        return apply(learned, x) + prior_scale * apply_prior(prior, x) if has_prior else apply(learned, x)

    def rebase(state: Dense) -> Dense:
        return state._replace(step=state.step - shape.excess(state.step))

    def rescaled(state: Dense, by: Array) -> Dense:
        params, target = (weights.each(lambda p: mlp.times(p, by), x) for x in (state.params, state.target))
        return state._replace(params=params, target=target)

    def prior(state: Dense, observation: Array) -> Array:
        return priors_of(state.prior, network_input(state.seen, observation))

    never_changes = has_prior and not in_standard_form
    kept = prior if never_changes else None
    return Values(init, update, params, q, noiseless_q, freeze, frozen_q, rebase, rescaled, kept)
