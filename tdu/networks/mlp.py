"""Multi-layer perceptrons, with a small convolution before them for images, and ensembles of them as stacked parameters.

A network is a list of layers `(w [in, out], b [out])` with ReLU between them. Weights are drawn from a normal
distribution cut at two standard deviations with scale 1/√fan_in, biases are 0: this defines what a prior scale of λ means.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp

from tdu.types import Array, Key

Layer = tuple[Array, Array]
Layers = list[Layer]


def init_mlp(key: Key, sizes: Sequence[int]) -> Layers:
    """Parameters of one network with layer widths `sizes` (input and output included)."""
    keys = jax.random.split(key, len(sizes) - 1)
    return [_init_layer(k, i, o) for k, i, o in zip(keys, sizes[:-1], sizes[1:], strict=True)]


def apply_mlp(params: Layers, x: Array, rest_of: Callable[[Layers, Array], Array] | None = None) -> Array:
    """Output [B, A] for flat inputs [B, D]; `rest_of` replaces `apply_rest`."""
    (w, b), *rest = params
    return (rest_of or apply_rest)(rest, x @ w + b)


def apply_rest(rest: Layers, first: Array) -> Array:
    """The layers after the first, [B, A], given the first one's output before its ReLU, [B, F]."""
    for w, b in rest:
        first = linear(relu(first), w) + b
    return first


def apply_unit(rest: Layers, first: Array) -> Array:
    """The same for a prior of unit size: √F·w·φ/|φ| with φ [B, F] the last hidden layer and w the output weights.

    Over random w its standard deviation is nearly 1 for every input, whatever the input's width.
    """
    *hidden, (w, _) = rest
    features = relu(apply_rest(hidden, first))
    length = jnp.sqrt(jnp.sum(jnp.square(features), axis=-1, keepdims=True))
    return features / jnp.maximum(length, _SHORTEST) @ w * jnp.sqrt(w.shape[0])


_SHORTEST = 1e-12


def times(params: Layers, by: Array) -> Layers:
    """The network, or stacked ones, with its output multiplied."""
    *rest, (w, b) = params
    return [*rest, (w * by, b * by)]


def relu(x: Array) -> Array:
    """max(x, 0), not written as a maximum: XLA draws one into the next matrix product, which then takes twice as long."""
    return jnp.where(x <= 0, 0.0, x)


def init_image(key: Key, image: tuple[int, int, int], hidden: Sequence[int], outputs: int) -> Layers:
    """Parameters of a network that looks at images [H, W, C] through 3×3 windows before its hidden layers."""
    key_windows, key_rest = jax.random.split(key)
    height, width, channels = image
    windows = _init_layer(key_windows, 9 * channels, _FILTERS)
    return [windows, *init_mlp(key_rest, ((height - 2) * (width - 2) * _FILTERS, *hidden, outputs))]


def apply_image(params: Layers, x: Array, rest_of: Callable[[Layers, Array], Array] | None = None) -> Array:
    """Output [..., A] for images [..., H, W, C]; `rest_of` as in `apply_mlp`."""
    (w, b), *rest = params
    height, width = x.shape[-3:-1]
    shifted = [x[..., i : height - 2 + i, j : width - 2 + j, :] for i in range(3) for j in range(3)]
    seen = jax.nn.relu(jnp.concatenate(shifted, axis=-1) @ w + b)
    return apply_mlp(rest, seen.reshape(*seen.shape[:-3], -1), rest_of)


_FILTERS = 16


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
    # XLA's matrix product for this shape costs several times a plain weighted sum on a CPU.
    return g @ w.T, jnp.stack([jnp.sum(x * g[:, a, None], axis=0) for a in range(w.shape[1])], axis=1)


_NARROW = 6
linear.defvjp(_linear_forward, _linear_backward)


def init_ensemble(key: Key, members: int, init: Callable[[Key], Layers]) -> Layers:
    """Parameters of `members` independent networks, stacked on a leading axis."""
    return jax.vmap(init)(jax.random.split(key, members))


def _init_layer(key: Key, fan_in: int, fan_out: int) -> Layer:
    w = jax.random.truncated_normal(key, -2.0, 2.0, (fan_in, fan_out)) / jnp.sqrt(fan_in)
    return w, jnp.zeros(fan_out)
