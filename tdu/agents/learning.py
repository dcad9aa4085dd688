"""What learners share: TD errors of all heads, the metrics of a learning step, waiting for the next, the greedy policy."""

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp

from tdu import td
from tdu.metrics import STANDARD, UPDATES, Metrics, Reducers
from tdu.types import Actor, Array, Evaluated, Key, Params, TimeStep, Transition

S = TypeVar("S")
Update = Callable[[S, Key], tuple[S, Metrics]]


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


def metrics(*, loss: Array, largest_q: Array, bonus: Array | float = 0.0, **others: Array | float) -> Metrics:
    """Metrics of one learning step.

    `largest_q` is the largest |Q| in the batch, over the heads that learn the task, and `bonus` the batch's mean bonus.
    `others` are of this learner alone; its `Reducers` declare them.
    """
    numbers = {UPDATES: 1.0, "loss": loss, "bonus": bonus, "largest_q": largest_q, **others}
    return {name: jnp.asarray(number, jnp.float32) for name, number in numbers.items()}


def when(ready: Array, update: Update[S], state: S, key: Key, reducers: Reducers = STANDARD) -> tuple[S, Metrics]:
    """`update` where the learner is ready; else the same state and metrics of 0."""

    def wait(state: S, _: Key) -> tuple[S, Metrics]:
        return state, jax.tree.map(jnp.asarray, reducers.zeros())

    return jax.lax.cond(ready, update, wait, state, key)


def greedy_actor(values: Callable[[Params, Array], Array]) -> Actor:
    """Picks the first action of largest value; has no memory."""

    def begin(_params: Params, _key: Key) -> tuple[()]:
        return ()

    def act(params: Params, nothing: tuple[()], timestep: TimeStep, _: Key) -> tuple[Array, tuple[()]]:
        return jnp.argmax(values(params, timestep.observation)).astype(jnp.int32), nothing

    return Actor(begin, act)
