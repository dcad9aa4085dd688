"""Temporal-difference errors: pure functions on one transition; callers `vmap`.

δ = r_t + d_t · v_t − q_tm1[a_tm1], where d_t includes γ, as in rlax. They return the error, not a loss.
"""

import jax
import jax.numpy as jnp

from tdu.types import Array


def taken(q: Array, action: Array) -> Array:
    """Value of one action, `q[action]`, as a masked sum: its gradient is a product and not a scatter."""
    return jnp.sum(jnp.where(jnp.arange(q.shape[-1]) == action, q, 0.0), axis=-1)


def q_learning(q_tm1: Array, a_tm1: Array, r_t: Array, d_t: Array, q_t: Array) -> Array:
    """Q-learning's error (Watkins, 1989): the target is the largest of `q_t` [A]; no gradient through it."""
    _assert_ranks(one=(q_tm1, q_t), none=(a_tm1, r_t, d_t))
    return jax.lax.stop_gradient(r_t + d_t * jnp.max(q_t)) - taken(q_tm1, a_tm1)


def double_q_learning(q_tm1: Array, a_tm1: Array, r_t: Array, d_t: Array, q_t: Array, selector_t: Array) -> Array:
    """Double Q-learning's error (van Hasselt et al., 2016): `selector_t` [A] picks the action, `q_t` [A] values it."""
    _assert_ranks(one=(q_tm1, q_t, selector_t), none=(a_tm1, r_t, d_t))
    v_t = taken(q_t, jnp.argmax(selector_t))
    return jax.lax.stop_gradient(r_t + d_t * v_t) - taken(q_tm1, a_tm1)


def cut_q_learning(
    q_tm1: Array, a_tm1: Array, r_t: Array, d_t: Array, q_t: Array, selector_t: Array, follows: Array
) -> Array:
    """Q-learning's error over n steps, cut at the first step that is worse than the greedy action.

    `q_tm1` [A] is of the first step; `a_tm1`, `r_t` and `d_t` are [n], `q_t` and `selector_t` [n, A]. A later step is used if
    it is the action that `selector_t` picks, as in Watkins' Q(λ) with λ = 1, or if the return from it exceeds the value of
    that action. Otherwise, and where `follows` [n − 1] is false, that value replaces the return. With random rewards this
    selects lucky steps, and values are too large.
    """
    _assert_ranks(one=(q_tm1, a_tm1, r_t, d_t, follows), none=())
    best = jnp.argmax(selector_t, axis=-1)
    v_t = taken(q_t, best[:, None])

    def earlier(after: Array, step: tuple[Array, ...]) -> tuple[Array, None]:
        r, d, v, is_own, follows = step
        return r + d * jnp.where(follows & (is_own | (after > v)), after, v), None

    steps = (r_t[:-1], d_t[:-1], v_t[:-1], a_tm1[1:] == best[:-1], follows)
    earned, _ = jax.lax.scan(earlier, r_t[-1] + d_t[-1] * v_t[-1], steps, reverse=True, unroll=8)
    return jax.lax.stop_gradient(earned) - taken(q_tm1, a_tm1[0])


def lambda_returns(r_t: Array, d_t: Array, v_t: Array, lambda_t: Array) -> Array:
    """λ-returns [T] of a sequence, G_t = r_t + d_t·((1 − λ_t)·v_t + λ_t·G_{t+1}); no gradient. λ_t = 0 cuts it there."""

    def backwards(after: Array, now: tuple[Array, ...]) -> tuple[Array, Array]:
        r, d, v, lambda_ = now
        value = r + d * ((1 - lambda_) * v + lambda_ * after)
        return value, value

    _, returns = jax.lax.scan(backwards, v_t[-1], (r_t, d_t, v_t, lambda_t), reverse=True)
    return jax.lax.stop_gradient(returns)


_SLOPE = 1e-3  # ε of `squash`; it bounds the slope of the inverse


def squash(x: Array) -> Array:
    """h(x) = sign(x)·(√(|x| + 1) − 1) + ε·x (Pohlen et al., 2018), which compresses large values."""
    return x / (jnp.sqrt(jnp.abs(x) + 1) + 1) + _SLOPE * x  # the same without cancellation


def unsquash(x: Array) -> Array:
    """h⁻¹(x) = sign(x)·z·(z + 2) with z = √(|h⁻¹(x)| + 1) − 1 in closed form, which is exact near 0 in float32."""
    size = jnp.abs(x)
    root = jnp.sqrt((1 + 2 * _SLOPE) ** 2 + 4 * _SLOPE * size)
    z = size * (2 - 4 * _SLOPE / (root + 1 + 2 * _SLOPE)) / (root + 1)
    return jnp.sign(x) * z * (z + 2)


def transformed_q_lambda(
    q_tm1: Array, a_tm1: Array, r_t: Array, d_t: Array, q_t: Array, selector_t: Array, lambda_: Array | float
) -> Array:
    """Errors [T] of Peng's Q(λ) along a sequence, in squashed space; no gradient through the target.

    `q_tm1`, `q_t` and `selector_t`, which picks the actions, are squashed values [T, A]. Returns are computed from unsquashed
    values and squashed again.
    """
    v_t = unsquash(jax.vmap(taken)(q_t, jnp.argmax(selector_t, axis=-1)))
    returns = lambda_returns(r_t, d_t, v_t, lambda_ * jnp.ones_like(r_t))
    return jax.lax.stop_gradient(squash(returns)) - jax.vmap(taken)(q_tm1, a_tm1)


def _assert_ranks(*, one: tuple[Array, ...], none: tuple[Array, ...]) -> None:
    for rank, arrays in ((1, one), (0, none)):
        for x in arrays:
            if jnp.ndim(x) != rank:
                raise ValueError(f"expected rank {rank}, got shape {jnp.shape(x)}; use vmap for batches")
