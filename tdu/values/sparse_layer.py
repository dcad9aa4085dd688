"""A first layer for one-hot observations whose cost per step does not grow with the number of states.

A one-hot input picks a row of the first layer's weights, and a batch of B transitions gives a gradient to at most B rows.
Adam moves the other rows too, but in a way known in advance. A row that was last touched at Adam's step t₀, with moments
m and v, has moved by step t by

    −lr · m / (√v + ε′) · D(t₀, t),    D(t₀, t) = D∞(t₀) − r^(t−t₀) · D∞(t),
    D∞(t) = r · (c_{t+1} + D∞(t+1)),   r = b₁/√b₂,   c_s = √(1−b₂^s) / (1−b₁^s),

so its present value needs no loop, only t₀. The one inexactness is Adam's ε while the row rests: ε′ is what it was at t₀.
The target network is copied on write: a row untouched since the last copy, at step T, has its target value by the same
formula; the first touch after T saves that value beside the row.

A row is kept as its weight, its direction m / (√v + ε′), its scale √v + ε′ and its saved target. The direction is what
every reading needs, so that reading costs no root and no division; m and v follow from both.

Everything about a row lies side by side in one array `rows [S + 1, 4, H·F]`. It is read slot by slot, inside the kernels
that need a slot, and written slot by slot, each from the array as the slot before it left it: there is never a reading of
an older version, and XLA updates the array in place. Row S is the all-zero observation and stays zero.
"""

from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tdu.adam import Adam, power, rate, root
from tdu.types import Array

_HORIZON = 1 << 15
"""c_s is 1 to float32 from here on."""


_WEIGHT, _DIRECTION, _SCALE, _SAVED = range(4)


class Table(NamedTuple):
    """The layer's whole state."""

    rows: Array
    """[S + 1, 4, W]: weight, direction, scale, saved target."""
    touched: Array
    """[S + 1], Adam's step at which the row last had a gradient; 0 if never."""
    copied: Array
    """Adam's step of the last target copy."""


def init(weights: Array) -> Table:
    """A table from initial weights [S, W]; targets start as a copy."""
    weights = jnp.concatenate([weights, jnp.zeros_like(weights[:1])])
    zeros = jnp.zeros_like(weights)
    return Table(
        rows=jnp.stack([weights, zeros, zeros, weights], axis=1),
        touched=jnp.zeros(weights.shape[0], jnp.int32),
        copied=jnp.zeros((), jnp.int32),
    )


def brought_to(adam: Adam, table: Table, states: Array, step: Array) -> Array:
    """Weights [B, W] of `states` [B] as Adam has moved them by `step`, which is not before they were touched."""
    return _moved(adam, table, states, table.touched[states], step)


def target(adam: Adam, table: Table, states: Array) -> Array:
    """Target weights [B, W] of `states` [B]."""
    touched = table.touched[states]
    resting = _moved(adam, table, states, jnp.minimum(touched, table.copied), table.copied)
    return jnp.where((touched > table.copied)[:, None], _slot(table.rows, states, _SAVED), resting)


def _moved(adam: Adam, table: Table, states: Array, start: Array, end: Array) -> Array:
    distance = adam.learning_rate * _distance(adam, start, end)
    return _slot(table.rows, states, _WEIGHT) - distance[:, None] * _slot(table.rows, states, _DIRECTION)


def _slot(rows: Array, states: Array, slot: int) -> Array:
    return rows.reshape(-1, rows.shape[-1])[4 * states + slot]


def one_head(adam: Adam, table: Table, step: Array, *, first: Array, width: int) -> Array:
    """Weights [S + 1, width] of every state as they are at `step`, from column `first` on."""
    rows = jax.lax.dynamic_slice_in_dim(table.rows[:, : _DIRECTION + 1], first, width, axis=2)
    distance = adam.learning_rate * _distance(adam, table.touched, step)
    return rows[:, _WEIGHT] - distance[:, None] * rows[:, _DIRECTION]


def write(adam: Adam, table: Table, *, states: Array, gradient: Array, step: Array) -> Table:
    """Makes Adam's `step` on the rows of `states`.

    Args:
        adam: its constants.
        table: the layer.
        states: [B], none twice; what is not a state but a larger number is left out.
        gradient: [B, W], one for each of them.
        step: counted from 1.
    """
    nowhere = table.rows.shape[0]
    states = jnp.where(states == nowhere - 1, nowhere, states)
    touched, rows = table.touched[states], table.rows
    rested = step - touched

    eps_before, eps = adam.eps * root(adam, touched), adam.eps * root(adam, step)
    before = _slot(rows, states, _SCALE)
    m = power(adam.b1, rested)[:, None] * (before * _slot(rows, states, _DIRECTION))
    v = power(adam.b2, rested)[:, None] * jnp.square(before - eps_before[:, None])
    scale = jnp.sqrt(v + (1 - adam.b2) * jnp.square(gradient)) + eps
    direction = (m + (1 - adam.b1) * gradient) / scale

    def put(rows: Array, slot: int, where: Array, new: Array) -> Array:
        flat = rows.reshape(-1, rows.shape[-1])
        return flat.at[4 * where + slot].set(new, mode="drop", unique_indices=True).reshape(rows.shape)

    # XLA orders by data alone: the first writing has to wait for what all reading leads to, though it does not need it.
    there = direction[:, 0] == direction[:, 0]
    unsaved = jnp.where((touched <= table.copied) & there, states, nowhere)
    rows = put(rows, _SAVED, unsaved, _moved(adam, table, states, jnp.minimum(touched, table.copied), table.copied))
    weight = _moved(adam, table._replace(rows=rows), states, touched, step - 1) - rate(adam, step) * direction
    rows = put(rows, _WEIGHT, states, weight)
    rows = put(rows, _DIRECTION, states, direction)
    rows = put(rows, _SCALE, states, scale)
    return table._replace(rows=rows, touched=table.touched.at[states].set(step, mode="drop", unique_indices=True))


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
