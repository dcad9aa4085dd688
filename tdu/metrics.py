"""What a learner reports: numbers by name, and how those of many learning steps become one.

A learning step returns a dict of scalars. `updates` is 1 where the step was taken and 0 where the learner waited. All other
names are declared in `Reducers`. The same functions serve JAX inside compiled code and NumPy outside.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

EitherArray = Any  # JAX's in compiled code, NumPy's or Python's elsewhere
Metrics = dict[str, EitherArray]
"""Scalars by name, float32: of one learning step, or the totals of several."""

UPDATES = "updates"


class Reducers(NamedTuple):
    """The metrics of a learner, by how they are reduced over learning steps."""

    mean: tuple[str, ...] = ("bonus", "loss")
    maximum: tuple[str, ...] = ("largest_q",)

    def zeros(self, shape: tuple[int, ...] = ()) -> Metrics:
        """The totals of no step."""
        return {name: np.zeros(shape, np.float32) for name in (UPDATES, *self.mean, *self.maximum)}

    def add(self, totals: Metrics, metrics: Metrics) -> Metrics:
        """The totals of both; `metrics` may be those of one step or of several."""
        sums = {name: totals[name] + metrics[name] for name in (UPDATES, *self.mean)}
        return sums | {name: _maximum(totals[name], metrics[name]) for name in self.maximum}

    def summary(self, totals: Metrics) -> Metrics:
        """The value of every metric over the steps of the totals; 0 where there were none."""
        count = _maximum(totals[UPDATES], np.float32(1))
        means = {name: _quotient(totals[name], count) for name in self.mean}
        return means | {name: totals[name] for name in self.maximum}


STANDARD = Reducers()
"""The metrics that every learner has and log.csv needs."""


def on_host(metrics: Metrics) -> Metrics:
    """The same numbers as NumPy's."""
    return {name: np.asarray(x) for name, x in metrics.items()}


def _maximum(a: EitherArray, b: EitherArray) -> EitherArray:
    return np.maximum(a, b) if _in_numpy(a) and _in_numpy(b) else jnp.maximum(a, b)


def _quotient(a: EitherArray, b: EitherArray) -> EitherArray:
    """a / b. XLA would pick division or this product by the shapes around it; fixed here, logs have the same last digit."""
    return a / b if _in_numpy(a) else a * (1.0 / b)


def _in_numpy(x: EitherArray) -> bool:
    return isinstance(x, np.ndarray | np.generic)
