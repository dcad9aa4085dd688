"""One learning step of R2D2 with K exploiters and N explorers on a batch of sequences (the paper's appendix E).

Values are squashed, Q = h(·). With targets of double Q-learning and Peng's Q(λ),

    G_t = r_k + γ·d·((1 − λ)·h⁻¹(Q̄_k(s', a*)) + λ·G_{t+1}),   δ_k = h(G_t) − Q_k(s, a),   a* = argmax Q_k(s', ·),

exploiters have r_k = r and explorers what the bonus pays, for TDU r + β·σ: σ is the spread over the exploiters of their
one-step TD errors in unsquashed space, r + γ·d·h⁻¹(Q̄_k(s', a*)) − h⁻¹(Q_k(s, a)). The bonus is added before squashing.

The loss is ½·δ² summed over the trace and averaged over heads and sequences, each weighted by its importance and by the mask
of the heads that learn from it. Before the trace, both networks are unrolled over the burn-in, from the stored memory and
without gradient.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from tdu import random, td
from tdu.agents.r2d2.config import Config
from tdu.agents.r2d2.network import NetworkWeights, Recurrent, RecurrentParams
from tdu.agents.r2d2.sequences import Batch, Shape, Steps
from tdu.metrics import UPDATES, Metrics, Reducers
from tdu.types import Array, Bonus, Exploit, Key, State, Transition

REDUCERS = Reducers(mean=("bonus", "loss", "gradient_norm"))
"""The metrics of a learning step."""


class LearnerState(NamedTuple):
    trained: NetworkWeights
    target: NetworkWeights
    prior: NetworkWeights | tuple[()]
    """Never trained; empty without a prior."""
    optimiser: State
    bonus: State
    phase: Array
    """Learning steps since the target was copied."""


class Learner(NamedTuple):
    init: Callable[[Key], LearnerState]
    params: Callable[[LearnerState], RecurrentParams]
    """params(state) -> what acting needs."""
    update: Callable[[LearnerState, Batch], tuple[LearnerState, Array, Metrics]]
    """update(state, batch) -> state, priorities [B], metrics."""
    observe: Callable[[LearnerState, Transition], LearnerState]
    """observe(state, transitions [n]) -> state: shows every transition once to a bonus that counts them."""


class Errors(NamedTuple):
    delta: Array
    """Squashed errors of all heads, [H, T, B]."""
    sigma: Array
    """The bonus, [T, B]."""
    largest_q: Array


def make(network: Recurrent, config: Config, bonus: Bonus) -> Learner:
    shape = config.shape
    optimiser = optax.chain(
        optax.clip_by_global_norm(config.clip), optax.adam(config.learning_rate, eps=config.adam_eps)
    )

    def init(key: Key) -> LearnerState:
        trained, prior = network.init(key)
        return LearnerState(
            trained=trained,
            target=jax.tree.map(jnp.copy, trained),
            prior=prior,
            optimiser=optimiser.init(trained),
            bonus=bonus.init(random.for_use(key, random.Use.BONUS)),
            phase=jnp.zeros((), jnp.int32),
        )

    def params(state: LearnerState) -> RecurrentParams:
        return RecurrentParams(state.trained, state.prior)

    def unrolled(both: RecurrentParams, batch: Batch) -> Array:
        """Values [T + 1, B, H, A] of the trace and of the step after it."""
        memory = batch.memory
        if shape.burn_in:
            early = jax.tree.map(lambda x: x[: shape.burn_in], batch.steps)
            _, memory = network.unroll(jax.lax.stop_gradient(both), memory, early)
            memory = jax.lax.stop_gradient(memory)
        rest = jax.tree.map(lambda x: x[shape.burn_in :], batch.steps)
        return network.unroll(both, memory, rest)[0]

    def errors(q: Array, target_q: Array, batch: Batch, novelty: State) -> Errors:
        now, after = trace(batch.steps, shape)
        by_head = (q[:-1], target_q[1:], jax.lax.stop_gradient(q[1:]))
        q, target_t, selector_t = (jnp.moveaxis(x, 2, 0) for x in by_head)  # [H, T, B, A]
        d_t = config.discount * now.discount
        # An episode that was cut off ends in a step that is not valid: there the return is its value.
        lambda_t = config.td_lambda * after.valid.astype(jnp.float32)
        k = config.exploiters
        one_step, taken = _one_step(q[:k], now.action, now.reward, d_t, target_t[:k], selector_t[:k])
        flat = jax.tree.map(_flattened, transitions(now, after))
        exploit = Exploit(*(x.reshape(k, -1) for x in (taken, one_step)))
        paid, sigma = bonus.reward(novelty, flat, exploit)
        paid = jax.lax.stop_gradient(paid).reshape(-1, *now.reward.shape)
        extra = jnp.broadcast_to(paid, (config.explorers, *now.reward.shape)) - now.reward
        r_t = now.reward + jnp.concatenate([jnp.zeros((k, *now.reward.shape)), extra])
        over = jax.vmap(
            jax.vmap(td.transformed_q_lambda, in_axes=1, out_axes=1), in_axes=(0, None, 0, None, 0, 0, None)
        )
        delta = over(q, now.action, r_t, d_t, target_t, selector_t, lambda_t)
        largest = jnp.max(jnp.abs(td.unsquash(jax.lax.stop_gradient(q[:k]))))
        return Errors(delta * now.valid, sigma.reshape(now.reward.shape), largest)

    def update(state: LearnerState, batch: Batch) -> tuple[LearnerState, Array, Metrics]:
        now, after = trace(batch.steps, shape)
        bonus_state, novelty = bonus.learn(state.bonus, jax.tree.map(_flattened, transitions(now, after)))
        target_q = unrolled(RecurrentParams(state.target, state.prior), batch)

        def loss(trained: NetworkWeights) -> tuple[Array, Errors]:
            found = errors(unrolled(RecurrentParams(trained, state.prior), batch), target_q, batch, novelty)
            squares = 0.5 * jnp.sum(jnp.square(found.delta), axis=1)  # [H, B]
            return jnp.mean(squares * batch.mask.T * batch.weights), found

        (total, found), gradient = jax.value_and_grad(loss, has_aux=True)(state.trained)
        change, optimised = optimiser.update(gradient, state.optimiser, state.trained)
        trained = optax.apply_updates(state.trained, change)
        phase = (state.phase + 1) % config.target_period
        target = jax.lax.cond(phase == 0, lambda: trained, lambda: state.target)
        state = LearnerState(trained, target, state.prior, optimised, bonus_state, phase)
        valid = now.valid.astype(jnp.float32)
        metrics = {
            UPDATES: 1.0,
            "loss": total,
            "bonus": jnp.sum(found.sigma * valid) / jnp.maximum(jnp.sum(valid), 1.0),
            "largest_q": found.largest_q,
            "gradient_norm": optax.global_norm(gradient),
        }
        return state, priorities(found.delta, valid), {n: jnp.asarray(x, jnp.float32) for n, x in metrics.items()}

    def observe(state: LearnerState, transitions: Transition) -> LearnerState:
        def one(bonus_state: State, transition: Transition) -> tuple[State, None]:
            return bonus.observe(bonus_state, transition), None

        return state._replace(bonus=jax.lax.scan(one, state.bonus, transitions)[0])

    return Learner(init, params, update, observe)


def priorities(delta: Array, valid: Array) -> Array:
    """0.9·max + 0.1·mean over the trace of |δ|, averaged over heads first; [B] from [H, T, B] and [T, B]."""
    size = jnp.mean(jnp.abs(delta), axis=0) * valid
    mean = jnp.sum(size, axis=0) / jnp.maximum(jnp.sum(valid, axis=0), 1.0)
    return jax.lax.stop_gradient(_SHARE * jnp.max(size, axis=0) + (1 - _SHARE) * mean)


_SHARE = 0.9
"""Weight of the maximum."""


def transitions(now: Steps, after: Steps) -> Transition:
    """The transition from every step to the one after it."""
    return Transition(now.observation, now.action, now.reward, now.discount, after.observation, {})


def trace(steps: Steps, shape: Shape) -> tuple[Steps, Steps]:
    """The steps that are learned from, and those after them, [T, B, …] each."""
    start, end = shape.burn_in, shape.burn_in + shape.trace
    return jax.tree.map(lambda x: x[start:end], steps), jax.tree.map(lambda x: x[start + 1 : end + 1], steps)


def _flattened(x: Array) -> Array:
    return x.reshape(-1, *x.shape[2:])


def _one_step(
    q: Array, action: Array, reward: Array, d_t: Array, target_t: Array, selector_t: Array
) -> tuple[Array, Array]:
    """One-step TD errors [K, T, B] in unsquashed space, and unsquashed values of the actions taken; no gradient."""
    v_t = td.unsquash(td.taken(target_t, jnp.argmax(selector_t, axis=-1)[..., None]))
    taken = td.unsquash(td.taken(q, action[..., None]))
    return jax.lax.stop_gradient(reward + d_t * v_t - taken), jax.lax.stop_gradient(taken)
