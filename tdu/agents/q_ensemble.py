"""The learner: K exploiters and N explorers, all Q-learners over one replay (the paper's algorithms 1 and 2).

Exploiters regress on the reward r, explorers on what the bonus pays for the transition, for TDU r + β·σ. The loss is

    Σ_heads mean_batch ½ · mask · δ²,    δ_k = r_k + γ·d·v_k(s') − Q_k(s, a),

with v_k the target network's largest value, or, with double Q-learning, its value of the online network's best action.
With `return_steps` = n, a transition spans n steps: r is their discounted sum, and σ the spread of the n-step TD error. With
`return_cut`, each head uses the steps before the first that it would not have taken and that earned less than it expects.
An agent is a choice of values, bonus and behaviour (see the AGENTS table).
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from tdu import random, td
from tdu import replay as replays
from tdu.agents import learning, units
from tdu.agents.config import LearnerConfig
from tdu.metrics import Metrics, Reducers
from tdu.types import (
    Actor,
    Agent,
    Array,
    Behaviour,
    Bonus,
    EnvSpec,
    Examined,
    Examiner,
    Exploit,
    Key,
    Params,
    State,
    TimeStep,
    Transition,
    Values,
)


class Heads(NamedTuple):
    """How the heads of an agent are trained and act. The defaults are those of an agent with one head."""

    exploiters: int
    explorers: int
    mask_prob: float = 1.0
    noise_scale: float = 0.0
    acting: Literal["frozen", "live"] = "live"
    head_steps: int = 0

    @property
    def number(self) -> int:
        """Exploiters and explorers."""
        return self.exploiters + self.explorers


_PRIORS = ("prior_tm1", "prior_t")
"""Constant priors are stored with each transition, which is sampled many times: they are evaluated only once."""


class EnsembleState(NamedTuple):
    values: State
    replay: replays.Ring
    bonus: State
    behaviour: State
    phase: Array
    """Environment steps observed, modulo the learning period."""
    reward_scale: State = ()
    """Reward statistics of `units`; empty where the unit of values is 1."""


class ActingParams(NamedTuple):
    """What the actors need."""

    values: Params
    behaviour: State
    reward_scale: State = ()


class ActingHead(NamedTuple):
    head: Array
    frozen: State
    """The head as it was when the episode began; empty where the live head acts."""
    left: State = ()
    """Steps until another head is drawn; empty where one head acts for the whole episode."""


def q_ensemble(
    spec: EnvSpec, config: LearnerConfig, *, heads: Heads, values: Values, bonus: Bonus, behaviour: Behaviour
) -> Agent:
    """The agent made of these parts."""
    join = config.discount if config.return_cut == "never" else None
    replay = replays.uniform(config.replay_capacity, config.batch_size, steps=config.return_steps, join=join)
    task_heads = max(heads.exploiters, 1)  # without exploiters, the explorer's values are those of the task
    unit = units.make(config.reward_unit, config.discount)
    with_rows = config.return_steps > 1 or config.reward_unit == "returns"
    masked = heads.mask_prob < 1.0
    noisy = heads.noise_scale > 0.0
    # Without exploiters, the heads that learn the task are paid the bonus too: it limits their values.
    extra_metrics = (*(() if heads.exploiters else ("largest_extra",)), *(("reward_unit",) if unit else ()))
    reducers = Reducers(maximum=("largest_q", *extra_metrics))

    def init(key: Key) -> EnsembleState:
        extras = ({"mask": jnp.zeros(heads.number)} if masked else {}) | (
            {"noise": jnp.zeros(heads.number)} if noisy else {}
        )
        if values.prior is not None:
            extras |= dict.fromkeys(_PRIORS, jnp.zeros((heads.number, spec.num_actions)))
        if with_rows:
            extras |= {"last": jnp.zeros((), bool), "row": jnp.zeros((), jnp.int32)}
        return EnsembleState(
            values=values.init(key),
            replay=replay.init(replays.example(spec, extras)),
            bonus=bonus.init(random.for_use(key, random.Use.BONUS)),
            behaviour=behaviour.init(),
            phase=jnp.zeros((), jnp.int32),
            reward_scale=unit.init() if unit else (),
        )

    def params(state: EnsembleState) -> ActingParams:
        return ActingParams(values.params(state.values), state.behaviour, state.reward_scale)

    def in_rewards(x: Array, reward_scale: State) -> Array:
        """Values in the environment's unit, from those in the unit of learning."""
        return x * unit.size(reward_scale) if unit else x

    def in_values(transition: Transition, reward_scale: State) -> Transition:
        """The transition, and the steps after it, with rewards in the unit of learning."""
        if not unit:
            return transition
        later = transition.later and in_values(transition.later, reward_scale)
        return transition._replace(r_t=transition.r_t / unit.size(reward_scale), later=later)

    def next_of(batch: Transition, of: Callable[[Transition], Array]) -> Array:
        """What `of` reads of every o_t that a target may use, [B·n, …]: the batch's own and those of its later steps."""
        if not batch.later:
            return of(batch)
        steps = jnp.concatenate([of(batch)[:, None], of(batch.later)], axis=1)
        return steps.reshape(-1, *steps.shape[2:])

    def observe(state: EnsembleState, acting: ActingHead, transition: Transition, key: Key) -> EnsembleState:
        key_mask, key_noise = jax.random.split(key)
        extras = dict(transition.extras)
        if masked:
            extras["mask"] = jax.random.bernoulli(key_mask, heads.mask_prob, (heads.number,)).astype(jnp.float32)
        if noisy:
            extras["noise"] = jax.random.normal(key_noise, (heads.number,))
        if values.prior is not None:
            priors = (values.prior(state.values, o) for o in (transition.o_tm1, transition.o_t))
            extras |= dict(zip(_PRIORS, priors, strict=True))
        reward_scale = unit.observe(state.reward_scale, transition) if unit else ()
        transition = transition._replace(extras=extras)
        return state._replace(
            values=in_unit_of(state, reward_scale),
            replay=replay.add(state.replay, transition),
            bonus=bonus.observe(state.bonus, transition),
            behaviour=behaviour.observe(state.behaviour, acting.head, transition),
            phase=(state.phase + 1) % config.learn_period,
            reward_scale=reward_scale,
        )

    def in_unit_of(state: EnsembleState, reward_scale: State) -> State:
        """The learned values in the new unit; unchanged before the first learning step."""
        if not unit:
            return state.values
        begun = replay.size(state.replay) >= config.min_replay
        return values.rescaled(state.values, jnp.where(begun, unit.change(state.reward_scale, reward_scale), 1.0))

    def errors(q_tm1: Array, batch: Transition, target_t: Array, online_t: Array | None) -> Array:
        """TD errors [H, B] on the environment's rewards, from the values of `next_of`."""
        if batch.later:
            return cut_errors(q_tm1, batch, target_t, target_t if online_t is None else online_t)
        r_t = jnp.broadcast_to(batch.r_t, (heads.number, *batch.r_t.shape))
        d_t = config.discount * batch.d_t
        over_heads = (0, None, 0, None, 0)
        if online_t is not None:
            double = jax.vmap(jax.vmap(td.double_q_learning), in_axes=(*over_heads, 0))
            return double(q_tm1, batch.a_tm1, r_t, d_t, target_t, online_t)
        return jax.vmap(jax.vmap(td.q_learning), in_axes=over_heads)(q_tm1, batch.a_tm1, r_t, d_t, target_t)

    def cut_errors(q_tm1: Array, batch: Transition, target_t: Array, online_t: Array) -> Array:
        assert batch.later
        a_tm1, r_t, d_t = (
            jnp.concatenate([getattr(batch, name)[:, None], getattr(batch.later, name)], axis=1)
            for name in ("a_tm1", "r_t", "d_t")
        )
        target_t, online_t = (x.reshape(heads.number, *a_tm1.shape, -1) for x in (target_t, online_t))
        error = jax.vmap(jax.vmap(td.cut_q_learning), in_axes=(0, None, None, None, 0, 0, None))
        return error(q_tm1, a_tm1, r_t, config.discount * d_t, target_t, online_t, batch.later.extras["follows"])

    def update(state: EnsembleState, key: Key) -> tuple[EnsembleState, Metrics]:
        batch = in_values(replay.sample(state.replay, key), state.reward_scale)
        bonus_state, novelty = bonus.learn(state.bonus, batch)

        def loss(q_tm1: Array, target_t: Array, online_t: Array | None) -> tuple[Array, Metrics]:
            plain = errors(q_tm1, batch, target_t, online_t)
            exploit_td = jax.lax.stop_gradient(plain[: heads.exploiters])
            taken = jax.vmap(jax.vmap(td.taken), in_axes=(0, None))(q_tm1[: heads.exploiters], batch.a_tm1)
            q = jax.lax.stop_gradient(taken)
            explorers_reward, bonus_in_it = bonus.reward(novelty, batch, Exploit(q, exploit_td))
            delta = plain + bonus_by_head(jax.lax.stop_gradient(explorers_reward) - batch.r_t)
            if noisy:
                delta += heads.noise_scale * batch.extras["noise"].T
            squares = 0.5 * jnp.square(delta)
            if masked:
                squares *= batch.extras["mask"].T
            extra = {} if heads.exploiters else {"largest_extra": jnp.max(jnp.abs(explorers_reward - batch.r_t))}
            if unit:
                extra["reward_unit"] = unit.size(state.reward_scale)
            metrics = learning.metrics(
                loss=jnp.mean(squares),
                largest_q=in_rewards(jnp.max(jnp.abs(q_tm1[:task_heads])), state.reward_scale),
                bonus=in_rewards(jnp.mean(bonus_in_it), state.reward_scale),
                **extra,
            )
            return jnp.sum(jnp.mean(squares, axis=1)), metrics

        priors = None
        if values.prior is not None:
            prior_tm1, prior_t = batch.extras[_PRIORS[0]], next_of(batch, lambda steps: steps.extras[_PRIORS[1]])
            priors = jnp.swapaxes(prior_tm1, 0, 1), jnp.swapaxes(prior_t, 0, 1)
        o_t = next_of(batch, lambda steps: steps.o_t)
        values_state, metrics = values.update(state.values, batch.o_tm1, o_t, loss, priors)
        state = state._replace(values=values_state, bonus=bonus_state)
        return state, metrics

    def bonus_by_head(pay: Array) -> Array:
        """Each head's bonus, [H, B], from the explorers', [B] for all or [N, B]."""
        explores = (jnp.arange(heads.number) >= heads.exploiters)[:, None]
        if pay.ndim == 2:
            pay = jnp.concatenate([jnp.zeros((heads.exploiters, config.batch_size)), pay])
        return jnp.where(explores, pay, 0.0)

    def learn(state: EnsembleState, key: Key) -> tuple[EnsembleState, Metrics]:
        ready = (replay.size(state.replay) >= config.min_replay) & (state.phase == 0)
        return learning.when(ready, update, state, key, reducers)

    def examine(state: EnsembleState, batch: Transition) -> Examined:
        """Values, TD errors and bonus that a learning step on the batch would use."""
        batch = in_values(batch, state.reward_scale)
        _, novelty = bonus.learn(state.bonus, batch)
        of_batch = values.evaluate(state.values, batch.o_tm1, next_of(batch, lambda steps: steps.o_t))
        q = jax.vmap(jax.vmap(td.taken), in_axes=(0, None))(of_batch.q_tm1, batch.a_tm1)
        delta = errors(of_batch.q_tm1, batch, of_batch.target_t, of_batch.online_t)
        exploit = Exploit(q[: heads.exploiters], delta[: heads.exploiters])
        examined = Examined(q, delta, bonus.reward(novelty, batch, exploit)[1])
        return jax.tree.map(lambda x: in_rewards(x, state.reward_scale), examined)

    def rebase(state: EnsembleState) -> EnsembleState:
        return state._replace(values=values.rebase(state.values), bonus=bonus.rebase(state.bonus))

    def cut(state: EnsembleState) -> EnsembleState:
        return state._replace(replay=replays.cut(state.replay))

    def all_q(params: ActingParams, observation: Array) -> Array:
        return in_rewards(values.noiseless_q(params.values, observation), params.reward_scale)

    def task_values(params: ActingParams, observation: Array) -> Array:
        return jnp.mean(all_q(params, observation)[:task_heads], axis=0)

    frozen = heads.acting == "frozen"
    actor = _frozen_actor(heads.number, values, behaviour) if frozen else _live_actor(values, behaviour)
    return Agent(
        init=init,
        params=params,
        actor=_redrawing(actor, heads.head_steps) if heads.head_steps else actor,
        evaluator=learning.greedy_actor(task_values),
        values=task_values,
        observe=observe,
        learn=learn,
        rebase=rebase,
        head=lambda acting: acting.head,
        discount=config.discount,
        reducers=reducers,
        live=not frozen,
        examiner=Examiner(
            exploiters=heads.exploiters,
            explorers=heads.explorers,
            q=all_q,
            remembered=lambda state, key: replay.sample(state.replay, key),
            examine=examine,
        ),
        extras=("last", "row") if with_rows else (),
        cut=cut if config.return_steps > 1 else None,
    )


def _frozen_actor(heads: int, values: Values, behaviour: Behaviour) -> Actor:
    """Acts with the head as it was when the episode began."""
    freeze, frozen_q = values.freeze, values.frozen_q
    if behaviour.every_head:
        freeze, frozen_q = jax.vmap(freeze, in_axes=(None, 0)), jax.vmap(frozen_q, in_axes=(0, None))

    def begin(params: ActingParams, key: Key) -> ActingHead:
        head = behaviour.begin(params.behaviour, key)
        return ActingHead(head, freeze(params.values, jnp.arange(heads) if behaviour.every_head else head))

    def act(params: ActingParams, acting: ActingHead, timestep: TimeStep, key: Key) -> tuple[Array, ActingHead]:
        del params
        return behaviour.act(frozen_q(acting.frozen, timestep.observation), acting.head, key), acting

    return Actor(begin, act)


def _live_actor(values: Values, behaviour: Behaviour) -> Actor:
    """Acts with the head as it learns."""

    def begin(params: ActingParams, key: Key) -> ActingHead:
        return ActingHead(behaviour.begin(params.behaviour, key), ())

    def act(params: ActingParams, acting: ActingHead, timestep: TimeStep, key: Key) -> tuple[Array, ActingHead]:
        live = values.q(params.values, timestep.observation)
        return behaviour.act(live if behaviour.every_head else live[acting.head], acting.head, key), acting

    return Actor(begin, act)


def _redrawing(actor: Actor, steps: int) -> Actor:
    """Draws another head every `steps` steps of an episode, as at its beginning."""

    def begin(params: ActingParams, key: Key) -> ActingHead:
        acting: ActingHead = actor.begin(params, key)
        return acting._replace(left=jnp.full((), steps, jnp.int32))

    def act(params: ActingParams, acting: ActingHead, timestep: TimeStep, key: Key) -> tuple[Array, ActingHead]:
        another = random.for_use(key, random.Use.HEAD)
        acting = jax.lax.cond(acting.left == 0, lambda: begin(params, another), lambda: acting)
        action, acting = actor.act(params, acting, timestep, key)
        return action, acting._replace(left=acting.left - 1)

    return Actor(begin, act, remembers=True)
