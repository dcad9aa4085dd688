"""The dense form of an ensemble: every layer is a matrix product and every weight is updated at every step.

With `EnsembleShape.standard`, networks take standardised observations (`values/standard.py`).
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tdu.networks import mlp
from tdu.types import Array, Aux, EnvSpec, Evaluated, Key, Loss, Params, State, Values, Weights
from tdu.values import standard
from tdu.values.shape import PLAIN, EnsembleShape


class Dense(NamedTuple):
    params: Params
    """What is trained: the networks' weights, or the means and scales of noisy ones."""
    target: Params
    prior: mlp.Layers | tuple[()]
    """Of every head; empty where λ = 0."""
    optimiser: State
    step: Array
    """Learning steps."""
    noise: State
    seen: standard.Statistics | tuple[()] = ()
    """Of the observations; empty where they are not standardised."""


class DenseParams(NamedTuple):
    trained: Params
    prior: mlp.Layers | tuple[()]
    step: Array
    noise: State
    seen: standard.Statistics | tuple[()] = ()


class FrozenHead(NamedTuple):
    trained: mlp.Layers
    prior: mlp.Layers | tuple[()]
    seen: standard.Statistics | tuple[()]


def dense(spec: EnvSpec, shape: EnsembleShape, weights: Weights = PLAIN) -> Values:
    """The ensemble for any observation; a one-hot observation is written out."""
    torso, layout = shape.torso_for(spec), shape.heads_in(spec)
    has_prior = bool(shape.prior_scale)
    measured = standard.measured(spec)
    standardise = shape.standard and bool(measured.any())
    width = torso.width + 1 if standardise else torso.width
    # A prior's size on an input of length 1 is one over the root of its fan-in. This factor removes the fan-in.
    remove_fan_in = standardise and not shape.unit_prior
    prior_scale = shape.prior_scale * (standard.PRIOR_SIZE * width**0.5 if remove_fan_in else 1.0)

    def applied(rest_of: Callable[[mlp.Layers, Array, mlp.Activation], Array]) -> Callable[[mlp.Layers, Array], Array]:
        def apply(layers: mlp.Layers, x: Array) -> Array:
            image_layers, others = torso.split(layers)
            first = mlp.apply_first(others, torso.features(image_layers, x))
            return rest_of(others[1:], first, torso.activation)

        return apply

    apply, apply_prior = applied(mlp.apply_rest), applied(mlp.apply_unit if shape.unit_prior else mlp.apply_rest)
    every_head, every_prior = layout.apply(apply), layout.apply(apply_prior)

    def init_one(key: Key) -> mlp.Layers:
        return torso.init(key, shape.sizes(spec, width))

    def network_input(seen: standard.Statistics | tuple[()], observation: Array) -> Array:
        x = torso.numbers(observation)
        return standard.standardised(seen, x, measured) if seen else x

    def scaled_prior(networks: mlp.Layers, x: Array) -> Array:
        """λ·P_k, [H, B, A] or [H, A], for network inputs x."""
        return prior_scale * every_prior(networks, x)

    def init(key: Key) -> Dense:
        key_params, key_prior = jax.random.split(key)
        networks = layout.init(key_params, init_one)
        params = weights.trainable(networks)
        return Dense(
            params=params,
            target=jax.tree.map(jnp.copy, params),
            prior=layout.init(key_prior, init_one) if has_prior else (),
            optimiser=shape.optimiser.init(params),
            step=jnp.zeros((), jnp.int32),
            noise=weights.init(key, networks),
            seen=standard.initial(torso.width) if standardise else (),
        )

    def observed(state: Dense, o_tm1: Array) -> Dense:
        """The state with the batch's observations in its statistics."""
        if not state.seen:
            return state
        return state._replace(seen=standard.updated(state.seen, torso.numbers(o_tm1), state.step))

    def evaluator(
        state: Dense, o_tm1: Array, o_t: Array, priors: tuple[Array, Array] | None
    ) -> Callable[[Params], Evaluated]:
        """The batch's values as a function of what is trained."""
        x_tm1, x_t = network_input(state.seen, o_tm1), network_input(state.seen, o_t)
        prior_tm1 = prior_t = jnp.zeros(())
        if state.prior:
            prior_tm1, prior_t = priors or (scaled_prior(state.prior, x_tm1), scaled_prior(state.prior, x_t))
        draw, draw_target = weights.draw(state.noise, state.step, 0), weights.draw(state.noise, state.step, 1)
        target_t = every_head(weights.drawn(state.target, draw_target), x_t) + prior_t
        online_t = every_head(weights.drawn(state.params, draw), x_t) + prior_t if shape.double else None
        return lambda params: Evaluated(every_head(weights.drawn(params, draw), x_tm1) + prior_tm1, target_t, online_t)

    def evaluate(state: Dense, o_tm1: Array, o_t: Array) -> Evaluated:
        return evaluator(observed(state, o_tm1), o_tm1, o_t, None)(state.params)

    def update(
        state: Dense, o_tm1: Array, o_t: Array, loss: Loss[Aux], priors: tuple[Array, Array] | None = None
    ) -> tuple[Dense, Aux]:
        state = observed(state, o_tm1)
        of_params = evaluator(state, o_tm1, o_t, priors)
        gradient, aux = jax.grad(lambda params: loss(*of_params(params)), has_aux=True)(state.params)
        if layout.trunk_mean:
            gradient = layout.trunk_mean(gradient)
        step = state.step + 1
        params, optimiser = shape.optimiser.update(state.params, state.optimiser, gradient, step)
        target, _ = shape.copied(params, state.target, step)
        return state._replace(params=params, target=target, optimiser=optimiser, step=step), aux

    def params(state: Dense) -> DenseParams:
        return DenseParams(state.params, state.prior, state.step, state.noise, state.seen)

    def drawn_q(params: DenseParams, observation: Array, draw: State) -> Array:
        x = network_input(params.seen, observation)
        learned = every_head(weights.drawn(params.trained, draw), x)
        return learned + scaled_prior(params.prior, x) if params.prior else learned

    def q(params: DenseParams, observation: Array) -> Array:
        return drawn_q(params, observation, weights.draw(params.noise, params.step, 0))

    def noiseless_q(params: DenseParams, observation: Array) -> Array:
        return drawn_q(params, observation, None)

    def freeze(params: DenseParams, head: Array) -> FrozenHead:
        drawn = weights.drawn(params.trained, weights.draw(params.noise, params.step, 0))
        prior = layout.head(params.prior, head) if params.prior else ()
        return FrozenHead(layout.head(drawn, head), prior, params.seen)

    def frozen_q(frozen: FrozenHead, observation: Array) -> Array:
        x = network_input(frozen.seen, observation)
        learned = apply(frozen.trained, x)
        return learned + prior_scale * apply_prior(frozen.prior, x) if frozen.prior else learned

    def rebase(state: Dense) -> Dense:
        return state._replace(step=state.step - shape.excess(state.step))

    def rescaled(state: Dense, factor: Array) -> Dense:
        params, target = (weights.each(lambda p: mlp.scale_output(p, factor), x) for x in (state.params, state.target))
        return state._replace(params=params, target=target)

    def prior(state: Dense, observation: Array) -> Array:
        assert state.prior
        return scaled_prior(state.prior, network_input(state.seen, observation))

    never_changes = has_prior and not standardise
    return Values(
        init=init, evaluate=evaluate, update=update, params=params, q=q, noiseless_q=noiseless_q, freeze=freeze,
        frozen_q=frozen_q, rebase=rebase, rescaled=rescaled,
        prior=prior if never_changes else None,
    )  # fmt: skip
