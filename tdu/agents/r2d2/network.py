"""Networks with a memory: a torso, an LSTM and an ensemble of dueling heads (Kapturowski et al., 2019; Wang et al., 2016).

    x = torso(o),   (h, c) = LSTM([x, previous action, previous reward], (h, c)),   Q_k = V_k(h) + A_k(h) − mean_a A_k(h)

All heads share torso and LSTM; each has a hidden layer of its own. Values are squashed (`td.squash`). Weights are drawn from
a normal distribution truncated at two standard deviations, with scale 1/√fan_in; biases are 0. The row of a one-hot state
has fan-in 1, and the forget gate's bias is 1.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tdu import td
from tdu.agents.r2d2.config import Config
from tdu.agents.r2d2.sequences import LstmState, Memory, Steps
from tdu.networks import mlp, torsos
from tdu.types import Array, EnvSpec, Key


class HeadWeights(NamedTuple):
    """Of all heads; the first layer has each head's two streams side by side, first the value's, then the advantage's."""

    advantage: Array
    advantage_b: Array
    b: Array
    value: Array
    value_b: Array
    w: Array


class LstmWeights(NamedTuple):
    b: Array
    h: Array
    x: Array


class TorsoWeights(NamedTuple):
    filters: mlp.Layers
    layers: mlp.Layers


class NetworkWeights(NamedTuple):
    heads: HeadWeights
    lstm: LstmWeights | tuple[()]
    """Empty without an LSTM."""
    torso: TorsoWeights


class RecurrentParams(NamedTuple):
    """Of a network and its prior, which is never trained."""

    trained: NetworkWeights
    prior: NetworkWeights | tuple[()] = ()


class Recurrent(NamedTuple):
    init: Callable[[Key], RecurrentParams]
    memory: Callable[[], Memory]
    """memory() -> the memory at the beginning of an episode, without a batch axis."""
    unroll: Callable[[RecurrentParams, Memory, Steps], tuple[Array, Memory]]
    """unroll(params, memory [B, …], steps [T, B, …]) -> squashed values [T, B, H, A], memory [B, …]."""


class Single(NamedTuple):
    """The same without a prior."""

    init: Callable[[Key], NetworkWeights]
    memory: Callable[[], LstmState]
    unroll: Callable[[NetworkWeights, LstmState, Steps], tuple[Array, LstmState]]


def make(spec: EnvSpec, config: Config) -> Recurrent:
    """The network for an environment: Q_k, or Q_k + λ·P_k with P_k of a narrower network with a memory of its own."""
    network = single(spec, config)
    other = single(spec, narrower(config)) if config.prior_scale else None

    def init(key: Key) -> RecurrentParams:
        if other is None:
            return RecurrentParams(network.init(key))
        key_trained, key_prior = jax.random.split(key)
        return RecurrentParams(network.init(key_trained), other.init(key_prior))

    def unroll(params: RecurrentParams, memory: Memory, steps: Steps) -> tuple[Array, Memory]:
        q, learned = network.unroll(params.trained, memory.trained, steps)
        if other is None:
            return q, Memory(learned)
        assert params.prior
        assert memory.prior
        p, fixed = other.unroll(jax.lax.stop_gradient(params.prior), memory.prior, steps)
        return q + config.prior_scale * jax.lax.stop_gradient(p), Memory(learned, fixed)

    return Recurrent(init, lambda: Memory(network.memory(), other.memory() if other else ()), unroll)


def narrower(config: Config) -> Config:
    """The config of the prior: every layer is narrowed to `prior_width` of its width."""

    def cut(widths: Sequence[int]) -> tuple[int, ...]:
        return tuple(max(round(config.prior_width * width), 1) if width else 0 for width in widths)

    lstm_size, head_size = cut((config.lstm_size, config.head_size))
    return dataclasses.replace(
        config,
        filters=cut(config.filters),
        hidden_sizes=cut(config.hidden_sizes),
        lstm_size=lstm_size,
        head_size=head_size,
    )


def single(spec: EnvSpec, config: Config) -> Single:
    torso = torsos.make(config.torso, spec, filters=config.filters, pixels=config.pixels)
    widths = (torso.width, *config.hidden_sizes)
    fed = widths[-1] + (spec.num_actions + 1 if config.feed_back else 0)
    heads, hidden, lstm = config.heads, config.head_size, config.lstm_size
    remembered = lstm or fed

    def weights(drawn: Callable[[Sequence[int], int], Array]) -> NetworkWeights:
        """The network's weights from drawn(shape, fan_in), which is called in the order of the pytree's leaves."""

        def layer(shape: Sequence[int], fan_in: int | None = None) -> mlp.Linear:
            return mlp.Linear(drawn(shape, fan_in or math.prod(shape[:-1])), jnp.zeros(shape[-1]))

        of_heads = HeadWeights(
            advantage=drawn((heads, hidden, spec.num_actions), hidden),
            advantage_b=jnp.zeros((heads, spec.num_actions)),
            b=jnp.zeros(heads * 2 * hidden),
            value=drawn((heads, hidden), hidden),
            value_b=jnp.zeros(heads),
            w=drawn((remembered, heads * 2 * hidden), remembered),
        )
        of_lstm: LstmWeights | tuple[()] = ()
        if lstm:
            gates = jnp.zeros((4, lstm)).at[2].set(1.0).reshape(-1)  # input, candidate, forget, output
            of_lstm = LstmWeights(gates, drawn((lstm, 4 * lstm), fed + lstm), drawn((fed, 4 * lstm), fed + lstm))
        filters, first = [layer(shape) for shape in torso.shapes], []
        if spec.num_states is not None:
            one_hot = layer((spec.num_states + 1, widths[1]), fan_in=1)  # of a one-hot input exactly one row is on
            first = [one_hot._replace(w=one_hot.w.at[spec.num_states].set(0.0))]  # nothing is on where nothing is seen
        layers = [*first, *(layer(shape) for shape in pairwise(widths[len(first) :]))]
        return NetworkWeights(of_heads, of_lstm, TorsoWeights(filters, layers))

    def init(key: Key) -> NetworkWeights:
        """All weights are drawn in one call: XLA takes a second for each."""
        sizes: list[int] = []

        def counted(shape: Sequence[int], fan_in: int) -> Array:
            sizes.append(math.prod(shape))
            return jnp.zeros(shape)

        jax.eval_shape(lambda: weights(counted))
        numbers = jax.random.truncated_normal(key, -2.0, 2.0, (sum(sizes),))
        parts = iter(jnp.split(numbers, [sum(sizes[:i]) for i in range(1, len(sizes))]))
        return weights(lambda shape, fan_in: next(parts).reshape(shape) / math.sqrt(fan_in))

    def memory() -> LstmState:
        return LstmState(jnp.zeros(lstm), jnp.zeros(lstm))

    def features(params: TorsoWeights, observation: Array) -> Array:
        """[..., W] of observations [..., …]."""
        layers = params.layers
        if spec.num_states is not None:
            first, *layers = layers
            x = torso.activation(first.w[observation] + first.b)
        else:
            x = torso.features(params.filters, torso.numbers(observation))
        for layer in layers:
            x = torso.activation(x @ layer.w + layer.b)
        return x

    def unroll(params: NetworkWeights, state: LstmState, steps: Steps) -> tuple[Array, LstmState]:
        x = features(params.torso, steps.observation)
        if config.feed_back:
            action = jax.nn.one_hot(steps.previous_action, spec.num_actions)
            x = jnp.concatenate([x, action, td.squash(steps.previous_reward)[..., None]], axis=-1)
        if params.lstm:
            x, state = _lstm(params.lstm, state, x, steps.first)
        return _dueling(params.heads, x), state

    return Single(init, memory, unroll)


def _lstm(params: LstmWeights, state: LstmState, x: Array, first: Array) -> tuple[Array, LstmState]:
    """Outputs [T, B, L] of an LSTM (Hochreiter and Schmidhuber, 1997) whose state is reset where an episode begins."""
    fed = x @ params.x + params.b  # for all steps at once: it does not depend on the step before
    kept = 1.0 - first.astype(jnp.float32)[..., None]

    def step(state: LstmState, now: tuple[Array, Array]) -> tuple[LstmState, Array]:
        fed_now, kept_now = now
        h, c = state.h * kept_now, state.c * kept_now
        i, g, f, o = jnp.split(fed_now + h @ params.h, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return LstmState(h, c), h

    state, outputs = jax.lax.scan(step, state, (fed, kept))
    return outputs, state


def _dueling(params: HeadWeights, x: Array) -> Array:
    """Values [..., H, A]; the hidden layers of all heads are one product."""
    hidden = jax.nn.relu(x @ params.w + params.b)
    hidden = hidden.reshape(*x.shape[:-1], len(params.value), 2, -1)
    value = jnp.sum(hidden[..., 0, :] * params.value, axis=-1) + params.value_b
    advantage = jnp.einsum("...hw,hwa->...ha", hidden[..., 1, :], params.advantage) + params.advantage_b
    return value[..., None] + advantage - jnp.mean(advantage, axis=-1, keepdims=True)
