"""SU: successor uncertainties (Janz et al., 2019). A weight sample per episode over learned successor features.

    r ≈ φ(s, a)ᵀw,    ψ(s, a) = φ(s, a) + γ·ψ(s', a'),    Q(s, a) = ψ(s, a)ᵀw,    w ~ N(w̄, P⁻¹)

φ and ψ are two networks whose outputs are `features` numbers per action, cut at 0. P starts at I/prior_variance and grows by
φφᵀ/likelihood_variance with every transition met. a' is the action that the sample in use would take. w̄ and φ are trained to
predict the reward, ψ to satisfy its identity, and ψᵀw̄ also as a value function; all by Adam.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

from tdu import adam as adams
from tdu import behaviour, values
from tdu import replay as replays
from tdu.agents import assemble, learning
from tdu.agents.config import SingleConfig
from tdu.errors import UserError
from tdu.options import option
from tdu.types import Actor, Agent, Array, EnvSpec, Examined, Examiner, Key, Params, TimeStep, Transition
from tdu.values.shape import FAR


@dataclass(frozen=True)
class Config(SingleConfig):
    """bsuite's DQN with the paper's best values."""

    hidden_sizes: tuple[int, ...] = option((64,), "Widths of the hidden layers.")
    features: int = option(64, "Width of φ and ψ for each action.", minimum=1, maximum=1024)
    likelihood_variance: float = option(10.0, "Variance of the noise in rewards.", above=0)
    prior_variance: float = option(1e-3, "Variance of the weights before any reward is seen.", above=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bootstrap != "max":
            raise UserError("agent su follows its own sample of weights; bootstrap=double would change nothing.")
        if self.observations != "raw":
            raise UserError("agent su needs features above 0, which centred observations do not have; leave them raw.")


class State(NamedTuple):
    networks: Any
    """φ and ψ."""
    mean: Array
    """w̄ [F]."""
    moments: adams.Moments
    precision: Array
    """P [F, F]."""
    acting: Array
    """The sample of w that acts at present, [F]."""
    replay: replays.Ring
    phase: Array
    """Environment steps observed, modulo the learning period."""
    updates: Array
    """Learning steps, counted up to 2³⁰; Adam needs no more."""


class ActingParams(NamedTuple):
    """What the actors need of the learner."""

    networks: Params
    mean: Array
    precision: Array


def make(spec: EnvSpec, config: Config) -> Agent:
    """The agent for an environment."""
    size, actions = config.features, spec.num_actions
    shape = assemble.shape(config, heads=2, prior_scale=0.0)
    networks = values.make(
        spec._replace(num_actions=actions * size), shape, weights=values.FOLDED, force_dense=config.dense
    )
    replay = replays.uniform(config.replay_capacity, config.batch_size)
    pick = behaviour.epsilon_greedy(config.epsilon)

    def features(output: Array) -> Array:
        """[..., A·F] -> [..., A, F]."""
        return jax.nn.relu(output.reshape(*output.shape[:-1], actions, size))

    def init(key: Key) -> State:
        mean = jnp.zeros(size)
        return State(
            networks=networks.init(key),
            mean=mean,
            moments=adams.init(mean),
            precision=jnp.eye(size) / config.prior_variance,
            acting=mean,
            replay=replay.init(replays.example(spec)),
            phase=jnp.zeros((), jnp.int32),
            updates=jnp.zeros((), jnp.int32),
        )

    def params(state: State) -> ActingParams:
        return ActingParams(networks.params(state.networks), state.mean, state.precision)

    def begin(params: ActingParams, key: Key) -> Array:
        """The sample of w that acts."""
        root = jnp.linalg.cholesky(params.precision)
        return params.mean + solve_triangular(root.T, jax.random.normal(key, (size,)), lower=False)

    def act(params: ActingParams, sample: Array, timestep: TimeStep, key: Key) -> tuple[Array, Array]:
        successors = features(networks.q(params.networks, timestep.observation)[1])
        return pick(successors @ sample, key), sample

    def observe(state: State, sample: Array, transition: Transition, key: Key) -> State:
        del key
        met = features(networks.q(networks.params(state.networks), transition.o_tm1)[0])[transition.a_tm1]
        return state._replace(
            precision=state.precision + jnp.outer(met, met) / config.likelihood_variance,
            acting=sample,
            replay=replay.add(state.replay, transition),
            phase=(state.phase + 1) % config.learn_period,
        )

    def update(state: State, key: Key) -> tuple[State, learning.Metrics]:
        batch = replay.sample(state.replay, key)
        d_t = config.discount * batch.d_t

        def of_action(x: Array) -> Array:
            """[B, A, F] -> [B, F]."""
            return jnp.einsum("baf,ba->bf", x, jax.nn.one_hot(batch.a_tm1, actions))

        def loss(output_tm1: Array, target_t: Array, _: Any) -> tuple[Array, Any]:
            local_tm1, successor_tm1 = of_action(features(output_tm1[0])), of_action(features(output_tm1[1]))
            successor_t = features(target_t[1])
            best = jnp.argmax(successor_t @ state.acting, axis=-1)
            followed = jnp.take_along_axis(successor_t, best[:, None, None], axis=1)[:, 0]
            identity = jax.lax.stop_gradient(local_tm1 + d_t[:, None] * followed) - successor_tm1
            reward_error = batch.r_t - local_tm1 @ state.mean
            value = jnp.max(successor_t @ state.mean, axis=-1)
            value_error = batch.r_t + d_t * value - successor_tm1 @ state.mean
            squares = jnp.square(reward_error) + jnp.square(value_error) + jnp.mean(jnp.square(identity), axis=1)
            slope = -jnp.mean(reward_error[:, None] * local_tm1 + value_error[:, None] * successor_tm1, axis=0)
            total = 0.5 * jnp.mean(squares)
            return total, (total, slope, jnp.max(jnp.abs(successor_tm1 @ state.mean)))

        learned, (total, slope, largest_q) = networks.update(state.networks, batch.o_tm1, batch.o_t, loss)
        updates = jnp.minimum(state.updates + 1, FAR)
        mean, moments = adams.update(shape.adam, state.mean, state.moments, slope, updates)
        state = state._replace(networks=learned, mean=mean, moments=moments, updates=updates)
        return state, learning.metrics(total, largest_q=largest_q)

    def examine(state: State, batch: Transition) -> Examined:
        """What w̄ says of a batch; SU pays no bonus."""

        def look(output_tm1: Array, target_t: Array, _: Any) -> tuple[Array, Examined]:
            q_tm1, q_t = features(output_tm1[1]) @ state.mean, features(target_t[1]) @ state.mean
            q = jnp.take_along_axis(q_tm1, batch.a_tm1[:, None], axis=1)[:, 0]
            delta = batch.r_t + config.discount * batch.d_t * jnp.max(q_t, axis=1) - q
            return jnp.zeros(()), Examined(q[None], delta[None], jnp.zeros_like(q))

        return networks.update(state.networks, batch.o_tm1, batch.o_t, look)[1]

    def mean_values(params: ActingParams, observation: Array) -> Array:
        return features(networks.q(params.networks, observation)[1]) @ params.mean

    def learn(state: State, key: Key) -> tuple[State, learning.Metrics]:
        ready = (replay.size(state.replay) >= config.min_replay) & (state.phase == 0)
        return learning.when(ready, update, state, key)

    return Agent(
        init=init,
        params=params,
        actor=Actor(begin, act),
        evaluator=learning.greedy_actor(mean_values),
        values=mean_values,
        observe=observe,
        learn=learn,
        rebase=lambda state: state._replace(networks=networks.rebase(state.networks)),
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
