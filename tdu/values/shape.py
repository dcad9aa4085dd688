"""What the dense and the one-hot form of an ensemble have to know, and what they share."""

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from tdu import adam as adams
from tdu.errors import UserError
from tdu.networks import inputs
from tdu.types import Array, EnvSpec
from tdu.values import layout as layouts

FAR = 1 << 30
"""Counters of learning steps are brought back from here on: nothing depends on how many there were before."""


class Shape(NamedTuple):
    """The networks of an ensemble and how they are trained."""

    heads: int
    hidden_sizes: tuple[int, ...]
    prior_scale: float
    target_period: int
    double: bool
    adam: adams.Adam
    torso: Literal["auto", "mlp", "conv"] = "auto"
    standard: bool = False
    """Whether observations that are vectors of numbers are brought into standard form."""
    layout: layouts.Kind = "networks"
    """One network for each head, or linear heads on a shared trunk."""
    unit_prior: bool = False
    """Whether a prior's features are scaled to length 1, so that its size does not depend on the observation's width."""

    def sizes(self, spec: EnvSpec) -> Sequence[int]:
        """Layer widths of a network, input and output included."""
        outputs = spec.num_actions * self.heads_in(spec).heads_per_network
        return (spec.num_states or math.prod(spec.observation_shape), *self.hidden_sizes, outputs)

    def heads_in(self, spec: EnvSpec) -> layouts.Layout:
        """How the heads lie in networks."""
        return layouts.make(self.layout, self.heads, spec.num_actions)

    def looks_at_images(self, spec: EnvSpec) -> bool:
        """Whether there are windows over an image before the hidden layers."""
        image = inputs.is_image(spec)
        if self.torso == "conv" and not image:
            raise UserError(
                f"torso conv needs images of height, width and channels; {spec.name} observes {spec.observation_shape}."
            )
        if self.torso == "mlp" and not image:
            raise UserError(f"torso mlp changes nothing on {spec.name}, which does not observe images; leave it out.")
        return image and self.torso != "mlp"

    def copied(self, params: Any, target: Any, step: Array) -> tuple[Any, Array]:
        """The target networks after learning step `step`, and whether they were copied."""
        copy = step % self.target_period == 0
        return jax.tree.map(lambda p, t: jnp.where(copy, p, t), params, target), copy

    def excess(self, step: Array) -> Array:
        """How far the count of learning steps can go back, where it has come far; the target's period does not notice."""
        period = self.target_period
        return jnp.where(step >= FAR, FAR // 2 // period * period, 0)
