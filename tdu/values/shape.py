"""The networks of an ensemble and how they are trained, for its dense and its one-hot form.

The heads are one network each, or linear heads on one shared trunk: Q_k(s) = W_k·h(s) + b_k + λ·P_k(s), where h is the last
hidden layer of one network, and the priors P_k are linear heads on a second, frozen trunk. A head's own weights have the
gradient of its own loss. The trunk has the mean of the heads' gradients, as in Bootstrapped DQN (Osband et al., 2016).
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp

from tdu.networks import torsos
from tdu.networks.kinds import EnsembleKind, TorsoKind
from tdu.networks.mlp import Layers, Linear, init_ensemble
from tdu.types import Array, EnvSpec, Key, Optimiser, Weights

P = TypeVar("P")
Apply = Callable[[Layers, Array], Array]

MAX_COUNT = 1 << 30
"""Learning steps are counted up to about here; `rebase` then lowers the count, and no number depends on it."""

PLAIN = Weights(
    init=lambda key, networks: (),
    trainable=lambda params: params,
    trainable_rows=lambda rows: rows,
    draw=lambda noise, step, stream: (),
    drawn=lambda trained, draw: trained,
    drawn_rows=lambda rows, states, draw: rows,
)
"""The weights themselves are trained. Noisy networks train more (`networks/noisy.py`)."""

FOLDED = PLAIN._replace(trainable=lambda params: jax.tree.map(jnp.abs, params), trainable_rows=jnp.abs)
"""The weights themselves are trained, and their initial values are not negative."""

ONES = PLAIN._replace(trainable_rows=jnp.ones_like, drawn=lambda trained, draw: jax.tree.map(jnp.zeros_like, trained))
"""For a one-hot ensemble without hidden layers: rows start at 1, and the bias is always 0."""


class Layout(NamedTuple):
    """The functions that depend on the layout. `H` heads, `R` networks."""

    networks: int
    """R: H, or 1 for a shared trunk."""
    heads_per_network: int
    init: Callable[[Key, Callable[[Key], Layers]], Layers]
    """init(key, init_one) -> the networks' layers, stacked on a leading axis where each head has a network."""
    apply: Callable[[Apply], Apply]
    """apply(one)(layers, x [..., D]) -> [H, ..., A], where one(layers of one network, x) is that network's output."""
    apply_rest: Callable[[Apply, Layers, Array, Array], Array]
    """apply_rest(one, rest, rows [B, R, F], bias) -> [H, B, A], from the first layer's rows."""
    head: Callable[[Layers, Array], Layers]
    """head(layers, k) -> the layers of one head's network."""
    trunk_mean: Callable[[Layers], Layers] | None
    """trunk_mean(gradient of the heads' summed loss) -> the same, the trunk's layers divided by H; None without a trunk."""


def _separate(heads: int) -> Layout:
    def apply_rest(one: Apply, rest: Layers, rows: Array, bias: Array) -> Array:
        return jax.vmap(one)(rest, jnp.swapaxes(rows, 0, 1) + bias[:, None])

    return Layout(
        networks=heads,
        heads_per_network=1,
        init=lambda key, init_one: init_ensemble(key, heads, init_one),
        apply=lambda one: jax.vmap(one, in_axes=(0, None)),
        apply_rest=apply_rest,
        head=lambda layers, k: jax.tree.map(lambda x: x[k], layers),
        trunk_mean=None,
    )


def _shared(heads: int, actions: int) -> Layout:
    def split(outputs: Array) -> Array:
        """[..., H·A] -> [H, ..., A]."""
        return jnp.moveaxis(outputs.reshape(*outputs.shape[:-1], heads, actions), -2, 0)

    def head(layers: Layers, k: Array) -> Layers:
        *trunk, last = layers
        return [*trunk, Linear(last.w.reshape(-1, heads, actions)[:, k], last.b.reshape(heads, actions)[k])]

    def trunk_mean(gradient: Layers) -> Layers:
        *trunk, last = gradient
        return [*jax.tree.map(lambda g: g / heads, trunk), last]

    return Layout(
        networks=1,
        heads_per_network=heads,
        init=lambda key, init_one: init_one(key),
        apply=lambda one: lambda layers, x: split(one(layers, x)),
        apply_rest=lambda one, rest, rows, bias: split(one(rest, rows[:, 0] + bias)),
        head=head,
        trunk_mean=trunk_mean,
    )


class EnsembleShape(NamedTuple):
    heads: int
    hidden_sizes: tuple[int, ...]
    prior_scale: float
    target_period: int
    double: bool
    optimiser: Optimiser
    """Other than `Adam`, it makes every ensemble dense."""
    torso: TorsoKind = "auto"
    standard: bool = False
    """Whether observations that are vectors are standardised (`values/standard.py`)."""
    layout: EnsembleKind = "networks"
    """One network for each head, or linear heads on a shared trunk."""
    unit_prior: bool = False
    """Whether a prior's features are scaled to length 1, so that its size does not depend on the observation's width."""

    def sizes(self, spec: EnvSpec, inputs: int) -> tuple[int, ...]:
        """Layer widths of a network, input and output included."""
        return (inputs, *self.hidden_sizes, spec.num_actions * self.heads_in(spec).heads_per_network)

    def heads_in(self, spec: EnvSpec) -> Layout:
        return _separate(self.heads) if self.layout == "networks" else _shared(self.heads, spec.num_actions)

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
