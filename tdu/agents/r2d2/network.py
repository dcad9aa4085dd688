"""Networks with a memory: a torso, an LSTM and an ensemble of dueling heads (Kapturowski et al., 2019; Wang et al., 2016).

    x = torso(o),   (h, c) = LSTM([x, previous action, previous reward], (h, c)),   Q_k = V_k(h) + A_k(h) − mean_a A_k(h)

All heads share torso and LSTM; each has a hidden layer of its own. Values are squashed (`td.squash`). Weights are drawn from
a normal distribution truncated at two standard deviations, with scale 1/√fan_in; biases are 0. The row of a one-hot state
has fan-in 1, and the forget gate's bias is 1.
"""

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tdu import td
from tdu.agents.r2d2.sequences import Steps
from tdu.networks import inputs
from tdu.types import Array, EnvSpec, Key, Params, State


class Recurrent(NamedTuple):
    """A network with a memory."""

    init: Callable[[Key], Params]
    memory: Callable[[], State]
    """memory() -> the memory at the beginning of an episode, without a batch axis."""
    unroll: Callable[[Params, State, Steps], tuple[Array, State]]
    """unroll(params, memory [B, …], steps [T, B, …]) -> squashed values [T, B, H, A], memory [B, …]."""


class Sizes(NamedTuple):
    """Widths of a network."""

    heads: int
    filters: tuple[int, ...]
    """Of the convolutions; empty where images are flattened."""
    shrink: int
    """Side of the squares of pixels over which images are averaged first."""
    hidden: tuple[int, ...]
    """Layers before the LSTM."""
    lstm: int
    """0 for no memory."""
    head: int
    """Width of the hidden layer of each head's two streams."""
    feeds_back: bool
    """Whether the previous action and reward are fed in."""

    def narrower(self, share: float) -> "Sizes":
        """The same network with every layer narrowed to a share of its width."""

        def cut(width: int) -> int:
            return max(round(share * width), 1) if width else 0

        return self._replace(
            filters=tuple(map(cut, self.filters)),
            hidden=tuple(map(cut, self.hidden)),
            lstm=cut(self.lstm),
            head=cut(self.head),
        )


def make(spec: EnvSpec, sizes: Sizes) -> Recurrent:
    """The network for an environment."""
    layers, torso, width = _torso(spec, sizes)
    fed = width + (spec.num_actions + 1 if sizes.feeds_back else 0)
    remembered = sizes.lstm or fed

    def init(key: Key) -> dict[str, Any]:
        params: dict[str, Any] = {"torso": layers}
        if sizes.lstm:
            params["lstm"] = _lstm_weights(fed, sizes.lstm)
        params["heads"] = _head_weights(remembered, sizes.head, sizes.heads, spec.num_actions)
        params = _drawn(key, params)
        if spec.num_states is not None:  # the all-zero observation
            (rows, b), *rest = params["torso"]["layers"]
            params["torso"]["layers"] = [(rows.at[spec.num_states].set(0.0), b), *rest]
        return params

    def memory() -> tuple[Array, Array]:
        return jnp.zeros(sizes.lstm), jnp.zeros(sizes.lstm)

    def unroll(params: Params, state: State, steps: Steps) -> tuple[Array, State]:
        x = torso(params["torso"], steps.observation)
        if sizes.feeds_back:
            action = jax.nn.one_hot(steps.previous_action, spec.num_actions)
            x = jnp.concatenate([x, action, td.squash(steps.previous_reward)[..., None]], axis=-1)
        if sizes.lstm:
            x, state = _lstm(params["lstm"], state, x, steps.first)
        return _dueling(params["heads"], x, sizes.heads), state

    return Recurrent(init, memory, unroll)


def with_prior(trained: Recurrent, prior: Recurrent, scale: float) -> Recurrent:
    """Q_k + λ·P_k, with P_k of another network that is never trained and has a memory of its own.

    Its params are (trained, prior), its memory the pair of both memories.
    """

    def init(key: Key) -> tuple[Params, Params]:
        key_trained, key_prior = jax.random.split(key)
        return trained.init(key_trained), prior.init(key_prior)

    def unroll(params: tuple[Params, Params], state: tuple[State, State], steps: Steps) -> tuple[Array, State]:
        q, learned = trained.unroll(params[0], state[0], steps)
        p, fixed = prior.unroll(jax.lax.stop_gradient(params[1]), state[1], steps)
        return q + scale * jax.lax.stop_gradient(p), (learned, fixed)

    return Recurrent(init, lambda: (trained.memory(), prior.memory()), unroll)


def without_prior(trained: Recurrent) -> Recurrent:
    """The same network with params (trained, ())."""
    return Recurrent(
        lambda key: (trained.init(key), ()),
        trained.memory,
        lambda params, state, steps: trained.unroll(params[0], state, steps),
    )


class _Weights(NamedTuple):
    """Weights that are yet to be drawn."""

    shape: tuple[int, ...]
    fan_in: int


def _drawn(key: Key, tree: Any) -> Any:
    """The tree with its weights drawn, all in one call: XLA would take a second to compile each."""
    leaves, structure = jax.tree.flatten(tree, is_leaf=lambda x: isinstance(x, _Weights))
    sizes = [math.prod(leaf.shape) for leaf in leaves if isinstance(leaf, _Weights)]
    numbers = jax.random.truncated_normal(key, -2.0, 2.0, (sum(sizes),))
    parts = iter(jnp.split(numbers, [sum(sizes[:i]) for i in range(1, len(sizes))]))

    def filled(leaf: Any) -> Array:
        if not isinstance(leaf, _Weights):
            return jnp.asarray(leaf)
        return next(parts).reshape(leaf.shape) / math.sqrt(leaf.fan_in)

    return jax.tree.unflatten(structure, [filled(leaf) for leaf in leaves])


def _torso(spec: EnvSpec, sizes: Sizes) -> tuple[dict[str, Any], Callable[[Any, Array], Array], int]:
    """The torso: its weights, apply(params, observations [..., …]) -> [..., W], and W."""
    images = bool(sizes.filters)
    rank = len(spec.carried_shape)
    if images:
        height, width, channels = spec.observation_shape
        height, width = height // sizes.shrink, width // sizes.shrink
        windows = _windows(min(height, width))[: len(sizes.filters)]
        shapes = []
        for (window, stride), filters in zip(windows, sizes.filters, strict=True):
            shapes.append((window, window, channels, filters))
            height, width, channels = (height - window) // stride + 1, (width - window) // stride + 1, filters
        flat = height * width * channels
    else:
        flat = math.prod(spec.observation_shape)
    widths = (flat, *sizes.hidden)

    layers = [(_Weights((i, o), i), jnp.zeros(o)) for i, o in itertools.pairwise(widths)]
    if spec.num_states is not None:  # a one-hot input selects one row
        layers[0] = (_Weights((spec.num_states + 1, widths[1]), 1), layers[0][1])
    weights: dict[str, Any] = {"layers": layers}
    if images:
        weights["filters"] = [(_Weights(shape, math.prod(shape[:3])), jnp.zeros(shape[3])) for shape in shapes]

    def apply(params: dict[str, Any], observation: Array) -> Array:
        if spec.num_states is not None:
            (rows, b), *rest = params["layers"]
            x = jax.nn.relu(rows[observation] + b)
        else:
            lead = observation.shape[: observation.ndim - rank]
            x = inputs.scaled(spec, observation)
            if images:
                x = x.reshape(-1, *x.shape[-3:])
                x = _shrunk(x, sizes.shrink)
                for (w, b), (_, stride) in zip(params["filters"], windows, strict=True):
                    x = jax.lax.conv_general_dilated(
                        x, w, (stride, stride), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
                    )
                    x = jax.nn.relu(x + b)
            x = x.reshape(*lead, flat)
            rest = params["layers"]
        for w, b in rest:
            x = jax.nn.relu(x @ w + b)
        return x

    return weights, apply, widths[-1]


def _windows(side: int) -> tuple[tuple[int, int], ...]:
    """(window, stride) of the convolutions for images with that side: DQN's for 84, smaller ones for less."""
    if side >= 64:
        return (8, 4), (4, 2), (3, 1)
    if side >= 32:
        return (6, 3), (4, 2), (3, 1)
    return (3, 1), (3, 1)


def most_filters(spec: EnvSpec, shrink: int) -> int:
    """Number of convolutions that fit on the image; 0 if the observation is not an image."""
    if not inputs.is_image(spec):
        return 0
    side = min(spec.observation_shape[:2]) // shrink
    count = 0
    for window, stride in _windows(side):
        if side < window:
            break
        side, count = (side - window) // stride + 1, count + 1
    return count


def _shrunk(x: Array, by: int) -> Array:
    """Images [N, H, W, C] averaged over squares of `by` pixels; a remainder at the edges is cut off."""
    if by == 1:
        return x
    height, width = (side // by * by for side in x.shape[1:3])
    x = x[:, :height, :width]
    parts = [x[:, i::by, j::by] for i in range(by) for j in range(by)]
    return functools.reduce(jnp.add, parts) / by**2


def _lstm_weights(fed: int, size: int) -> dict[str, Any]:
    gates = jnp.zeros((4, size)).at[2].set(1.0).reshape(-1)  # input, candidate, forget, output
    return {
        "x": _Weights((fed, 4 * size), fed + size),
        "h": _Weights((size, 4 * size), fed + size),
        "b": gates,
    }


def _lstm(params: Any, state: tuple[Array, Array], x: Array, first: Array) -> tuple[Array, tuple[Array, Array]]:
    """Outputs [T, B, L] of an LSTM (Hochreiter and Schmidhuber, 1997) whose state is reset where an episode begins."""
    fed = x @ params["x"] + params["b"]  # for all steps at once: it does not depend on the step before
    kept = 1.0 - first.astype(jnp.float32)[..., None]

    def step(state: tuple[Array, Array], now: tuple[Array, Array]) -> tuple[tuple[Array, Array], Array]:
        fed_now, kept_now = now
        h, c = state[0] * kept_now, state[1] * kept_now
        i, g, f, o = jnp.split(fed_now + h @ params["h"], 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    state, outputs = jax.lax.scan(step, state, (fed, kept))
    return outputs, state


def _head_weights(width: int, hidden: int, heads: int, actions: int) -> dict[str, Any]:
    """Weights of each head's two streams side by side, first the value's, then the advantage's."""
    return {
        "w": _Weights((width, heads * 2 * hidden), width),
        "b": jnp.zeros(heads * 2 * hidden),
        "value": _Weights((heads, hidden), hidden),
        "value_b": jnp.zeros(heads),
        "advantage": _Weights((heads, hidden, actions), hidden),
        "advantage_b": jnp.zeros((heads, actions)),
    }


def _dueling(params: Any, x: Array, heads: int) -> Array:
    """Values [..., H, A]; the hidden layers of all heads are one product."""
    hidden = jax.nn.relu(x @ params["w"] + params["b"])
    hidden = hidden.reshape(*x.shape[:-1], heads, 2, -1)
    value = jnp.sum(hidden[..., 0, :] * params["value"], axis=-1) + params["value_b"]
    advantage = jnp.einsum("...hw,hwa->...ha", hidden[..., 1, :], params["advantage"]) + params["advantage_b"]
    return value[..., None] + advantage - jnp.mean(advantage, axis=-1, keepdims=True)
