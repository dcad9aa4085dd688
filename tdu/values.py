"""An ensemble of networks f_k + λ·P_k with targets and Adam, behind one set of functions (`types.Values`).

`dense` takes any observation. `one_hot` takes observations that are state indices and keeps its first layer in a
`sparse.Table`; it learns the same numbers at a cost that does not grow with the number of states. The prior P_k is never
trained and lies outside the optimiser's tree; a head's target shares its prior. What is trained may be more than the weights
themselves (`types.Weights`): noisy networks train a mean and a scale for each.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from tdu import adam as adams
from tdu import networks, sparse
from tdu.errors import UserError
from tdu.types import Array, EnvSpec, Key, Values, Weights


class Shape(NamedTuple):
    """What both forms need to know."""

    heads: int
    hidden_sizes: tuple[int, ...]
    prior_scale: float
    target_period: int
    double: bool
    adam: adams.Adam
    torso: Literal["auto", "mlp", "conv"] = "auto"

    def sizes(self, spec: EnvSpec) -> Sequence[int]:
        size = 1
        for n in spec.observation_shape:
            size *= n
        return (spec.num_states or size, *self.hidden_sizes, spec.num_actions)


class Dense(NamedTuple):
    params: Any
    """What is trained; without noise, the networks' weights."""
    target: Any
    prior: networks.Params
    moments: adams.Moments
    step: Array
    noise: Any


class OneHot(NamedTuple):
    table: sparse.Table
    params: Any
    """What is trained of the first bias [H, F] and the later layers."""
    target: Any
    prior: Array
    """λ·P as a constant table [S + 1, H, A]."""
    moments: adams.Moments
    step: Array
    noise: Any


PLAIN = Weights(
    init=lambda key, largest: (),
    widen=lambda params: params,
    widen_rows=lambda rows: rows,
    draw=lambda noise, step, stream: (),
    of=lambda trained, draw: trained,
    rows=lambda rows, states, draw: rows,
)
"""The weights themselves are trained."""

FOLDED = PLAIN._replace(widen=lambda params: jax.tree.map(jnp.abs, params), widen_rows=jnp.abs)
"""The weights themselves are trained, and none of them is negative at first."""


def make(spec: EnvSpec, shape: Shape, *, weights: Weights = PLAIN, force_dense: bool = False) -> Values:
    """The ensemble for an environment: sparse where its observation is one-hot, unless told otherwise."""
    _looks_at_images(spec, shape)
    if spec.num_states is None or force_dense:
        return dense(spec, shape, weights)
    return one_hot(spec, shape, weights)


def dense(spec: EnvSpec, shape: Shape, weights: Weights = PLAIN) -> Values:
    """The ordinary form: every layer is a matrix product and every weight moves at every step."""
    rank = len(spec.observation_shape)
    conv = _looks_at_images(spec, shape)
    apply = networks.apply_image if conv else networks.apply_mlp

    def init_one(key: Key) -> networks.Params:
        if conv:
            height, width, channels = spec.observation_shape
            return networks.init_image(key, (height, width, channels), shape.hidden_sizes, spec.num_actions)
        return networks.init_mlp(key, shape.sizes(spec))

    def flat(observation: Array) -> Array:
        if spec.num_states is not None:
            return jax.nn.one_hot(observation, spec.num_states)
        if conv:
            return observation.astype(jnp.float32)
        return observation.reshape(*observation.shape[: observation.ndim - rank], -1).astype(jnp.float32)

    every_head = jax.vmap(apply, in_axes=(0, None))

    def prior(state: Dense, observation: Array) -> Array:
        return shape.prior_scale * every_head(state.prior, flat(observation))

    def with_prior(state: Dense, params: networks.Params, observation: Array) -> Array:
        learned = every_head(params, flat(observation))
        return learned + prior(state, observation) if shape.prior_scale else learned

    def init(key: Key) -> Dense:
        key_params, key_prior = jax.random.split(key)
        networks_ = networks.init_ensemble(key_params, shape.heads, init_one)
        params = weights.widen(networks_)
        prior = networks.init_ensemble(key_prior, shape.heads, init_one)
        return Dense(
            params=params,
            target=jax.tree.map(jnp.copy, params),
            prior=prior,
            moments=adams.init(params),
            step=jnp.zeros((), jnp.int32),
            noise=weights.init(key, networks_),
        )

    def update(state: Dense, o_tm1: Array, o_t: Array, loss: Any, priors: Any = None) -> tuple[Dense, Any]:
        x_tm1, x_t = flat(o_tm1), flat(o_t)
        prior_tm1 = prior_t = jnp.zeros(())
        if shape.prior_scale:
            prior_tm1, prior_t = priors or (prior(state, o_tm1), prior(state, o_t))
        draw, draw_target = weights.draw(state.noise, state.step, 0), weights.draw(state.noise, state.step, 1)
        target_t = every_head(weights.of(state.target, draw_target), x_t) + prior_t
        online_t = every_head(weights.of(state.params, draw), x_t) + prior_t if shape.double else None

        def objective(params: Any) -> tuple[Array, Any]:
            return loss(every_head(weights.of(params, draw), x_tm1) + prior_tm1, target_t, online_t)

        gradient, aux = jax.grad(objective, has_aux=True)(state.params)
        step = state.step + 1
        params, moments = adams.update(shape.adam, state.params, state.moments, gradient, step)
        copy = step % shape.target_period == 0
        target = jax.tree.map(lambda p, t: jnp.where(copy, p, t), params, state.target)
        return state._replace(params=params, target=target, moments=moments, step=step), aux

    def q(state: Dense, observation: Array) -> Array:
        return with_prior(state, weights.of(state.params, weights.draw(state.noise, state.step, 0)), observation)

    def still_q(state: Dense, observation: Array) -> Array:
        return with_prior(state, weights.of(state.params, None), observation)

    def freeze(state: Dense, head: Array) -> Any:
        draw = weights.draw(state.noise, state.step, 0)
        return jax.tree.map(lambda x: x[head], (weights.of(state.params, draw), state.prior))

    def frozen_q(frozen: Any, observation: Array) -> Array:
        learned, fixed = (apply(params, flat(observation)) for params in frozen)
        return learned + shape.prior_scale * fixed

    return Values(init, update, q, still_q, freeze, frozen_q, prior if shape.prior_scale else None)


def one_hot(spec: EnvSpec, shape: Shape, weights: Weights = PLAIN) -> Values:
    """The sparse form. What is frozen for an episode is the head's value of every action in every state."""
    sizes = shape.sizes(spec)
    states, width = sizes[0], sizes[1]
    adam = shape.adam

    def heads_first(rows: Array) -> Array:
        """[B, H·F] -> [H, B, F]."""
        return jnp.swapaxes(rows.reshape(-1, shape.heads, width), 0, 1)

    def evaluate(rows: Array, observations: Array, params: Any, prior: Array, draw: Any) -> Array:
        """[H, B, A] from what is trained, first-layer rows and the rest, and the prior [B, H, A]."""
        bias, rest = weights.of(params, draw)
        first = heads_first(weights.rows(rows, observations, draw)) + bias[:, None]
        return jax.vmap(networks.apply_rest)(rest, first) + jnp.swapaxes(prior, 0, 1)

    def init_one(key: Key) -> networks.Params:
        return networks.init_mlp(key, sizes)

    def init(key: Key) -> OneHot:
        key_params, key_prior = jax.random.split(key)
        networks_ = networks.init_ensemble(key_params, shape.heads, init_one)
        (w, b), *rest = networks_
        prior = networks.init_ensemble(key_prior, shape.heads, init_one)
        params = weights.widen((b, rest))
        return OneHot(
            table=sparse.init(weights.widen_rows(jnp.swapaxes(w, 0, 1).reshape(states, -1))),
            params=params,
            target=jax.tree.map(jnp.copy, params),
            prior=shape.prior_scale * _tabulate(prior),
            moments=adams.init(params),
            step=jnp.zeros((), jnp.int32),
            noise=weights.init(key, networks_),
        )

    def update(state: OneHot, o_tm1: Array, o_t: Array, loss: Any, priors: Any = None) -> tuple[OneHot, Any]:
        table, step = state.table, state.step + 1
        before, after = sparse.read(table, o_tm1), sparse.read(table, o_t)
        now = sparse.brought_to(adam, before.rows, before.touched, state.step)
        prior_tm1, prior_t = state.prior[o_tm1], state.prior[o_t]
        draw, draw_target = weights.draw(state.noise, state.step, 0), weights.draw(state.noise, state.step, 1)
        target_t = evaluate(sparse.target(adam, after, table.copied), o_t, state.target, prior_t, draw_target)
        online_t = None
        if shape.double:
            rows_t = sparse.brought_to(adam, after.rows, after.touched, state.step)
            online_t = evaluate(rows_t, o_t, state.params, prior_t, draw)

        def objective(rows: Array, params: Any) -> tuple[Array, Any]:
            return loss(evaluate(rows, o_tm1, params, prior_tm1, draw), target_t, online_t)

        (row_gradient, gradient), aux = jax.grad(objective, argnums=(0, 1), has_aux=True)(now, state.params)
        table = sparse.write(adam, table, o_tm1, before, now, row_gradient, step)
        params, moments = adams.update(adam, state.params, state.moments, gradient, step)
        copy = step % shape.target_period == 0
        target = jax.tree.map(lambda p, t: jnp.where(copy, p, t), params, state.target)
        table = table._replace(copied=jnp.where(copy, step, table.copied))
        return OneHot(table, params, target, state.prior, moments, step, state.noise), aux

    def one(state: OneHot, observation: Array, draw: Any) -> Array:
        read = sparse.read(state.table, observation[None])
        rows = sparse.brought_to(adam, read.rows, read.touched, state.step)
        return evaluate(rows, observation[None], state.params, state.prior[observation][None], draw)[:, 0]

    def q(state: OneHot, observation: Array) -> Array:
        return one(state, observation, weights.draw(state.noise, state.step, 0))

    def still_q(state: OneHot, observation: Array) -> Array:
        return one(state, observation, None)

    def freeze(state: OneHot, head: Array) -> Array:
        if weights is not PLAIN:
            raise NotImplementedError("noisy networks act live")
        bias, rest = jax.tree.map(lambda x: x[head], state.params)
        rows = jax.lax.dynamic_slice_in_dim(state.table.rows, head * width, width, axis=2)
        first = sparse.brought_to(adam, rows, state.table.touched, state.step) + bias
        return networks.apply_rest(rest, first) + state.prior[:, head]

    def frozen_q(frozen: Array, observation: Array) -> Array:
        return frozen[observation]

    return Values(init, update, q, still_q, freeze, frozen_q)


def _looks_at_images(spec: EnvSpec, shape: Shape) -> bool:
    image = spec.num_states is None and len(spec.observation_shape) == 3 and min(spec.observation_shape[:2]) >= 3
    if shape.torso == "conv" and not image:
        raise UserError(
            f"torso conv needs images of height, width and channels; {spec.name} observes {spec.observation_shape}."
        )
    return image and shape.torso != "mlp"


def _tabulate(params: networks.Params) -> Array:
    """Output of stacked networks for every one-hot input and for the all-zero one, [S + 1, H, A]."""

    def every_state(one: networks.Params) -> Array:
        (w, b), *rest = one
        return networks.apply_rest(rest, jnp.concatenate([w, jnp.zeros_like(w[:1])]) + b)

    return jnp.swapaxes(jax.lax.map(every_state, params), 0, 1)
