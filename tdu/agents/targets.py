"""TD errors of all heads on a batch of transitions, on the environment's rewards."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from tdu import td
from tdu.types import Array, Evaluated, Transition


def next_of(batch: Transition, of: Callable[[Transition], Array]) -> Array:
    """What `of` reads of every o_t that a target may use, [B·n, …]: the batch's own and those of its later steps."""
    if not batch.later:
        return of(batch)
    steps = jnp.concatenate([of(batch)[:, None], of(batch.later)], axis=1)
    return steps.reshape(-1, *steps.shape[2:])


def taken(q_tm1: Array, batch: Transition) -> Array:
    """Values of the actions taken, [H, B]."""
    return jax.vmap(jax.vmap(td.taken), in_axes=(0, None))(q_tm1, batch.a_tm1)


def errors(values: Evaluated, batch: Transition, discount: float) -> Array:
    """TD errors [H, B], from the values at o_tm1 and at every o_t of `next_of`."""
    if batch.later:
        return _cut_errors(values, batch, discount)
    r_t = jnp.broadcast_to(batch.r_t, (len(values.q_tm1), *batch.r_t.shape))
    d_t = discount * batch.d_t
    over_heads = (0, None, 0, None, 0)
    if values.online_t is not None:
        double = jax.vmap(jax.vmap(td.double_q_learning), in_axes=(*over_heads, 0))
        return double(values.q_tm1, batch.a_tm1, r_t, d_t, values.target_t, values.online_t)
    return jax.vmap(jax.vmap(td.q_learning), in_axes=over_heads)(values.q_tm1, batch.a_tm1, r_t, d_t, values.target_t)


def _cut_errors(values: Evaluated, batch: Transition, discount: float) -> Array:
    assert batch.later
    a_tm1, r_t, d_t = (
        jnp.concatenate([getattr(batch, name)[:, None], getattr(batch.later, name)], axis=1)
        for name in ("a_tm1", "r_t", "d_t")
    )
    selector_t = values.target_t if values.online_t is None else values.online_t
    target_t, selector_t = (x.reshape(len(values.q_tm1), *a_tm1.shape, -1) for x in (values.target_t, selector_t))
    error = jax.vmap(jax.vmap(td.cut_q_learning), in_axes=(0, None, None, None, 0, 0, None))
    return error(values.q_tm1, a_tm1, r_t, discount * d_t, target_t, selector_t, batch.later.extras["follows"])
