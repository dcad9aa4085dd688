"""What explorers are paid for. Any trailing shape: `[K, B]` or `[K, T, B]` gives `[B]` or `[T, B]`."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tdu import adam as adams
from tdu import networks
from tdu.types import Array, Bonus, EnvSpec, Exploit, Key, State, Transition


def spread(x: Array, *, unbiased: bool = True) -> Array:
    """Standard deviation over the leading axis (the heads), without gradient; divisor K − 1 as in eq. 7, or K."""
    return jax.lax.stop_gradient(jnp.std(x, axis=0, ddof=int(unbiased)))


def td_uncertainty(beta: float | Sequence[float], *, unbiased: bool = True) -> Bonus:
    """The paper's idea: r + β·σ, with σ the exploiters' disagreement about the TD error of the very transition.

    A sequence of β has one for each explorer.
    """

    def reward(_: State, batch: Transition, exploit: Exploit) -> tuple[Array, Array]:
        sigma = spread(exploit.td, unbiased=unbiased)
        return batch.r_t + _per_explorer(beta, sigma.ndim) * sigma, sigma

    return _stateless(reward)


def q_uncertainty(beta: float) -> Bonus:
    """r + β·σ(Q), with σ the exploiters' disagreement about the value of the action taken (QU, the paper's ablation)."""

    def reward(_: State, batch: Transition, exploit: Exploit) -> tuple[Array, Array]:
        sigma = spread(exploit.q)
        return batch.r_t + beta * sigma, sigma

    return _stateless(reward)


def absolute_td(beta: float) -> Bonus:
    """β·|δ| of the one exploiter, alone and in place of the reward (QEX; Simmons-Edler et al., 2019)."""

    def reward(_: State, batch: Transition, exploit: Exploit) -> tuple[Array, Array]:
        del batch
        surprise = jnp.abs(exploit.td[0])
        return beta * surprise, surprise

    return _stateless(reward)


def counts(beta: float, spec: EnvSpec, *, resolution: float, buckets: int = 1 << 18) -> Bonus:
    """r + β·(n(s, a) + 0.01)^−½, with n the number of times the pair was met (CTS).

    Exact for one-hot observations. Others are cut into cells of width `resolution` and counted over a hash.
    """
    rows = spec.num_states + 1 if spec.num_states is not None else buckets

    def cell(observation: Array) -> Array:
        if spec.num_states is not None:
            return observation
        return _hash(jnp.round(observation / resolution).astype(jnp.int32), len(spec.observation_shape)) % buckets

    def init() -> Array:
        return jnp.zeros((rows, spec.num_actions), jnp.int32)

    def observe(visits: Array, transition: Transition) -> Array:
        return visits.at[cell(transition.o_tm1), transition.a_tm1].add(1)

    def reward(visits: Array, batch: Transition, exploit: Exploit) -> tuple[Array, Array]:
        del exploit
        novelty = (visits[cell(batch.o_tm1), batch.a_tm1].astype(jnp.float32) + 0.01) ** -0.5
        return batch.r_t + beta * novelty, novelty

    return Bonus(lambda key: init(), observe, reward, lambda visits, _: visits)


class Distillation(NamedTuple):
    """State of random network distillation."""

    predictor: networks.Params
    fixed: networks.Params
    moments: adams.Moments
    step: Array
    mean: Array
    """Moving average of the error."""
    square: Array
    """Moving average of its square."""


def distillation(
    beta: float,
    spec: EnvSpec,
    *,
    hidden_sizes: tuple[int, ...],
    features: int,
    decay: float,
    normalise: bool,
    adam: adams.Adam,
) -> Bonus:
    """r + β·i(s), with i the squared error of a network that learns to predict a fixed random one (RND; Burda et al., 2018).

    Normalised, i has the moving averages of its mean taken off and is divided by the standard deviation they imply.
    """
    size = spec.num_states if spec.num_states is not None else int(np.prod(spec.observation_shape))
    sizes = (size, *hidden_sizes, features)

    def flat(observation: Array) -> Array:
        if spec.num_states is not None:
            return jax.nn.one_hot(observation, spec.num_states)
        return observation.reshape(observation.shape[0], -1)

    def init(key: Key) -> Distillation:
        key_predictor, key_fixed = jax.random.split(key)
        predictor = networks.init_mlp(key_predictor, sizes)
        zero = jnp.zeros(())
        moments = adams.init(predictor)
        return Distillation(
            predictor, networks.init_mlp(key_fixed, sizes), moments, jnp.zeros((), jnp.int32), zero, zero
        )

    def error(predictor: networks.Params, fixed: networks.Params, x: Array) -> Array:
        return jnp.sum(jnp.square(networks.apply_mlp(predictor, x) - networks.apply_mlp(fixed, x)), axis=-1)

    def reward(state: Distillation, batch: Transition, exploit: Exploit) -> tuple[Array, Array]:
        del exploit
        surprise = error(state.predictor, state.fixed, flat(batch.o_tm1))
        if normalise:
            weight = 1 - adams.power(decay, state.step)  # the averages start from 0
            mean = state.mean / jnp.maximum(weight, 1e-8)
            variance = state.square / jnp.maximum(weight, 1e-8) - jnp.square(mean)
            known = state.step > 0
            surprise = jnp.where(known, (surprise - mean) / jnp.sqrt(jnp.maximum(variance, 1e-8)), 0.0)
        return batch.r_t + beta * surprise, surprise

    def learn(state: Distillation, batch: Transition) -> Distillation:
        x = flat(batch.o_tm1)

        def loss(predictor: networks.Params) -> tuple[Array, Array]:
            errors = error(predictor, state.fixed, x)
            return jnp.mean(errors), errors

        gradient, errors = jax.grad(loss, has_aux=True)(state.predictor)
        step = state.step + 1
        predictor, moments = adams.update(adam, state.predictor, state.moments, gradient, step)
        mean = decay * state.mean + (1 - decay) * jnp.mean(errors)
        square = decay * state.square + (1 - decay) * jnp.mean(jnp.square(errors))
        return Distillation(predictor, state.fixed, moments, step, mean, square)

    return Bonus(init, lambda state, _: state, reward, learn)


def nothing() -> Bonus:
    """Explorers are paid the reward alone."""

    def reward(_: State, batch: Transition, exploit: Exploit) -> tuple[Array, Array]:
        del exploit
        return batch.r_t, jnp.zeros_like(batch.r_t)

    return _stateless(reward)


def _per_explorer(beta: float | Sequence[float], rank: int) -> float | Array:
    if isinstance(beta, float | int):
        return beta
    return jnp.asarray(beta, jnp.float32).reshape(-1, *[1] * rank)


def _hash(cells: Array, rank: int) -> Array:
    """FNV-1a over the trailing `rank` axes."""
    flat = cells.reshape(*cells.shape[: cells.ndim - rank], -1).astype(jnp.uint32)
    start = jnp.full(flat.shape[:-1], 2166136261, jnp.uint32)
    mixed = jax.lax.fori_loop(0, flat.shape[-1], lambda i, h: (h ^ flat[..., i]) * jnp.uint32(16777619), start)
    return mixed ^ (mixed >> 15)


def _stateless(reward: Callable[[State, Transition, Exploit], tuple[Array, Array]]) -> Bonus:
    return Bonus(lambda key: (), lambda state, _: state, reward, lambda state, _: state)
