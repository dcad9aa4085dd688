"""What every learner does the same way: the metrics of a learning step, when there is none, and its greedy policy."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from tdu.types import Actor, Array, Key, Params, TimeStep

Metrics = dict[str, Array]
Update = Callable[[Any, Key], tuple[Any, Metrics]]


def metrics(
    loss: Array, *, bonus: Array | float = 0.0, largest_q: Array, largest_extra: Array | float = 0.0
) -> Metrics:
    """Metrics of one learning step.

    Args:
        loss: its loss.
        bonus: mean bonus of the batch.
        largest_q: largest absolute value, over the batch, of what learns the task.
        largest_extra: the most that this is paid for a step beside the reward.
    """
    numbers = {"loss": loss, "bonus": bonus, "updates": 1.0, "largest_q": largest_q, "largest_extra": largest_extra}
    return {name: jnp.asarray(number, jnp.float32) for name, number in numbers.items()}


def when(ready: Array, update: Update, state: Any, key: Key) -> tuple[Any, Metrics]:
    """`update`, or nothing where it is not yet time."""

    def wait(state: Any, key: Key) -> tuple[Any, Metrics]:
        del key
        return state, jax.tree.map(jnp.zeros_like, metrics(jnp.zeros(()), largest_q=jnp.zeros(())))

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
