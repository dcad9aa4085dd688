"""The option `torso`: what a network computes of an observation before its hidden layers, and its activation.

Ensembles and R2D2 share this file. A new torso is a value of `kinds.TorsoKind`, a function that returns a `Torso`,
and a line in `make`.
"""

import functools
import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tdu.errors import UserError
from tdu.networks import inputs
from tdu.networks.kinds import TorsoKind
from tdu.networks.mlp import Activation, Layers, init_layer, init_mlp, relu
from tdu.types import Array, EnvSpec, Key


class Torso(NamedTuple):
    """The image layers of a network, which may be none, and the activation of its hidden layers."""

    shapes: tuple[tuple[int, ...], ...]
    """Shape of the weights of each image layer; the last axis is the number of filters."""
    width: int
    """Size D of the vector that the hidden layers take."""
    numbers: Callable[[Array], Array]
    """numbers(raw observations [...]) -> float32 images [..., H, W, C], or vectors [..., D] without image layers."""
    features: Callable[[Layers, Array], Array]
    """features(image layers, numbers) -> [..., D]."""
    activation: Activation = relu

    def init(self, key: Key, sizes: tuple[int, ...]) -> Layers:
        """Layers of a whole network: the image layers, then those of widths `sizes` (input and output included)."""
        image_layers = []
        for shape in self.shapes:
            key_layer, key = jax.random.split(key)
            image_layers.append(init_layer(key_layer, shape))
        return [*image_layers, *init_mlp(key, sizes)]

    def split(self, layers: Layers) -> tuple[Layers, Layers]:
        """A network's image layers and the others."""
        return layers[: len(self.shapes)], layers[len(self.shapes) :]


def make(kind: TorsoKind, spec: EnvSpec, *, filters: tuple[int, ...] | None = None, pixels: int = 0) -> Torso:
    """The torso for an environment. Refuses a kind that does not fit its observations or changes nothing.

    On images: strided convolutions with these `filters`, or without them a single 3×3 convolution. With `pixels`, images
    are first averaged over squares until a side has about that many.
    """
    of_image = None
    if inputs.is_image(spec):
        of_image = window(spec) if filters is None else strided(spec, filters, pixels)
    if kind == "conv" and of_image is None:
        raise UserError(
            f"torso conv needs images of height, width and channels; {spec.name} observes {spec.observation_shape}."
        )
    if kind == "mlp" and of_image is None:
        raise UserError(f"torso mlp changes nothing on {spec.name}, which does not observe images; leave it out.")
    torso = vector(spec) if of_image is None or kind == "mlp" else of_image
    return torso._replace(activation=layer_norm) if kind == "layer_norm" else torso


def vector(spec: EnvSpec) -> Torso:
    width = spec.num_states or math.prod(spec.observation_shape)
    return Torso((), width, partial(inputs.flat, spec), lambda layers, x: x)


def layer_norm(x: Array) -> Array:
    """ReLU of x [..., F] with mean 0 and variance 1 over F (Ba et al., 2016); without trained scale and shift."""
    centred = x - jnp.mean(x, axis=-1, keepdims=True)
    return relu(centred * jax.lax.rsqrt(jnp.mean(jnp.square(centred), axis=-1, keepdims=True) + _LAYER_NORM_EPS))


_LAYER_NORM_EPS = 1e-6


def window(spec: EnvSpec) -> Torso:
    """One 3×3 convolution with 16 filters, as a matrix product: fast for a stack of networks."""
    height, width, channels = spec.observation_shape

    def features(layers: Layers, x: Array) -> Array:
        (layer,) = layers
        shifted = [x[..., i : height - 2 + i, j : width - 2 + j, :] for i in range(3) for j in range(3)]
        y = jax.nn.relu(jnp.concatenate(shifted, axis=-1) @ layer.w + layer.b)
        return y.reshape(*y.shape[:-3], -1)

    shape = (9 * channels, _WINDOW_FILTERS)
    return Torso((shape,), (height - 2) * (width - 2) * _WINDOW_FILTERS, partial(inputs.scaled, spec), features)


_WINDOW_FILTERS = 16


def strided(spec: EnvSpec, filters: tuple[int, ...], pixels: int) -> Torso | None:
    """DQN's strided convolutions, as many as fit the image; None where none fits."""
    height, width, channels = spec.observation_shape
    shrink = max(min(height, width) // pixels, 1) if pixels else 1
    height, width = height // shrink, width // shrink
    windows: list[tuple[int, int]] = []
    shapes: list[tuple[int, ...]] = []
    for (size, stride), outputs in zip(_windows(min(height, width)), filters, strict=False):
        if min(height, width) < size:
            break
        windows.append((size, stride))
        shapes.append((size, size, channels, outputs))
        height, width, channels = (height - size) // stride + 1, (width - size) // stride + 1, outputs
    if not shapes:
        return None
    flat_width = height * width * channels

    def features(layers: Layers, x: Array) -> Array:
        leading = x.shape[:-3]
        x = _average_squares(x.reshape(-1, *x.shape[-3:]), shrink)
        for layer, (_, stride) in zip(layers, windows, strict=True):
            x = jax.lax.conv_general_dilated(
                x, layer.w, (stride, stride), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
            x = jax.nn.relu(x + layer.b)
        return x.reshape(*leading, flat_width)

    return Torso(tuple(shapes), flat_width, partial(inputs.scaled, spec), features)


def _windows(side: int) -> tuple[tuple[int, int], ...]:
    """(window, stride) of each convolution by the image's shorter side: DQN's for 84 pixels, smaller ones below."""
    if side >= 64:
        return (8, 4), (4, 2), (3, 1)
    if side >= 32:
        return (6, 3), (4, 2), (3, 1)
    return (3, 1), (3, 1)


def _average_squares(x: Array, side: int) -> Array:
    """Images [N, H, W, C] averaged over squares of `side` pixels; a remainder at the edges is cut off."""
    if side == 1:
        return x
    height, width = (length // side * side for length in x.shape[1:3])
    x = x[:, :height, :width]
    parts = [x[:, i::side, j::side] for i in range(side) for j in range(side)]
    return functools.reduce(jnp.add, parts) / side**2
