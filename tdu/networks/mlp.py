"""Multi-layer perceptrons, and ensembles of them as stacked parameters.

A network is a list of layers with an activation between them. Weights are drawn from a normal distribution cut at two
standard deviations, with scale 1/√fan_in. Biases start at 0. This defines what a prior scale of λ means.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tdu.types import Array, Key


class Linear(NamedTuple):
    """A linear layer. Layers of stacked networks have a leading axis."""

    w: Array
    """[in, out]; of a convolution [height, width, in, out]."""
    b: Array
    """[out]."""


Layers = list[Linear]
Activation = Callable[[Array], Array]


def init_mlp(key: Key, sizes: Sequence[int]) -> Layers:
    """Parameters of one network with layer widths `sizes` (input and output included)."""
    keys = jax.random.split(key, len(sizes) - 1)
    return [init_layer(k, shape) for k, *shape in zip(keys, sizes[:-1], sizes[1:], strict=True)]


def init_layer(key: Key, shape: Sequence[int]) -> Linear:
    """A layer with weights of this shape; the fan-in is the product of all axes but the last."""
    w = jax.random.truncated_normal(key, -2.0, 2.0, shape) / jnp.sqrt(math.prod(shape[:-1]))
    return Linear(w, jnp.zeros(shape[-1]))


def init_ensemble(key: Key, members: int, init: Callable[[Key], Layers]) -> Layers:
    """Parameters of `members` independent networks, stacked on a leading axis."""
    return jax.vmap(init)(jax.random.split(key, members))


def relu(x: Array) -> Array:
    """max(x, 0), written as a selection: XLA fuses a maximum into the next matrix product, which then takes twice as long."""
    return jnp.where(x <= 0, 0.0, x)


def apply_mlp(layers: Layers, x: Array) -> Array:
    """Output [B, A] for flat inputs [B, D]."""
    return apply_rest(layers[1:], apply_first(layers, x))


def apply_first(layers: Layers, x: Array) -> Array:
    """The first layer's output [B, F] before its activation."""
    return x @ layers[0].w + layers[0].b


def apply_rest(rest: Layers, first: Array, activation: Activation = relu) -> Array:
    """Output [B, A] of the layers after the first, from the first layer's output [B, F] before its activation."""
    for layer in rest:
        first = linear(activation(first), layer.w) + layer.b
    return first


def apply_unit(rest: Layers, first: Array, activation: Activation = relu) -> Array:
    """`apply_rest` of a prior of unit size: √F·w·φ/|φ|, with φ [B, F] the last hidden layer and w the output weights.

    Over random w its standard deviation is nearly 1 for inputs of every width.
    """
    *hidden, output = rest
    features = activation(apply_rest(hidden, first, activation))
    length = jnp.sqrt(jnp.sum(jnp.square(features), axis=-1, keepdims=True))
    return features / jnp.maximum(length, _MIN_LENGTH) @ output.w * jnp.sqrt(output.w.shape[0])


_MIN_LENGTH = 1e-12


def scale_output(layers: Layers, factor: Array) -> Layers:
    """The network, or stacked networks, with the output multiplied by `factor`."""
    *rest, output = layers
    return [*rest, Linear(output.w * factor, output.b * factor)]


@jax.custom_vjp
def linear(x: Array, w: Array) -> Array:
    """x [B, I] @ w [I, O]."""
    return x @ w


def _linear_forward(x: Array, w: Array) -> tuple[Array, tuple[Array, Array]]:
    return linear(x, w), (x, w)


def _linear_backward(saved: tuple[Array, Array], g: Array) -> tuple[Array, Array]:
    x, w = saved
    if w.shape[1] > _NARROW:
        return g @ w.T, x.T @ g
    # On a CPU, XLA's matrix product of this shape takes several times as long as a weighted sum.
    return g @ w.T, jnp.stack([jnp.sum(x * g[:, a, None], axis=0) for a in range(w.shape[1])], axis=1)


_NARROW = 6
linear.defvjp(_linear_forward, _linear_backward)
