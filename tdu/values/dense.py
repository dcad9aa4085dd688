"""The ordinary form of an ensemble: every layer is a matrix product and every weight moves at every step.

With `Shape.standard`, networks see observations, and heads have priors, in standard form (`values/standard.py`).
"""

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
    """`standard.Seen`, which brings observations and priors into standard form; empty where they stay as they are."""


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
    apply = mlp.apply_image if conv else mlp.apply_mlp
    every_head = jax.vmap(apply, in_axes=(0, None))
    has_prior = bool(shape.prior_scale)

    def init_one(key: Key) -> mlp.Layers:
        if conv:
            height, width, channels = spec.observation_shape
            return mlp.init_image(key, (height, width, channels), shape.hidden_sizes, spec.num_actions)
        return mlp.init_mlp(key, shape.sizes(spec))

    numbers = spec.observation_shape[-1] if conv else shape.sizes(spec)[0]
    fan_in = mlp.WINDOW * numbers if conv else numbers
    in_standard_form = shape.standard and spec.num_states is None

    def as_numbers(observation: Array) -> Array:
        if spec.num_states is not None:
            return jax.nn.one_hot(observation, spec.num_states)
        x = inputs.scaled(spec, observation)
        return x if conv else x.reshape(*x.shape[: x.ndim - rank], -1)

    def network_input(seen: Any, observation: Array) -> Array:
        x = as_numbers(observation)
        return standard.observation(seen, x, fan_in) if in_standard_form else x

    def scaled(seen: Any, priors: Array) -> Array:
        """λ·P."""
        return shape.prior_scale * (standard.prior(seen, priors, fan_in) if in_standard_form else priors)

    def priors_of(networks: Params, seen: Any, x: Array) -> Array:
        """λ·P_k, [H, B, A] or [H, A], of what networks see."""
        return scaled(seen, every_head(networks, x))

    def looked_at(state: Dense, o_tm1: Array) -> Dense:
        """With the statistics of one more batch."""
        if not in_standard_form:
            return state
        seen = standard.observations_met(state.seen, as_numbers(o_tm1), state.step)
        if has_prior:
            met = every_head(state.prior, network_input(seen, o_tm1))
            seen = standard.priors_met(seen, met, state.step)
        return state._replace(seen=seen)

    def init(key: Key) -> Dense:
        key_params, key_prior = jax.random.split(key)
        networks = mlp.init_ensemble(key_params, shape.heads, init_one)
        params = weights.trainable(networks)
        return Dense(
            params=params,
            target=jax.tree.map(jnp.copy, params),
            prior=mlp.init_ensemble(key_prior, shape.heads, init_one) if has_prior else (),
            moments=adams.init(params),
            step=jnp.zeros((), jnp.int32),
            noise=weights.init(key, networks),
            seen=standard.nothing(numbers, shape.heads, spec.num_actions) if in_standard_form else (),
        )

    def update(state: Dense, o_tm1: Array, o_t: Array, loss: Any, priors: Any = None) -> tuple[Dense, Any]:
        state = looked_at(state, o_tm1)
        x_tm1, x_t = network_input(state.seen, o_tm1), network_input(state.seen, o_t)
        prior_tm1 = prior_t = jnp.zeros(())
        if has_prior:
            prior_tm1, prior_t = priors or tuple(priors_of(state.prior, state.seen, x) for x in (x_tm1, x_t))
        draw, draw_target = weights.draw(state.noise, state.step, 0), weights.draw(state.noise, state.step, 1)
        target_t = every_head(weights.drawn(state.target, draw_target), x_t) + prior_t
        online_t = every_head(weights.drawn(state.params, draw), x_t) + prior_t if shape.double else None

        def objective(params: Params) -> tuple[Array, Any]:
            return loss(every_head(weights.drawn(params, draw), x_tm1) + prior_tm1, target_t, online_t)

        gradient, aux = jax.grad(objective, has_aux=True)(state.params)
        step = state.step + 1
        params, moments = adams.update(shape.adam, state.params, state.moments, gradient, step)
        target, _ = shape.copied(params, state.target, step)
        return state._replace(params=params, target=target, moments=moments, step=step), aux

    def params(state: Dense) -> DenseParams:
        return DenseParams(state.params, state.prior, state.step, state.noise, state.seen)

    def evaluated(params: DenseParams, observation: Array, draw: Any) -> Array:
        x = network_input(params.seen, observation)
        learned = every_head(weights.drawn(params.trained, draw), x)
        return learned + priors_of(params.prior, params.seen, x) if has_prior else learned

    def q(params: DenseParams, observation: Array) -> Array:
        return evaluated(params, observation, weights.draw(params.noise, params.step, 0))

    def noiseless_q(params: DenseParams, observation: Array) -> Array:
        return evaluated(params, observation, None)

    def freeze(params: DenseParams, head: Array) -> tuple[Params, Params, Any]:
        drawn = weights.drawn(params.trained, weights.draw(params.noise, params.step, 0))
        seen = standard.of_head(params.seen, head) if in_standard_form else ()
        return *jax.tree.map(lambda x: x[head], (drawn, params.prior)), seen

    def frozen_q(frozen: tuple[Params, Params, Any], observation: Array) -> Array:
        learned, prior, seen = frozen
        x = network_input(seen, observation)
        return apply(learned, x) + scaled(seen, apply(prior, x)) if has_prior else apply(learned, x)

    def rebase(state: Dense) -> Dense:
        return state._replace(step=state.step - shape.excess(state.step))

    def prior(state: Dense, observation: Array) -> Array:
        return priors_of(state.prior, state.seen, network_input(state.seen, observation))

    stays = has_prior and not in_standard_form
    return Values(init, update, params, q, noiseless_q, freeze, frozen_q, rebase, prior if stays else None)
