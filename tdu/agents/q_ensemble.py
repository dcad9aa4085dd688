"""The learner: K exploiters and N explorers, all Q-learners over one replay (the paper's algorithms 1 and 2).

Exploiters regress on the reward r, explorers on what the bonus pays for the transition, for TDU r + β·σ. The loss is

    Σ_heads mean_batch ½ · mask · δ²,    δ_k = r_k + γ·d·v_k(s') − Q_k(s, a),

with v_k the target network's largest value, or, with double Q, its value of the online network's best action.
An agent is a choice of values, bonus and behaviour (see the AGENTS table).
"""

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from tdu import replay as replays
from tdu import td
from tdu.agents import learning
from tdu.types import Agent, Array, Behaviour, Bonus, EnvSpec, Exploit, Key, Transition, Values


class Learner(NamedTuple):
    """The learner's own settings."""

    exploiters: int
    explorers: int
    discount: float
    batch_size: int
    replay_capacity: int
    min_replay: int
    learn_period: int
    mask_prob: float
    noise_scale: float
    acting: Literal["frozen", "live"]


_BONUS = 1 << 16
"""Folded into the key for the bonus; far from the first few numbers, which splitting the key uses."""

_PRIORS = ("prior_tm1", "prior_t")
"""Kept with each transition where a prior is a network to evaluate: it is met a batch of times and never changes."""


class LearnerState(NamedTuple):
    values: Any
    replay: Any
    bonus: Any
    behaviour: Any
    step: Array
    """Environment steps observed."""


class Actor(NamedTuple):
    head: Array
    frozen: Any
    """The head's values as they were when the episode began; empty where the live head acts."""


def q_ensemble(spec: EnvSpec, learner: Learner, *, values: Values, bonus: Bonus, behaviour: Behaviour) -> Agent:
    """The agent made of these parts."""
    heads = learner.exploiters + learner.explorers
    replay = replays.uniform(learner.replay_capacity, learner.batch_size)
    masked = learner.mask_prob < 1.0
    noisy = learner.noise_scale > 0.0
    frozen = learner.acting == "frozen"

    def init(key: Key) -> LearnerState:
        extras = ({"mask": jnp.zeros(heads)} if masked else {}) | ({"noise": jnp.zeros(heads)} if noisy else {})
        if values.prior is not None:
            extras |= dict.fromkeys(_PRIORS, jnp.zeros((heads, spec.num_actions)))
        return LearnerState(
            values=values.init(key),
            replay=replay.init(replays.example(spec, extras)),
            bonus=bonus.init(jax.random.fold_in(key, _BONUS)),
            behaviour=behaviour.init(),
            step=jnp.zeros((), jnp.int32),
        )

    def begin_episode(state: LearnerState, key: Key) -> Actor:
        head = behaviour.begin(state.behaviour, key)
        if not frozen:
            return Actor(head, ())
        if behaviour.every_head:
            return Actor(head, jax.vmap(values.freeze, in_axes=(None, 0))(state.values, jnp.arange(heads)))
        return Actor(head, values.freeze(state.values, head))

    def act(state: LearnerState, actor: Actor, observation: Array, key: Key) -> Array:
        if frozen:
            evaluate_frozen = jax.vmap(values.frozen_q, (0, None)) if behaviour.every_head else values.frozen_q
            q = evaluate_frozen(actor.frozen, observation)
        else:
            live = values.q(state.values, observation)
            q = live if behaviour.every_head else live[actor.head]
        return behaviour.act(q, actor.head, key)

    def observe(state: LearnerState, actor: Actor, transition: Transition, key: Key) -> LearnerState:
        key_mask, key_noise = jax.random.split(key)
        extras = dict(transition.extras)
        if masked:
            extras["mask"] = jax.random.bernoulli(key_mask, learner.mask_prob, (heads,)).astype(jnp.float32)
        if noisy:
            extras["noise"] = jax.random.normal(key_noise, (heads,))
        if values.prior is not None:
            priors = (values.prior(state.values, o) for o in (transition.o_tm1, transition.o_t))
            extras |= dict(zip(_PRIORS, priors, strict=True))
        transition = transition._replace(extras=extras)
        return state._replace(
            replay=replay.add(state.replay, transition),
            bonus=bonus.observe(state.bonus, transition),
            behaviour=behaviour.observe(state.behaviour, actor.head, transition),
            step=state.step + 1,
        )

    def errors(q_tm1: Array, batch: Transition, r_t: Array, target_t: Array, online_t: Array | None) -> Array:
        """TD errors [H, B] for rewards r_t [H, B]."""
        d_t = learner.discount * batch.d_t
        over_heads = (0, None, 0, None, 0)
        if online_t is not None:
            double = jax.vmap(jax.vmap(td.double_q_learning), in_axes=(*over_heads, 0))
            return double(q_tm1, batch.a_tm1, r_t, d_t, target_t, online_t)
        return jax.vmap(jax.vmap(td.q_learning), in_axes=over_heads)(q_tm1, batch.a_tm1, r_t, d_t, target_t)

    def update(state: LearnerState, key: Key) -> tuple[LearnerState, learning.Metrics]:
        batch = replay.sample(state.replay, key)
        bonus_state, known = bonus.learn(state.bonus, batch)

        def loss(q_tm1: Array, target_t: Array, online_t: Array | None) -> tuple[Array, learning.Metrics]:
            r_t = jnp.broadcast_to(batch.r_t, (heads, *batch.r_t.shape))
            plain = errors(q_tm1, batch, r_t, target_t, online_t)
            exploit_td = jax.lax.stop_gradient(plain[: learner.exploiters])
            taken = jax.vmap(jax.vmap(td.taken), in_axes=(0, None))(q_tm1[: learner.exploiters], batch.a_tm1)
            q = jax.lax.stop_gradient(taken)
            paid, extra = bonus.reward(known, batch, Exploit(q, q + exploit_td, exploit_td))
            explores = (jnp.arange(heads) >= learner.exploiters)[:, None]
            more = jax.lax.stop_gradient(paid) - batch.r_t
            if more.ndim == 2:  # a pay of its own for each explorer
                more = jnp.concatenate([jnp.zeros((learner.exploiters, learner.batch_size)), more])
            delta = plain + jnp.where(explores, more, 0.0)
            if noisy:
                delta += learner.noise_scale * batch.extras["noise"].T
            squares = 0.5 * jnp.square(delta)
            if masked:
                squares *= batch.extras["mask"].T
            return jnp.sum(jnp.mean(squares, axis=1)), learning.metrics(jnp.mean(squares), jnp.mean(extra))

        priors = None
        if values.prior is not None:
            priors = tuple(jnp.swapaxes(batch.extras[name], 0, 1) for name in _PRIORS)
        values_state, metrics = values.update(state.values, batch.o_tm1, batch.o_t, loss, priors)
        state = state._replace(values=values_state, bonus=bonus_state)
        return state, metrics

    def learn(state: LearnerState, key: Key) -> tuple[LearnerState, learning.Metrics]:
        ready = (state.step >= learner.min_replay) & (state.step % learner.learn_period == 0)
        return learning.when(ready, update, state, key)

    def evaluate(state: LearnerState, observation: Array) -> Array:
        return jnp.mean(values.still_q(state.values, observation)[: max(learner.exploiters, 1)], axis=0)

    return Agent(init, begin_episode, act, observe, learn, lambda actor: actor.head, evaluate, live=not frozen)
