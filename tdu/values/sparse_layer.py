"""A first layer for one-hot observations whose cost per step does not grow with the number of states.

A one-hot input picks a row of the first layer's weights, and a batch of B transitions gives a gradient to at most B rows.
Adam moves the other rows too, by an amount known in advance. A row that was last touched at Adam's step t₀, with moments
m and v, has moved by step t by

    −lr · m / (√v + ε′) · D(t₀, t),    D(t₀, t) = D∞(t₀) − r^(t−t₀) · D∞(t),
    D∞(t) = r · (c_{t+1} + D∞(t+1)),   r = b₁/√b₂,   c_s = √(1−b₂^s) / (1−b₁^s),

so its present value needs t₀ and no loop. One thing is inexact: ε′ is Adam's ε of step t₀ until the row is touched again.
The target network is copied on write. A row that is untouched since the last copy, at step T, has its target value by the
same formula. The first touch after T saves that value with the row.

One array holds everything about a row: its weight, u = m / (√v + ε√c₂), √v + ε√c₂ and the saved target. It is read and
written once per step, so that XLA updates it in place. Reading then needs neither a root nor a division, and ε√c₂ follows
from t₀. Row S is the all-zero observation and stays zero. Rows keep the shape [R, F] of R networks, for which XLA generates
faster loops than for a flat row.
"""

from functools import lru_cache
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from tdu.adam import Adam, power, rate
from tdu.types import Array

_HORIZON = 1 << 15
"""c_s is 1 in float32 from this step on."""


class RowTable(NamedTuple):
    """The layer's whole state."""

    rows: Array
    """[S + 1, 4, R, F]: weight, m / (√v + ε), √v + ε, saved target."""
    touched: Array
    """[S + 1], Adam's step at which the row last had a gradient; 0 if never."""
    copied: Array
    """Adam's step of the last target copy."""


class Read(NamedTuple):
    """A batch of rows as they are stored, [B, R, F] each; `touched` is [B]."""

    weight: Array
    direction: Array
    """m / (√v + ε)."""
    root: Array
    """√v + ε."""
    saved: Array
    touched: Array


def init(weights: Array) -> RowTable:
    """A table from initial weights [S, R, F]; targets start as a copy."""
    weights = jnp.concatenate([weights, jnp.zeros_like(weights[:1])])
    zeros = jnp.zeros_like(weights)
    return RowTable(
        rows=jnp.stack([weights, zeros, zeros, weights], axis=1),
        touched=jnp.zeros(weights.shape[0], jnp.int32),
        copied=jnp.zeros((), jnp.int32),
    )


def read(table: RowTable, states: Array) -> Read:
    *outer, networks, features = table.rows.shape
    flat = table.rows.reshape(*outer, -1)  # reads a row in one piece

    def part(k: int) -> Array:
        return flat.at[states, k].get(mode="promise_in_bounds").reshape(-1, networks, features)

    return Read(part(0), part(1), part(2), part(3), table.touched[states])


def catch_up(adam: Adam, row: Read, step: Array) -> Array:
    """Weights [B, R, F] of rows with all of Adam's updates up to `step`."""
    moved = adam.learning_rate * _distance(adam, row.touched, step)
    return row.weight - row.direction * _each(moved)


def network(adam: Adam, table: RowTable, number: Array, step: Array) -> Array:
    """All weights [S + 1, F] of one network with all of Adam's updates up to `step`."""
    moved = adam.learning_rate * _distance(adam, table.touched, step)
    weight, direction = table.rows[:, 0, number], table.rows[:, 1, number]
    return weight - direction * moved[:, None]


def target(adam: Adam, row: Read, copied: Array) -> Array:
    """Target weights [B, R, F] of rows."""
    untouched = catch_up(adam, row._replace(touched=jnp.minimum(row.touched, copied)), copied)
    return jnp.where(_each(row.touched > copied), row.saved, untouched)


def distinct(states: Array) -> tuple[Array, Array]:
    """Whether each of `states` [B] is the first of its equals, [B], and sums [B, B].

    The product of sums with numbers [B, …] has the sum over equal states at the first of them, and 0 elsewhere.
    """
    same = states[:, None] == states[None, :]
    earlier = np.tri(states.shape[0], k=-1, dtype=bool)
    first = ~jnp.any(same & earlier, axis=1)  # argmax gives the same and takes three times as long
    return first, (same & first[:, None]).astype(jnp.result_type(float))


def write(
    adam: Adam, table: RowTable, *, states: Array, first: Array, before: Read, now: Array, gradient: Array, step: Array
) -> RowTable:
    """Applies Adam's step number `step`, counted from 1, to the rows of `states` [B] and writes them back.

    `before` are the rows as they are stored, and `now` their weights at `step - 1`. Of equal states one is written, the
    `first` [B]; `gradient` [B, R, F] has their sum there.
    """
    last = table.rows.shape[0] - 1
    age = step - before.touched
    m = _each(power(adam.b1, age)) * (before.direction * before.root) + (1 - adam.b1) * gradient
    v = _each(power(adam.b2, age)) * jnp.square(before.root - _each(_epsilon(adam, before.touched)))
    root = jnp.sqrt(v + (1 - adam.b2) * jnp.square(gradient)) + _epsilon(adam, step)
    direction = m / root
    weight = now - rate(adam, step) * direction
    rows = jnp.stack([weight, direction, root, target(adam, before, table.copied)], axis=1)
    places = jnp.where(first & (states != last), states, last + 1)
    return table._replace(
        rows=table.rows.at[places].set(rows, mode="drop"), touched=table.touched.at[places].set(step, mode="drop")
    )


def rebased(table: RowTable, by: Array) -> RowTable:
    """The same layer with every step counted `by` less.

    From the horizon on, only differences of steps matter. A row that was last touched before the horizon keeps its step: its
    weight no longer changes, and its value depends on that step.
    """

    def back(step: Array) -> Array:
        return jnp.where((by > 0) & (step > _HORIZON), jnp.maximum(step - by, _HORIZON), step)

    return table._replace(touched=back(table.touched), copied=back(table.copied))


def _each(numbers: Array) -> Array:
    """One number per row, [B], as [B, 1, 1]."""
    return numbers[:, None, None]


def _epsilon(adam: Adam, step: Array) -> Array:
    """Adam's ε√c₂ at `step`."""
    return adam.eps * jnp.sqrt(1 - power(adam.b2, step))


def _distance(adam: Adam, start: Array, end: Array) -> Array:
    """D(start, end)."""
    to_infinity = jnp.asarray(_distance_table(adam), jnp.result_type(float))
    ratio = adam.b1 / np.sqrt(adam.b2)
    from_start = to_infinity[jnp.minimum(start, _HORIZON)]
    from_end = to_infinity[jnp.minimum(end, _HORIZON)]
    return from_start - power(ratio, end - start) * from_end


@lru_cache(maxsize=8)
def _distance_table(adam: Adam) -> np.ndarray:
    """D∞(t) for t = 0 … _HORIZON, in float64; cached, because one program uses it several times."""
    ratio = adam.b1 / np.sqrt(adam.b2)
    s = np.arange(1, _HORIZON + 1, dtype=np.float64)
    c = np.sqrt(1 - adam.b2**s) / (1 - adam.b1**s)
    table = np.empty(_HORIZON + 1)
    table[-1] = ratio / (1 - ratio)
    for t in range(_HORIZON - 1, -1, -1):
        table[t] = ratio * (c[t] + table[t + 1])
    return table
