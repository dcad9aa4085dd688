"""TDU for policy gradients (the paper's algorithm 3): an actor-critic whose reward is r + β·σ.

K critics with priors learn the value of the policy from r; σ is the spread of their TD errors. The policy and its baseline
are one network that learns from r + β·σ. With β = 0 it is bsuite's advantage actor-critic (sequences of 32 steps, TD(λ), no
replay), and the critics have no effect.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from tdu import bonus, td, values
from tdu import replay as replays
from tdu.adam import Adam
from tdu.agents import learning
from tdu.agents.own_options import TduAcConfig
from tdu.metrics import Metrics
from tdu.types import Actor, Agent, Array, EnvSpec, Key, Params, State, TimeStep, Transition, Values


class ActorCriticState(NamedTuple):
    critics: State
    policy: State
    """One network: the logits of the actions and the baseline."""
    sequence: replays.Ring
    phase: Array
    """Environment steps observed, modulo the sequence's length."""
    episode: Array
    """Differs from one episode to the next."""


class ActorCriticParams(NamedTuple):
    policy: Params
    episode: Array


def make(spec: EnvSpec, config: TduAcConfig) -> Agent:
    length, actions = config.sequence_length, spec.num_actions

    def networks(heads: int, outputs: int, prior_scale: float) -> Values:
        shape = values.EnsembleShape(
            heads=heads,
            hidden_sizes=config.hidden_sizes,
            prior_scale=prior_scale,
            target_period=1,
            double=False,
            optimiser=Adam(config.learning_rate, eps=config.adam_eps),
            torso=config.torso,
        )
        return values.make(spec._replace(num_actions=outputs), shape, force_dense=config.dense)

    critics = networks(config.critics, 1, config.prior_scale)
    policy = networks(1, actions + 1, 0.0)
    sequence = replays.sequence(length)

    def init(key: Key) -> ActorCriticState:
        key_critics, key_policy = jax.random.split(key)
        zero = jnp.zeros((), jnp.int32)
        example = replays.example(spec, {"episode": zero})
        return ActorCriticState(critics.init(key_critics), policy.init(key_policy), sequence.init(example), zero, zero)

    def params(state: ActorCriticState) -> ActorCriticParams:
        return ActorCriticParams(policy.params(state.policy), state.episode)

    def begin(params: ActorCriticParams, _: Key) -> Array:
        """A number that differs from one episode to the next."""
        return params.episode

    def logits(params: ActorCriticParams, observation: Array) -> Array:
        return policy.q(params.policy, observation)[0, :actions]

    def act(params: ActorCriticParams, episode: Array, timestep: TimeStep, key: Key) -> tuple[Array, Array]:
        return jax.random.categorical(key, logits(params, timestep.observation)).astype(jnp.int32), episode

    def observe(state: ActorCriticState, episode: Array, transition: Transition, _: Key) -> ActorCriticState:
        transition = transition._replace(extras={"episode": episode})
        return state._replace(
            sequence=sequence.add(state.sequence, transition),
            phase=(state.phase + 1) % length,
            episode=state.episode + 1,
        )

    def update(state: ActorCriticState, key: Key) -> tuple[ActorCriticState, Metrics]:
        batch = sequence.sample(state.sequence, key)
        d_t = config.discount * batch.d_t
        goes_on = jnp.append(batch.extras["episode"][1:] == batch.extras["episode"][:-1], False)

        def critic_loss(v_tm1: Array, v_t: Array, _: Array | None) -> tuple[Array, tuple[Array, Array]]:
            errors = batch.r_t + d_t * v_t[..., 0] - v_tm1[..., 0]
            return bonus.critic_loss(errors), (jax.lax.stop_gradient(errors), jnp.max(jnp.abs(v_tm1)))

        learned_critics, (errors, largest_v) = critics.update(state.critics, batch.o_tm1, batch.o_t, critic_loss)
        raised, sigma = bonus.raised(batch, errors, config.beta, unbiased=config.divisor == "unbiased")

        def policy_loss(output_tm1: Array, output_t: Array, _: Array | None) -> tuple[Array, Array]:
            v_tm1, v_t = output_tm1[0, :, actions], output_t[0, :, actions]
            returns = td.lambda_returns(raised.r_t, d_t, v_t, config.td_lambda * goes_on)
            advantage = jax.lax.stop_gradient(returns - v_tm1)
            log_policy = jax.nn.log_softmax(output_tm1[0, :, :actions])
            taken = jax.vmap(td.taken)(log_policy, raised.a_tm1)
            entropy = -jnp.sum(jnp.exp(log_policy) * log_policy, axis=-1)
            each = 0.5 * jnp.square(returns - v_tm1) - taken * advantage - config.entropy_cost * entropy
            return jnp.mean(each), jnp.mean(each)

        learned_policy, total = policy.update(state.policy, batch.o_tm1, batch.o_t, policy_loss)
        state = state._replace(critics=learned_critics, policy=learned_policy)
        return state, learning.metrics(loss=total, largest_q=largest_v, bonus=jnp.mean(sigma))

    def learn(state: ActorCriticState, key: Key) -> tuple[ActorCriticState, Metrics]:
        return learning.when(state.phase == 0, update, state, key)

    def rebase(state: ActorCriticState) -> ActorCriticState:
        return state._replace(critics=critics.rebase(state.critics), policy=policy.rebase(state.policy))

    return Agent(
        init=init,
        params=params,
        actor=Actor(begin, act),
        evaluator=learning.greedy_actor(logits),
        values=logits,
        observe=observe,
        learn=learn,
        rebase=rebase,
        head=lambda episode: jnp.zeros((), jnp.int32),
        discount=config.discount,
        one_stream=True,
    )
