"""Bonuses: what explorers are paid for. Trailing axes are free: `[K, B]` or `[K, T, B]` gives `[B]` or `[T, B]`."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tdu import adam as adams
from tdu.networks import inputs
from tdu.types import Array, Bonus, EnvSpec, Exploit, Key, State, Transition, Values


def spread(x: Array, *, unbiased: bool = True) -> Array:
    """Standard deviation over the leading axis (the heads), without gradient; divisor K − 1 as in eq. 7, or K."""
    return jax.lax.stop_gradient(jnp.std(x, axis=0, ddof=int(unbiased)))


def td_uncertainty(beta: float | Sequence[float], *, unbiased: bool = True) -> Bonus:
    """The paper's bonus: r + β·σ, with σ the exploiters' disagreement about the TD error of the transition.

    A sequence has one β for each explorer.
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
    """β·|δ| instead of the reward (QEX; Simmons-Edler et al., 2019); the mean over several exploiters."""

    def reward(_: State, batch: Transition, exploit: Exploit) -> tuple[Array, Array]:
        del batch
        surprise = jnp.mean(jnp.abs(exploit.td), axis=0)
        return beta * surprise, surprise

    return _stateless(reward)


def counts(beta: float, spec: EnvSpec, *, resolution: float, buckets: int = 1 << 18) -> Bonus:
    """r + β·(n(s, a) + 0.01)^−½, with n the visit count of the pair (CTS).

    Counts are exact for one-hot observations. Other observations are rounded to cells of width `resolution` and hashed.
    """
    rows = spec.num_states + 1 if spec.num_states is not None else buckets

    def cell(observation: Array) -> Array:
        if spec.num_states is not None:
            return observation
        rounded = jnp.round(inputs.scaled(spec, observation) / resolution).astype(jnp.int32)
        return _hash(rounded, len(spec.observation_shape)) % buckets

    def init() -> Array:
        return jnp.zeros((rows, spec.num_actions), jnp.int32)

    def observe(visits: Array, transition: Transition) -> Array:
        pair = cell(transition.o_tm1), transition.a_tm1
        return visits.at[pair].set(jnp.minimum(visits[pair] + 1, _MAX_COUNT))

    def reward(visits: Array, batch: Transition, exploit: Exploit) -> tuple[Array, Array]:
        del exploit
        novelty = (visits[cell(batch.o_tm1), batch.a_tm1].astype(jnp.float32) + 0.01) ** -0.5
        return batch.r_t + beta * novelty, novelty

    return Bonus(lambda key: init(), observe, lambda visits, _: (visits, visits), reward)


_MAX_COUNT = 1 << 30  # Steps and visits are counted up to here; larger counts would change no bonus


class Distillation(NamedTuple):
    """State of random network distillation."""

    predictor: State
    step: Array
    """Learning steps."""
    mean: Array
    """Moving average of the error."""
    square: Array
    """Moving average of its square."""


def distillation(beta: float, predictor: Values, *, decay: float, normalise: bool) -> Bonus:
    """r + β·i(s), with i the squared error of a network that learns to predict a fixed random one (RND; Burda et al., 2018).

    `predictor` is one network with a prior of scale −1, so that its output is the learned network's minus the fixed one's.
    With `normalise`, i's mean is subtracted and it is divided by its standard deviation; both are moving averages.
    """

    def init(key: Key) -> Distillation:
        zero = jnp.zeros(())
        return Distillation(predictor.init(key), jnp.zeros((), jnp.int32), zero, zero)

    def normal(state: Distillation, errors: Array) -> Array:
        weight = jnp.maximum(1 - adams.power(decay, state.step), 1e-8)  # the averages start from 0
        mean = state.mean / weight
        variance = state.square / weight - jnp.square(mean)
        return jnp.where(state.step > 0, (errors - mean) / jnp.sqrt(jnp.maximum(variance, 1e-8)), 0.0)

    def learn(state: Distillation, batch: Transition) -> tuple[Distillation, Array]:
        def loss(difference: Array, *_: Array | None) -> tuple[Array, Array]:
            errors = jnp.sum(jnp.square(difference[0]), axis=-1)
            return jnp.mean(errors), errors

        learned, errors = predictor.update(state.predictor, batch.o_tm1, batch.o_tm1, loss)
        mean = decay * state.mean + (1 - decay) * jnp.mean(errors)
        square = decay * state.square + (1 - decay) * jnp.mean(jnp.square(errors))
        surprise = normal(state, errors) if normalise else errors
        return Distillation(learned, jnp.minimum(state.step + 1, _MAX_COUNT), mean, square), surprise

    def reward(surprise: Array, batch: Transition, exploit: Exploit) -> tuple[Array, Array]:
        del exploit
        return batch.r_t + beta * surprise, surprise

    def rebase(state: Distillation) -> Distillation:
        return state._replace(predictor=predictor.rebase(state.predictor))

    return Bonus(init, lambda state, _: state, learn, reward, rebase)


def nothing() -> Bonus:
    """No bonus: explorers are paid the reward."""

    def reward(_: State, batch: Transition, exploit: Exploit) -> tuple[Array, Array]:
        del exploit
        return batch.r_t, jnp.zeros_like(batch.r_t)

    return _stateless(reward)


def generic_loss(
    transitions: Transition,
    td: Array,
    policy_loss: Callable[[Transition], Array],
    beta: float,
    *,
    unbiased: bool = True,
) -> tuple[Array, Array]:
    """TDU around any policy loss (the paper's algorithm 3): (policy loss on r + β·σ, critics' loss).

    Rewards r are [B] or [T, B]. `td` are the critics' TD errors on r, [K, B] or [K, T, B], with gradient; σ is their spread.
    """
    transitions, _ = raised(transitions, td, beta, unbiased=unbiased)
    return policy_loss(transitions), critic_loss(td)


def raised(transitions: Transition, td: Array, beta: float, *, unbiased: bool = True) -> tuple[Transition, Array]:
    """The transitions with rewards r + β·σ, and σ; no gradient passes through it."""
    sigma = spread(td, unbiased=unbiased)
    return transitions._replace(r_t=transitions.r_t + beta * sigma), sigma


def critic_loss(td: Array) -> Array:
    """½δ², summed over critics and averaged over everything else."""
    return jnp.sum(jnp.mean(0.5 * jnp.square(td), axis=range(1, td.ndim)))


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
    return Bonus(lambda key: (), lambda state, _: state, lambda state, _: (state, ()), reward)
