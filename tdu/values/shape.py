"""The networks of an ensemble and how they are trained: shared by its dense and its one-hot form."""

from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp

from tdu.networks import torsos
from tdu.types import Array, EnvSpec, Optimiser
from tdu.values import layout as layouts

MAX_COUNT = 1 << 30
"""Learning steps are counted up to about here; `rebase` then lowers the count, and no number depends on it."""

P = TypeVar("P")


class EnsembleShape(NamedTuple):
    heads: int
    hidden_sizes: tuple[int, ...]
    prior_scale: float
    target_period: int
    double: bool
    optimiser: Optimiser
    """Other than `Adam`, it makes every ensemble dense."""
    torso: torsos.TorsoKind = "auto"
    standard: bool = False
    """Whether observations that are vectors are standardised (`values/standard.py`)."""
    layout: layouts.EnsembleKind = "networks"
    """One network for each head, or linear heads on a shared trunk."""
    unit_prior: bool = False
    """Whether a prior's features are scaled to length 1, so that its size does not depend on the observation's width."""

    def sizes(self, spec: EnvSpec, inputs: int) -> tuple[int, ...]:
        """Layer widths of a network, input and output included."""
        return (inputs, *self.hidden_sizes, spec.num_actions * self.heads_in(spec).heads_per_network)

    def heads_in(self, spec: EnvSpec) -> layouts.Layout:
        return layouts.make(self.layout, self.heads, spec.num_actions)

    def torso_for(self, spec: EnvSpec) -> torsos.Torso:
        return torsos.make(self.torso, spec)

    def copied(self, params: P, target: P, step: Array) -> tuple[P, Array]:
        """The target networks after learning step `step`, and whether they were copied."""
        copy = step % self.target_period == 0
        return jax.tree.map(lambda p, t: jnp.where(copy, p, t), params, target), copy

    def excess(self, step: Array) -> Array:
        """What `rebase` subtracts from the count of learning steps: a multiple of the target's period, or 0."""
        period = self.target_period
        return jnp.where(step >= MAX_COUNT, MAX_COUNT // 2 // period * period, 0)
