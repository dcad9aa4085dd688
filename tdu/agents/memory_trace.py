"""A memory trace: a moving average of past observations that the networks see beside the current one (Eberhard et al., 2025).

It lets an agent without a recurrent network remember. The trace of an episode is m_t = decay·m_{t−1} + (1 − decay)·o_t, from
m_{−1} = 0. The actor's state carries it, and transitions are stored with it.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from tdu.networks import inputs
from tdu.types import Actor, Agent, Array, EnvSpec, Key, Params, State, TimeStep, Transition


class Remembering(NamedTuple):
    actor: State
    trace: Array
    """[D], up to the last observation acted on."""


def applies(spec: EnvSpec) -> bool:
    """Whether the observation is a vector of numbers. One-hot observations, bytes, boards and images have no trace."""
    is_real = spec.num_states is None and np.issubdtype(np.dtype(spec.dtype), np.floating)
    return is_real and sum(length > 1 for length in spec.observation_shape) <= 1


def with_trace(make: Callable[[EnvSpec], Agent], spec: EnvSpec, decay: float) -> Agent:
    """The agent of `make`, whose observations are followed by their trace; unchanged where `decay` is 0 or none applies."""
    if not decay or not applies(spec):
        return make(spec)
    width = math.prod(spec.observation_shape)
    agent = make(spec._replace(observation_shape=(2 * width,), dtype="float32", parts=None))

    def longer(trace: Array, observation: Array) -> Array:
        return decay * trace + (1 - decay) * inputs.flat(spec, observation)

    def seen(observation: Array, trace: Array) -> Array:
        return jnp.concatenate([inputs.flat(spec, observation), trace])

    def remembering(actor: Actor) -> Actor:
        def begin(params: Params, key: Key) -> Remembering:
            return Remembering(actor.begin(params, key), jnp.zeros(width))

        def act(params: Params, state: Remembering, timestep: TimeStep, key: Key) -> tuple[Array, Remembering]:
            trace = longer(state.trace, timestep.observation)
            timestep = timestep._replace(observation=seen(timestep.observation, trace))
            action, inner = actor.act(params, state.actor, timestep, key)
            return action, Remembering(inner, trace)

        return Actor(begin, act, remembers=True)

    def values(params: Params, state: Remembering, timestep: TimeStep) -> Array:
        trace = longer(state.trace, timestep.observation)
        return agent.values(params, seen(timestep.observation, trace))

    def observe(state: State, acting: Remembering, transition: Transition, key: Key) -> State:
        o_tm1 = seen(transition.o_tm1, acting.trace)
        o_t = seen(transition.o_t, longer(acting.trace, transition.o_t))
        return agent.observe(state, acting.actor, transition._replace(o_tm1=o_tm1, o_t=o_t), key)

    def first_values(params: Params, observation: Array) -> Array:
        return agent.values(params, seen(observation, longer(jnp.zeros(width), observation)))

    return agent._replace(
        values=first_values,
        actor=remembering(agent.actor),
        evaluator=remembering(agent.evaluator)._replace(values=values),
        observe=observe,
        head=lambda acting: agent.head(acting.actor),
        examiner=None,
    )
