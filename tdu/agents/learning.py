"""What every learner does the same way: the metrics of a learning step, and when there is none."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from tdu.types import Array, Key

Metrics = dict[str, Array]
Update = Callable[[Any, Key], tuple[Any, Metrics]]


def metrics(loss: Array, bonus: Array | float = 0.0) -> Metrics:
    """Metrics of one learning step."""
    return {"loss": loss, "bonus": jnp.asarray(bonus, jnp.float32), "updates": jnp.ones(())}


def when(ready: Array, update: Update, state: Any, key: Key) -> tuple[Any, Metrics]:
    """`update`, or nothing where it is not yet time."""

    def wait(state: Any, key: Key) -> tuple[Any, Metrics]:
        del key
        return state, {"loss": jnp.zeros(()), "bonus": jnp.zeros(()), "updates": jnp.zeros(())}

    return jax.lax.cond(ready, update, wait, state, key)
