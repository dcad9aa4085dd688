"""The learner: K exploiters and N explorers, all Q-learners over one replay (the paper's algorithms 1 and 2).

Exploiters regress on the reward r, explorers on what the bonus pays for the transition, for TDU r + β·σ. The loss is

    Σ_heads mean_batch ½ · mask · δ²,    δ_k = r_k + γ·d·v_k(s') − Q_k(s, a),

with v_k the target network's largest value, or, with double Q-learning, its value of the online network's best action.
With `return_steps` = n, a transition spans n steps: r is their discounted sum, and σ the spread of the n-step TD error. With
`return_cut`, each head uses the steps before the first that it would not have taken and that earned less than it expects.
An agent is a choice of values, bonus and behaviour (see the AGENTS table).
"""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from tdu import random
from tdu import replay as replays
from tdu.agents import acting, learning, units
from tdu.agents.acting import ActingHead, ActingParams
from tdu.agents.config import LearnerConfig
from tdu.metrics import Metrics, Reducers
from tdu.types import (
    Agent,
    Array,
    Behaviour,
    Bonus,
    EnvSpec,
    Evaluated,
    Examined,
    Examiner,
    Exploit,
    Key,
    State,
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


def q_ensemble(
    spec: EnvSpec, config: LearnerConfig, *, heads: Heads, values: Values, bonus: Bonus, behaviour: Behaviour
) -> Agent:
    join = config.discount if config.return_cut == "never" else None
    steps = config.steps_of_returns(spec)
    replay = replays.uniform(config.replay_capacity, config.batch_size, steps=steps, join=join)
    k = heads.exploiters
    task_heads = max(k, 1)  # without exploiters, the explorer's values are those of the task
    unit = units.make(config.reward_unit, config.discount)
    with_rows = steps > 1 or config.reward_unit == "returns"
    masked = heads.mask_prob < 1.0
    noisy = heads.noise_scale > 0.0
    # Without exploiters, the heads that learn the task are paid the bonus too: it limits their values.
    has_unit = config.reward_unit != "one"
    extra_metrics = (*(() if k else ("largest_extra",)), *(("reward_unit",) if has_unit else ()))
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
            reward_scale=unit.init(),
        )

    def params(state: EnsembleState) -> ActingParams:
        return ActingParams(values.params(state.values), state.behaviour, state.reward_scale)

    def in_rewards(x: Array, reward_scale: State) -> Array:
        """Values in the environment's unit, from those in the unit of learning."""
        return x * unit.size(reward_scale)

    def in_values(transition: Transition, reward_scale: State) -> Transition:
        """The transition, and the steps after it, with rewards in the unit of learning."""
        later = transition.later and in_values(transition.later, reward_scale)
        return transition._replace(r_t=transition.r_t / unit.size(reward_scale), later=later)

    def observe(state: EnsembleState, actor_state: ActingHead, transition: Transition, key: Key) -> EnsembleState:
        key_mask, key_noise = jax.random.split(key)
        extras = dict(transition.extras)
        if masked:
            extras["mask"] = jax.random.bernoulli(key_mask, heads.mask_prob, (heads.number,)).astype(jnp.float32)
        if noisy:
            extras["noise"] = jax.random.normal(key_noise, (heads.number,))
        if values.prior is not None:
            priors = (values.prior(state.values, o) for o in (transition.o_tm1, transition.o_t))
            extras |= dict(zip(_PRIORS, priors, strict=True))
        reward_scale = unit.observe(state.reward_scale, transition)
        transition = transition._replace(extras=extras)
        return state._replace(
            values=in_unit_of(state, reward_scale),
            replay=replay.add(state.replay, transition),
            bonus=bonus.observe(state.bonus, transition),
            behaviour=behaviour.observe(state.behaviour, actor_state.head, transition),
            phase=(state.phase + 1) % config.learn_period,
            reward_scale=reward_scale,
        )

    def in_unit_of(state: EnsembleState, reward_scale: State) -> State:
        """The learned values in the new unit; unchanged before the first learning step."""
        if not has_unit:
            return state.values
        begun = replay.size(state.replay) >= config.min_replay
        return values.rescaled(state.values, jnp.where(begun, unit.change(state.reward_scale, reward_scale), 1.0))

    def update(state: EnsembleState, key: Key) -> tuple[EnsembleState, Metrics]:
        """One learning step on a batch of the replay."""
        batch = in_values(replay.sample(state.replay, key), state.reward_scale)
        bonus_state, novelty = bonus.learn(state.bonus, batch)

        def loss(q_tm1: Array, target_t: Array, online_t: Array | None) -> tuple[Array, Metrics]:
            on_reward = learning.errors(Evaluated(q_tm1, target_t, online_t), batch, config.discount)
            exploit = Exploit(learning.taken(q_tm1[:k], batch), on_reward[:k])
            paid, bonus_in_it = bonus.reward(novelty, batch, jax.lax.stop_gradient(exploit))
            delta = on_reward + by_head(jax.lax.stop_gradient(paid) - batch.r_t)
            if noisy:
                delta += heads.noise_scale * batch.extras["noise"].T
            squares = 0.5 * jnp.square(delta)
            if masked:
                squares *= batch.extras["mask"].T
            extra: dict[str, Array | float] = {} if k else {"largest_extra": jnp.max(jnp.abs(paid - batch.r_t))}
            if has_unit:
                extra["reward_unit"] = unit.size(state.reward_scale)
            metrics = learning.metrics(
                loss=jnp.mean(squares),
                largest_q=in_rewards(jnp.max(jnp.abs(q_tm1[:task_heads])), state.reward_scale),
                bonus=in_rewards(jnp.mean(bonus_in_it), state.reward_scale),
                **extra,
            )
            return jnp.sum(jnp.mean(squares, axis=1)), metrics

        o_t, priors = learning.next_of(batch, lambda steps: steps.o_t), None
        if values.prior is not None:
            prior_t = learning.next_of(batch, lambda steps: steps.extras["prior_t"])
            priors = jnp.swapaxes(batch.extras["prior_tm1"], 0, 1), jnp.swapaxes(prior_t, 0, 1)
        values_state, metrics = values.update(state.values, batch.o_tm1, o_t, loss, priors)
        return state._replace(values=values_state, bonus=bonus_state), metrics

    def by_head(extra: Array) -> Array:
        """What each head is paid beside the reward, [H, B], from the explorers', [B] for all or [N, B]."""
        explores = (jnp.arange(heads.number) >= k)[:, None]
        if extra.ndim == 2:
            extra = jnp.concatenate([jnp.zeros((k, config.batch_size)), extra])
        return jnp.where(explores, extra, 0.0)

    def learn(state: EnsembleState, key: Key) -> tuple[EnsembleState, Metrics]:
        stored = replay.size(state.replay)
        is_turn = (state.phase == 0) | (stored < config.eager_steps)
        ready = (stored >= config.min_replay) & is_turn
        return learning.when(ready, update, state, key, reducers)

    def examine(state: EnsembleState, batch: Transition) -> Examined:
        """Values, TD errors and bonus that a learning step on the batch would use."""
        batch = in_values(batch, state.reward_scale)
        _, novelty = bonus.learn(state.bonus, batch)
        evaluated = values.evaluate(state.values, batch.o_tm1, learning.next_of(batch, lambda steps: steps.o_t))
        q, delta = learning.taken(evaluated.q_tm1, batch), learning.errors(evaluated, batch, config.discount)
        examined = Examined(q, delta, bonus.reward(novelty, batch, Exploit(q[:k], delta[:k]))[1])
        return jax.tree.map(lambda x: in_rewards(x, state.reward_scale), examined)

    def rebase(state: EnsembleState) -> EnsembleState:
        return state._replace(values=values.rebase(state.values), bonus=bonus.rebase(state.bonus))

    def cut(state: EnsembleState) -> EnsembleState:
        return state._replace(replay=replays.cut(state.replay))

    def all_q(params: ActingParams, observation: Array) -> Array:
        return in_rewards(values.noiseless_q(params.values, observation), params.reward_scale)

    def task_values(params: ActingParams, observation: Array) -> Array:
        return jnp.mean(all_q(params, observation)[:task_heads], axis=0)

    live = heads.acting == "live"
    actor = acting.live(values, behaviour) if live else acting.frozen(heads.number, values, behaviour)
    return Agent(
        init=init,
        params=params,
        actor=acting.redrawing(actor, heads.head_steps) if heads.head_steps else actor,
        evaluator=learning.greedy_actor(task_values),
        values=task_values,
        observe=observe,
        learn=learn,
        rebase=rebase,
        head=lambda actor_state: actor_state.head,
        discount=config.discount,
        reducers=reducers,
        live=live,
        examiner=Examiner(
            exploiters=heads.exploiters,
            explorers=heads.explorers,
            q=all_q,
            remembered=lambda state, key: replay.sample(state.replay, key),
            examine=examine,
        ),
        extras=("last", "row") if with_rows else (),
        cut=cut if steps > 1 else None,
    )
