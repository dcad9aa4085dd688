"""Networks with a memory: a torso, an LSTM and an ensemble of dueling heads (Kapturowski et al., 2019; Wang et al., 2016).

    x = torso(o),   (h, c) = LSTM([x, previous action, previous reward], (h, c)),   Q_k = V_k(h) + A_k(h) − mean_a A_k(h)

All heads share torso and LSTM; each has a hidden layer of its own. Values are squashed (`td.squash`). Weights are drawn from
a normal distribution truncated at two standard deviations, with scale 1/√fan_in; biases are 0. The row of a one-hot state
has fan-in 1, and the forget gate's bias is 1.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tdu import td
from tdu.agents.r2d2.sequences import Steps
from tdu.networks import mlp, torsos
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
    """Of the convolutions on images."""
    hidden: tuple[int, ...]
    """Layers before the LSTM."""
    lstm: int
    """0 for no memory."""
    head: int
    """Width of the hidden layer of each head's two streams."""
    feeds_back: bool
    """Whether the previous action and reward are fed in."""
    torso: torsos.Kind = "auto"
    pixels: int = 0
    """Larger images are averaged over squares until a side has about this many pixels; 0 for never."""

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
        if spec.num_states is not None:  # nothing is on where nothing is seen
            first, *rest = params["torso"]["layers"]
            params["torso"]["layers"] = [first._replace(w=first.w.at[spec.num_states].set(0.0)), *rest]
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


class _Undrawn(NamedTuple):
    """A place for weights that are yet to be drawn."""

    shape: tuple[int, ...]
    fan_in: int


def _drawn(key: Key, tree: Any) -> Any:
    """The tree with its weights drawn, all in one call: XLA takes a second for each."""
    leaves, structure = jax.tree.flatten(tree, is_leaf=lambda x: isinstance(x, _Undrawn))
    sizes = [math.prod(leaf.shape) for leaf in leaves if isinstance(leaf, _Undrawn)]
    numbers = jax.random.truncated_normal(key, -2.0, 2.0, (sum(sizes),))
    parts = iter(jnp.split(numbers, [sum(sizes[:i]) for i in range(1, len(sizes))]))

    def filled(leaf: Any) -> Array:
        if not isinstance(leaf, _Undrawn):
            return jnp.asarray(leaf)
        return next(parts).reshape(leaf.shape) / math.sqrt(leaf.fan_in)

    return jax.tree.unflatten(structure, [filled(leaf) for leaf in leaves])


def _torso(spec: EnvSpec, sizes: Sizes) -> tuple[dict[str, Any], Callable[[Any, Array], Array], int]:
    """Its weights, apply(params, observations [..., …]) -> [..., W], and W."""
    torso = torsos.make(sizes.torso, spec, filters=sizes.filters, pixels=sizes.pixels)
    widths = (torso.width, *sizes.hidden)
    layers = [_layer(shape) for shape in itertools.pairwise(widths)]
    if spec.num_states is not None:  # of a one-hot input exactly one row is on
        layers[0] = _layer((spec.num_states + 1, widths[1]), fan_in=1)

    def apply(params: dict[str, Any], observation: Array) -> Array:
        layers = params["layers"]
        if spec.num_states is not None:
            first, *layers = layers
            x = torso.activation(first.w[observation] + first.b)
        else:
            x = torso.features(params["filters"], torso.numbers(observation))
        for layer in layers:
            x = torso.activation(x @ layer.w + layer.b)
        return x

    return {"filters": [_layer(shape) for shape in torso.shapes], "layers": layers}, apply, widths[-1]


def _layer(shape: tuple[int, ...], fan_in: int | None = None) -> mlp.Linear:
    """A layer whose weights are yet to be drawn."""
    weights: Any = _Undrawn(shape, math.prod(shape[:-1]) if fan_in is None else fan_in)
    return mlp.Linear(weights, jnp.zeros(shape[-1]))


def _lstm_weights(fed: int, size: int) -> dict[str, Any]:
    gates = jnp.zeros((4, size)).at[2].set(1.0).reshape(-1)  # input, candidate, forget, output
    return {
        "x": _Undrawn((fed, 4 * size), fed + size),
        "h": _Undrawn((size, 4 * size), fed + size),
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
        "w": _Undrawn((width, heads * 2 * hidden), width),
        "b": jnp.zeros(heads * 2 * hidden),
        "value": _Undrawn((heads, hidden), hidden),
        "value_b": jnp.zeros(heads),
        "advantage": _Undrawn((heads, hidden, actions), hidden),
        "advantage_b": jnp.zeros((heads, actions)),
    }


def _dueling(params: Any, x: Array, heads: int) -> Array:
    """Values [..., H, A]; the hidden layers of all heads are one product."""
    hidden = jax.nn.relu(x @ params["w"] + params["b"])
    hidden = hidden.reshape(*x.shape[:-1], heads, 2, -1)
    value = jnp.sum(hidden[..., 0, :] * params["value"], axis=-1) + params["value_b"]
    advantage = jnp.einsum("...hw,hwa->...ha", hidden[..., 1, :], params["advantage"]) + params["advantage_b"]
    return value[..., None] + advantage - jnp.mean(advantage, axis=-1, keepdims=True)
