"""What all learners share: the metrics of a learning step, waiting for the next one, and the greedy policy."""

from collections.abc import Callable
from typing import TypeVar

import jax
import jax.numpy as jnp

from tdu.metrics import STANDARD, UPDATES, Metrics, Reducers
from tdu.types import Actor, Array, Key, Params, TimeStep

S = TypeVar("S")
Update = Callable[[S, Key], tuple[S, Metrics]]


def metrics(*, loss: Array, largest_q: Array, bonus: Array | float = 0.0, **others: Array | float) -> Metrics:
    """Metrics of one learning step.

    Args:
        loss: the loss.
        largest_q: largest |Q| in the batch, over the heads that learn the task.
        bonus: mean bonus of the batch.
        others: metrics of this learner alone; its `Reducers` declare them.
    """
    numbers = {UPDATES: 1.0, "loss": loss, "bonus": bonus, "largest_q": largest_q, **others}
    return {name: jnp.asarray(number, jnp.float32) for name, number in numbers.items()}


def when(ready: Array, update: Update[S], state: S, key: Key, reducers: Reducers = STANDARD) -> tuple[S, Metrics]:
    """`update` where the learner is ready; else the same state and metrics of 0."""

    def wait(state: S, key: Key) -> tuple[S, Metrics]:
        del key
        return state, jax.tree.map(jnp.asarray, reducers.zeros())

    return jax.lax.cond(ready, update, wait, state, key)


def greedy_actor(values: Callable[[Params, Array], Array]) -> Actor:
    """Picks the first action of largest value; has no memory."""

    def begin(params: Params, key: Key) -> tuple[()]:
        del params, key
        return ()

    def act(params: Params, nothing: tuple[()], timestep: TimeStep, key: Key) -> tuple[Array, tuple[()]]:
        del key
        return jnp.argmax(values(params, timestep.observation)).astype(jnp.int32), nothing

    return Actor(begin, act)
