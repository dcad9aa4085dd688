"""The learner: K exploiters and N explorers, all Q-learners over one replay (the paper's algorithms 1 and 2).

Exploiters regress on the reward r, explorers on what the bonus pays for the transition, for TDU r + β·σ. The loss is

    Σ_heads mean_batch ½ · mask · δ²,    δ_k = r_k + γ·d·v_k(s') − Q_k(s, a),

with v_k the target network's largest value, or, with double Q, its value of the online network's best action.
With `return_steps` above 1 a transition is so many steps as one: r their discounted sum, σ the spread of its TD error. With
`return_cut`, each head counts those up to the first that it would not have taken and that earned less than it expects.
An agent is a choice of values, bonus and behaviour (see the AGENTS table).
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from tdu import random, td
from tdu import replay as replays
from tdu.agents import learning, units
from tdu.agents.config import LearnerConfig
from tdu.metrics import STANDARD, Metrics, Reducers
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
"""Kept with each transition where a prior is a network to evaluate and never changes: it is met a batch of times."""


class LearnerState(NamedTuple):
    values: State
    replay: replays.Ring
    bonus: State
    behaviour: State
    phase: Array
    """Environment steps observed, modulo the learning period."""
    largest: State = ()
    """What `units` keeps of the rewards met; empty where values are in units of 1."""


class ActingParams(NamedTuple):
    """What the actors need of the learner."""

    values: Params
    behaviour: State
    largest: State = ()


class ActingHead(NamedTuple):
    head: Array
    frozen: State
    """The head's values as they were when the episode began; empty where the live head acts."""
    left: State = ()
    """Steps until another head is drawn; empty where one acts to the episode's end."""


def q_ensemble(
    spec: EnvSpec, config: LearnerConfig, *, heads: Heads, values: Values, bonus: Bonus, behaviour: Behaviour
) -> Agent:
    """The agent made of these parts."""
    join = config.discount if config.return_cut == "never" else None
    replay = replays.uniform(config.replay_capacity, config.batch_size, steps=config.return_steps, join=join)
    learning_the_task = max(heads.exploiters, 1)  # where none does nothing else, the explorer
    unit = units.make(config.reward_unit, config.discount)
    tells_rows = config.return_steps > 1 or config.reward_unit == "returns"
    masked = heads.mask_prob < 1.0
    noisy = heads.noise_scale > 0.0
    # Without exploiters, the heads that learn the task are paid the bonus too: it limits their values.
    reducers = STANDARD if heads.exploiters else Reducers(maximum=("largest_q", "largest_extra"))

    def init(key: Key) -> LearnerState:
        extras = ({"mask": jnp.zeros(heads.number)} if masked else {}) | (
            {"noise": jnp.zeros(heads.number)} if noisy else {}
        )
        if values.prior is not None:
            extras |= dict.fromkeys(_PRIORS, jnp.zeros((heads.number, spec.num_actions)))
        if tells_rows:
            extras |= {"last": jnp.zeros((), bool), "row": jnp.zeros((), jnp.int32)}
        return LearnerState(
            values=values.init(key),
            replay=replay.init(replays.example(spec, extras)),
            bonus=bonus.init(random.for_use(key, random.Use.BONUS)),
            behaviour=behaviour.init(),
            phase=jnp.zeros((), jnp.int32),
            largest=unit.init() if unit else (),
        )

    def params(state: LearnerState) -> ActingParams:
        return ActingParams(values.params(state.values), state.behaviour, state.largest)

    def in_rewards(x: Array, largest: State) -> Array:
        """What is in the unit of values, in that of the environment's rewards."""
        return x * unit.size(largest) if unit else x

    def in_values(transition: Transition, largest: State) -> Transition:
        """The transition with its reward in the unit of values, and those after it."""
        if not unit:
            return transition
        later = transition.later and in_values(transition.later, largest)
        return transition._replace(r_t=transition.r_t / unit.size(largest), later=later)

    def next_of(batch: Transition, of: Callable[[Transition], Array]) -> Array:
        """Something of every o_t whose value a target may need, [B·n, …]: the batch's own, and those of its later steps."""
        if not batch.later:
            return of(batch)
        steps = jnp.concatenate([of(batch)[:, None], of(batch.later)], axis=1)
        return steps.reshape(-1, *steps.shape[2:])

    def observe(state: LearnerState, acting: ActingHead, transition: Transition, key: Key) -> LearnerState:
        key_mask, key_noise = jax.random.split(key)
        extras = dict(transition.extras)
        if masked:
            extras["mask"] = jax.random.bernoulli(key_mask, heads.mask_prob, (heads.number,)).astype(jnp.float32)
        if noisy:
            extras["noise"] = jax.random.normal(key_noise, (heads.number,))
        if values.prior is not None:
            priors = (values.prior(state.values, o) for o in (transition.o_tm1, transition.o_t))
            extras |= dict(zip(_PRIORS, priors, strict=True))
        largest = unit.observe(state.largest, transition) if unit else ()
        transition = transition._replace(extras=extras)
        return state._replace(
            values=in_unit_of(state, largest),
            replay=replay.add(state.replay, transition),
            bonus=bonus.observe(state.bonus, transition),
            behaviour=behaviour.observe(state.behaviour, acting.head, transition),
            phase=(state.phase + 1) % config.learn_period,
            largest=largest,
        )

    def in_unit_of(state: LearnerState, largest: State) -> State:
        """What was learned, in the unit of now; before anything was, there is nothing to keep."""
        if not unit:
            return state.values
        begun = replay.size(state.replay) >= config.min_replay
        return values.rescaled(state.values, jnp.where(begun, unit.change(state.largest, largest), 1.0))

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
        a_tm1, r_t, d_t = (
            jnp.concatenate([getattr(batch, name)[:, None], getattr(batch.later, name)], axis=1)
            for name in ("a_tm1", "r_t", "d_t")
        )
        target_t, online_t = (x.reshape(heads.number, *a_tm1.shape, -1) for x in (target_t, online_t))
        error = jax.vmap(jax.vmap(td.cut_q_learning), in_axes=(0, None, None, None, 0, 0, None))
        return error(q_tm1, a_tm1, r_t, config.discount * d_t, target_t, online_t, batch.later.extras["follows"])

    def update(state: LearnerState, key: Key) -> tuple[LearnerState, Metrics]:
        batch = in_values(replay.sample(state.replay, key), state.largest)
        bonus_state, novelty = bonus.learn(state.bonus, batch)

        def loss(q_tm1: Array, target_t: Array, online_t: Array | None) -> tuple[Array, Metrics]:
            plain = errors(q_tm1, batch, target_t, online_t)
            exploit_td = jax.lax.stop_gradient(plain[: heads.exploiters])
            taken = jax.vmap(jax.vmap(td.taken), in_axes=(0, None))(q_tm1[: heads.exploiters], batch.a_tm1)
            q = jax.lax.stop_gradient(taken)
            explorers_reward, bonus_in_it = bonus.reward(novelty, batch, Exploit(q, exploit_td))
            delta = plain + beside_the_reward(jax.lax.stop_gradient(explorers_reward) - batch.r_t)
            if noisy:
                delta += heads.noise_scale * batch.extras["noise"].T
            squares = 0.5 * jnp.square(delta)
            if masked:
                squares *= batch.extras["mask"].T
            extra = {} if heads.exploiters else {"largest_extra": jnp.max(jnp.abs(explorers_reward - batch.r_t))}
            metrics = learning.metrics(
                loss=jnp.mean(squares),
                largest_q=in_rewards(jnp.max(jnp.abs(q_tm1[:learning_the_task])), state.largest),
                bonus=in_rewards(jnp.mean(bonus_in_it), state.largest),
                **extra,
            )
            return jnp.sum(jnp.mean(squares, axis=1)), metrics

        priors = None
        if values.prior is not None:
            before, after = _PRIORS
            both = batch.extras[before], next_of(batch, lambda steps: steps.extras[after])
            priors = tuple(jnp.swapaxes(prior, 0, 1) for prior in both)
        o_t = next_of(batch, lambda steps: steps.o_t)
        values_state, metrics = values.update(state.values, batch.o_tm1, o_t, loss, priors)
        state = state._replace(values=values_state, bonus=bonus_state)
        return state, metrics

    def beside_the_reward(pay: Array) -> Array:
        """What each head is paid beside the reward, [H, B], from what explorers are: [B] for all, or [N, B] for each."""
        explores = (jnp.arange(heads.number) >= heads.exploiters)[:, None]
        if pay.ndim == 2:
            pay = jnp.concatenate([jnp.zeros((heads.exploiters, config.batch_size)), pay])
        return jnp.where(explores, pay, 0.0)

    def learn(state: LearnerState, key: Key) -> tuple[LearnerState, Metrics]:
        ready = (replay.size(state.replay) >= config.min_replay) & (state.phase == 0)
        return learning.when(ready, update, state, key, reducers)

    def examine(state: LearnerState, batch: Transition) -> Examined:
        """A learning step on the batch that is not taken: what it would have looked at."""
        batch = in_values(batch, state.largest)
        _, novelty = bonus.learn(state.bonus, batch)

        def look(q_tm1: Array, target_t: Array, online_t: Array | None) -> tuple[Array, Examined]:
            q = jax.vmap(jax.vmap(td.taken), in_axes=(0, None))(q_tm1, batch.a_tm1)
            delta = errors(q_tm1, batch, target_t, online_t)
            exploit = Exploit(q[: heads.exploiters], delta[: heads.exploiters])
            found = Examined(q, delta, bonus.reward(novelty, batch, exploit)[1])
            return jnp.zeros(()), jax.tree.map(lambda x: in_rewards(x, state.largest), found)

        return values.update(state.values, batch.o_tm1, next_of(batch, lambda steps: steps.o_t), look)[1]

    def rebase(state: LearnerState) -> LearnerState:
        return state._replace(values=values.rebase(state.values), bonus=bonus.rebase(state.bonus))

    def cut(state: LearnerState) -> LearnerState:
        return state._replace(replay=replays.cut(state.replay))

    def every_q(params: ActingParams, observation: Array) -> Array:
        return in_rewards(values.noiseless_q(params.values, observation), params.largest)

    def mean_of_exploiters(params: ActingParams, observation: Array) -> Array:
        return jnp.mean(every_q(params, observation)[:learning_the_task], axis=0)

    frozen = heads.acting == "frozen"
    actor = _frozen_actor(heads.number, values, behaviour) if frozen else _live_actor(values, behaviour)
    return Agent(
        init=init,
        params=params,
        actor=_redrawing(actor, heads.head_steps) if heads.head_steps else actor,
        evaluator=learning.greedy_actor(mean_of_exploiters),
        values=mean_of_exploiters,
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
            q=every_q,
            remembered=lambda state, key: replay.sample(state.replay, key),
            examine=examine,
        ),
        extras=("last", "row") if tells_rows else (),
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

    def act(params: Any, acting: ActingHead, timestep: TimeStep, key: Key) -> tuple[Array, ActingHead]:
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
    """Acts with another head after so many steps of an episode, as if one began there."""

    def begin(params: ActingParams, key: Key) -> ActingHead:
        acting: ActingHead = actor.begin(params, key)
        return acting._replace(left=jnp.full((), steps, jnp.int32))

    def act(params: ActingParams, acting: ActingHead, timestep: TimeStep, key: Key) -> tuple[Array, ActingHead]:
        another = random.for_use(key, random.Use.HEAD)
        acting = jax.lax.cond(acting.left == 0, lambda: begin(params, another), lambda: acting)
        action, acting = actor.act(params, acting, timestep, key)
        return action, acting._replace(left=acting.left - 1)

    return Actor(begin, act, remembers=True)
