"""A first layer for one-hot observations whose cost per step does not grow with the number of states.

A one-hot input picks a row of the first layer's weights, and a batch of B transitions gives a gradient to at most B rows.
Adam moves the other rows too, but in a way known in advance. A row that was last touched at Adam's step t₀, with moments
m and v, has moved by step t by

    −lr · m / (√v + ε′) · D(t₀, t),    D(t₀, t) = D∞(t₀) − r^(t−t₀) · D∞(t),
    D∞(t) = r · (c_{t+1} + D∞(t+1)),   r = b₁/√b₂,   c_s = √(1−b₂^s) / (1−b₁^s),

so its present value needs no loop, only t₀. The one inexactness is Adam's ε while the row rests (ε′ stands in for it).
The target network is copied on write: a row untouched since the last copy, at step T, has its target value by the same
formula; the first touch after T saves that value beside the row.

Everything about a row lies side by side in one array `rows [S + 1, 4, H·F]` (weight, m, v, saved target), read once and
written once per step, so that XLA updates it in place. Row S is the all-zero observation and stays zero.
"""

from functools import lru_cache
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from tdu.adam import Adam, move, power
from tdu.types import Array

_HORIZON = 1 << 15
"""c_s is 1 to float32 from here on."""


class Table(NamedTuple):
    """The layer's whole state."""

    rows: Array
    """[S + 1, 4, W]: weight, first moment, second moment, saved target."""
    touched: Array
    """[S + 1], Adam's step at which the row last had a gradient; 0 if never."""
    copied: Array
    """Adam's step of the last target copy."""


class Read(NamedTuple):
    """A batch of rows as they were read, to be written back by `write`."""

    rows: Array
    touched: Array


def init(weights: Array) -> Table:
    """A table from initial weights [S, W]; targets start as a copy."""
    weights = jnp.concatenate([weights, jnp.zeros_like(weights[:1])])
    zeros = jnp.zeros_like(weights)
    return Table(
        rows=jnp.stack([weights, zeros, zeros, weights], axis=1),
        touched=jnp.zeros(weights.shape[0], jnp.int32),
        copied=jnp.zeros((), jnp.int32),
    )


def read(table: Table, states: Array) -> Read:
    """The rows of `states` [B]."""
    return Read(table.rows[states], table.touched[states])


def brought_to(adam: Adam, rows: Array, touched: Array, step: Array) -> Array:
    """Weights [B, W] of rows [B, 4, W] as Adam has moved them by `step`, which is not before `touched` [B]."""
    w, m, v = rows[:, 0], rows[:, 1], rows[:, 2]
    eps = adam.eps * jnp.sqrt(1.0 - power(adam.b2, touched + 9))
    moved = adam.learning_rate * _distance(adam, touched, step)
    return w - m / (jnp.sqrt(v) + eps[:, None]) * moved[:, None]


def target(adam: Adam, found: Read, copied: Array) -> Array:
    """Target weights [B, W] of rows that were read."""
    saved = found.rows[:, 3]
    resting = brought_to(adam, found.rows, jnp.minimum(found.touched, copied), copied)
    return jnp.where((found.touched > copied)[:, None], saved, resting)


def write(adam: Adam, table: Table, *, states: Array, before: Read, now: Array, gradient: Array, step: Array) -> Table:
    """Makes Adam's `step` on the rows of `states` [B] and writes them back.

    Args:
        adam: its constants.
        table: the layer.
        states: rows to write; one that appears twice gets the sum of its gradients.
        before: the rows as they were read.
        now: their weights brought to `step - 1`.
        gradient: [B, W], one per entry of `states`.
        step: counted from 1.
    """
    last = table.rows.shape[0] - 1
    same = (states[:, None] == states[None, :]) & (states != last)[None, :]
    gradient = same.astype(gradient.dtype) @ gradient
    rested = step - before.touched
    m = power(adam.b1, rested)[:, None] * before.rows[:, 1] + (1 - adam.b1) * gradient
    v = power(adam.b2, rested)[:, None] * before.rows[:, 2] + (1 - adam.b2) * jnp.square(gradient)
    w = now - move(adam, m, v, step)
    return table._replace(
        rows=table.rows.at[states].set(jnp.stack([w, m, v, target(adam, before, table.copied)], axis=1)),
        touched=table.touched.at[states].set(step),
    )


def rebased(table: Table, by: Array) -> Table:
    """The same layer with every step counted `by` less.

    From the horizon on, only differences of steps matter. A row that was last touched before it has long come to rest at a
    place that depends on when that was, so its own step stays.
    """

    def back(step: Array) -> Array:
        return jnp.where((by > 0) & (step > _HORIZON), jnp.maximum(step - by, _HORIZON), step)

    return table._replace(touched=back(table.touched), copied=back(table.copied))


def _distance(adam: Adam, start: Array, end: Array) -> Array:
    """D(start, end)."""
    to_infinity = jnp.asarray(_distance_table(adam), jnp.result_type(float))
    ratio = adam.b1 / np.sqrt(adam.b2)
    from_start = to_infinity[jnp.minimum(start, _HORIZON)]
    from_end = to_infinity[jnp.minimum(end, _HORIZON)]
    return from_start - power(ratio, end - start) * from_end


@lru_cache(maxsize=8)
def _distance_table(adam: Adam) -> np.ndarray:
    """D∞(t) for t = 0 … _HORIZON, in float64; programs need it several times over."""
    ratio = adam.b1 / np.sqrt(adam.b2)
    s = np.arange(1, _HORIZON + 1, dtype=np.float64)
    c = np.sqrt(1 - adam.b2**s) / (1 - adam.b1**s)
    table = np.empty(_HORIZON + 1)
    table[-1] = ratio / (1 - ratio)
    for t in range(_HORIZON - 1, -1, -1):
        table[t] = ratio * (c[t] + table[t + 1])
    return table
