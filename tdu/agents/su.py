"""SU: successor uncertainties (Janz et al., 2019). A weight sample per episode over learned successor features.

    r ≈ φ(s, a)ᵀw,    ψ(s, a) = φ(s, a) + γ·ψ(s', a'),    Q(s, a) = ψ(s, a)ᵀw,    w ~ N(w̄, LLᵀ)

φ is a network with `features` outputs per action and a ReLU on them. ψ is a table with one row per state, or a network like
φ. LLᵀ is the posterior covariance of w: prior_variance·I at first, then one Bayesian update per transition with φ(s, a) and
noise of likelihood_variance. a' is the action of the current sample of w. w̄ and φ are trained to predict the reward, ψ to
satisfy its identity, and ψᵀw̄ also as a value function; all with Adam.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from tdu import behaviour, random, values
from tdu import replay as replays
from tdu.agents import assemble, learning
from tdu.agents.own_options import SuConfig
from tdu.errors import UserError
from tdu.metrics import Metrics
from tdu.types import Actor, Agent, Array, EnvSpec, Examined, Examiner, Key, Params, State, TimeStep, Transition
from tdu.values.shape import MAX_COUNT


class SuState(NamedTuple):
    local: State
    """φ."""
    successor: State
    """ψ."""
    mean: Array
    """w̄ [F]."""
    optimiser: State
    """Of w̄."""
    root: Array
    """L [F, F]; the covariance of w is LLᵀ."""
    acting: Array
    """The sample of w that acts, [F]."""
    replay: replays.Ring
    phase: Array
    """Environment steps observed, modulo the learning period."""
    updates: Array
    """Learning steps, counted up to 2³⁰; Adam needs no more."""


class SuParams(NamedTuple):
    successor: Params
    mean: Array
    root: Array


def with_transition(root: Array, features: Array, likelihood_variance: float) -> Array:
    """The posterior's root after one transition with `features` φ [F]: Potter's square-root form of the Kalman update.

    With a = Lᵀφ, the new root is L·(I − αaaᵀ), where α = 1 / (s + √(s·likelihood_variance)) and s = aᵀa +
    likelihood_variance. Rounding cannot make the covariance LLᵀ indefinite.
    """
    a = root.T @ features
    s = a @ a + likelihood_variance
    return root - jnp.outer(root @ a, a) / (s + jnp.sqrt(s * likelihood_variance))


def make(spec: EnvSpec, config: SuConfig) -> Agent:
    size, actions = config.features, spec.num_actions
    shape = assemble.shape(config, heads=1, prior_scale=0.0)
    outputs = spec._replace(num_actions=actions * size)
    local = values.make(outputs, shape, weights=values.FOLDED, force_dense=config.dense)
    is_table = _is_table(spec, config)
    successor = values.table(outputs, shape) if is_table else local
    replay = replays.uniform(config.replay_capacity, config.batch_size)
    pick = behaviour.epsilon_greedy(config.epsilon)

    def by_action(output: Array) -> Array:
        """[..., A·F] -> [..., A, F]."""
        return output.reshape(*output.shape[:-1], actions, size)

    def local_features(output: Array) -> Array:
        return jax.nn.relu(by_action(output[0]))

    def successor_features(output: Array) -> Array:
        return by_action(output[0]) if is_table else local_features(output)

    def successors(params: Params, observation: Array) -> Array:
        """ψ of every action, [A, F]."""
        return successor_features(successor.q(params, observation))

    def init(key: Key) -> SuState:
        mean = jnp.zeros(size)
        return SuState(
            local=local.init(key),
            successor=successor.init(random.for_use(key, random.Use.SUCCESSOR)),
            mean=mean,
            optimiser=shape.optimiser.init(mean),
            root=jnp.eye(size) * config.prior_variance**0.5,
            acting=mean,
            replay=replay.init(replays.example(spec)),
            phase=jnp.zeros((), jnp.int32),
            updates=jnp.zeros((), jnp.int32),
        )

    def params(state: SuState) -> SuParams:
        return SuParams(successor.params(state.successor), state.mean, state.root)

    def begin(params: SuParams, key: Key) -> Array:
        """The sample of w that acts."""
        return params.mean + params.root @ jax.random.normal(key, (size,))

    def act(params: SuParams, sample: Array, timestep: TimeStep, key: Key) -> tuple[Array, Array]:
        return pick(successors(params.successor, timestep.observation) @ sample, key), sample

    def observe(state: SuState, sample: Array, transition: Transition, _: Key) -> SuState:
        met = local_features(local.q(local.params(state.local), transition.o_tm1))[transition.a_tm1]
        return state._replace(
            root=with_transition(state.root, met, config.likelihood_variance),
            acting=sample,
            replay=replay.add(state.replay, transition),
            phase=(state.phase + 1) % config.learn_period,
        )

    def update(state: SuState, key: Key) -> tuple[SuState, Metrics]:
        batch = replay.sample(state.replay, key)
        d_t = config.discount * batch.d_t

        def of_action(x: Array) -> Array:
            """[B, A, F] -> [B, F]."""
            return jnp.einsum("baf,ba->bf", x, jax.nn.one_hot(batch.a_tm1, actions))

        def reward_loss(output_tm1: Array, *_: Array | None) -> tuple[Array, tuple[Array, Array, Array]]:
            local_tm1 = of_action(local_features(output_tm1))
            error = batch.r_t - local_tm1 @ state.mean
            loss = 0.5 * jnp.mean(jnp.square(error))
            return loss, (loss, error[:, None] * local_tm1, local_tm1)

        learned_local, (loss_of_reward, pull_of_reward, local_tm1) = local.update(
            state.local, batch.o_tm1, batch.o_t, reward_loss
        )

        def successor_loss(
            output_tm1: Array, target_t: Array, _: Array | None
        ) -> tuple[Array, tuple[Array, Array, Array]]:
            successor_tm1, successor_t = of_action(successor_features(output_tm1)), successor_features(target_t)
            best = jnp.argmax(successor_t @ state.acting, axis=-1)
            followed = jnp.take_along_axis(successor_t, best[:, None, None], axis=1)[:, 0]
            identity = local_tm1 + d_t[:, None] * followed - successor_tm1
            q_tm1 = successor_tm1 @ state.mean
            error = batch.r_t + d_t * jnp.max(successor_t @ state.mean, axis=-1) - q_tm1
            loss = 0.5 * jnp.mean(jnp.square(error) + jnp.mean(jnp.square(identity), axis=1))
            return loss, (loss, error[:, None] * successor_tm1, jnp.max(jnp.abs(q_tm1)))

        learned_successor, (loss_of_successor, pull_of_value, largest_q) = successor.update(
            state.successor, batch.o_tm1, batch.o_t, successor_loss
        )
        updates = jnp.minimum(state.updates + 1, MAX_COUNT)
        slope = -jnp.mean(pull_of_reward + pull_of_value, axis=0)
        mean, optimiser = shape.optimiser.update(state.mean, state.optimiser, slope, updates)
        state = state._replace(
            local=learned_local, successor=learned_successor, mean=mean, optimiser=optimiser, updates=updates
        )
        return state, learning.metrics(loss=loss_of_reward + loss_of_successor, largest_q=largest_q)

    def examine(state: SuState, batch: Transition) -> Examined:
        """Values and TD errors of w̄ on a batch; SU pays no bonus."""
        outputs = successor.evaluate(state.successor, batch.o_tm1, batch.o_t)
        q_tm1, q_t = (successor_features(output) @ state.mean for output in (outputs.q_tm1, outputs.target_t))
        q = jnp.take_along_axis(q_tm1, batch.a_tm1[:, None], axis=1)[:, 0]
        delta = batch.r_t + config.discount * batch.d_t * jnp.max(q_t, axis=1) - q
        return Examined(q[None], delta[None], jnp.zeros_like(q))

    def mean_values(params: SuParams, observation: Array) -> Array:
        return successors(params.successor, observation) @ params.mean

    def learn(state: SuState, key: Key) -> tuple[SuState, Metrics]:
        ready = (replay.size(state.replay) >= config.min_replay) & (state.phase == 0)
        usable = jnp.all(jnp.isfinite(state.acting))
        state, metrics = learning.when(ready, update, state, key)
        # A sample that is not finite picks meaningless actions. A loss that is not finite ends the run.
        return state, metrics | {"loss": jnp.where(usable, metrics["loss"], jnp.nan)}

    return Agent(
        init=init,
        params=params,
        actor=Actor(begin, act),
        evaluator=learning.greedy_actor(mean_values),
        values=mean_values,
        observe=observe,
        learn=learn,
        rebase=lambda state: state._replace(
            local=local.rebase(state.local), successor=successor.rebase(state.successor)
        ),
        head=lambda sample: jnp.zeros((), jnp.int32),
        discount=config.discount,
        examiner=Examiner(
            exploiters=1,
            explorers=0,
            q=lambda params, observation: mean_values(params, observation)[None],
            remembered=lambda state, key: replay.sample(state.replay, key),
            examine=examine,
        ),
    )


def _is_table(spec: EnvSpec, config: SuConfig) -> bool:
    """Whether ψ is a table."""
    one_hot = spec.num_states is not None
    if config.successor == "table" and not one_hot:
        raise UserError(f"successor=table needs a one-hot observation, which {spec.name} does not have; leave it out.")
    if config.successor == "network" and not one_hot:
        raise UserError(
            f"successor=network changes nothing on {spec.name}, whose observation is not one-hot; leave it out."
        )
    return one_hot and config.successor != "network"
