"""How the heads of an ensemble are laid out in networks: one network for each head, or linear heads on one shared trunk.

With a shared trunk, Q_k(s) = W_k·h(s) + b_k + λ·P_k(s). h is the last hidden layer of one network, and the priors P_k are
linear heads on a second, frozen trunk. A head's own weights have the gradient of its own loss. The trunk has the mean of the
heads' gradients, as in Bootstrapped DQN (Osband et al., 2016).
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from tdu.networks.mlp import Layers, Linear, init_ensemble
from tdu.types import Array, Key

EnsembleKind = Literal["networks", "heads"]
Apply = Callable[[Layers, Array], Array]


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


def make(kind: EnsembleKind, heads: int, actions: int) -> Layout:
    return _separate(heads) if kind == "networks" else _shared(heads, actions)


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
