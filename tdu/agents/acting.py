"""Actors of an ensemble: one head acts for an episode, frozen as it was when the episode began, or live as it learns."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from tdu import random
from tdu.types import Actor, Array, Behaviour, Key, Params, State, TimeStep, Values


class ActingParams(NamedTuple):
    values: Params
    behaviour: State
    reward_scale: State = ()


class ActingHead(NamedTuple):
    head: Array
    frozen: State
    """The head as it was when the episode began; empty where the live head acts."""
    left: State = ()
    """Steps until another head is drawn; empty where one head acts for the whole episode."""


def frozen(heads: int, values: Values, behaviour: Behaviour) -> Actor:
    """Acts with the head as it was when the episode began."""
    freeze, frozen_q = values.freeze, values.frozen_q
    if behaviour.every_head:
        freeze, frozen_q = jax.vmap(freeze, in_axes=(None, 0)), jax.vmap(frozen_q, in_axes=(0, None))

    def begin(params: ActingParams, key: Key) -> ActingHead:
        head = behaviour.begin(params.behaviour, key)
        return ActingHead(head, freeze(params.values, jnp.arange(heads) if behaviour.every_head else head))

    def act(_: ActingParams, acting: ActingHead, timestep: TimeStep, key: Key) -> tuple[Array, ActingHead]:
        return behaviour.act(frozen_q(acting.frozen, timestep.observation), acting.head, key), acting

    return Actor(begin, act)


def live(values: Values, behaviour: Behaviour) -> Actor:
    """Acts with the head as it learns."""

    def begin(params: ActingParams, key: Key) -> ActingHead:
        return ActingHead(behaviour.begin(params.behaviour, key), ())

    def act(params: ActingParams, acting: ActingHead, timestep: TimeStep, key: Key) -> tuple[Array, ActingHead]:
        q = values.q(params.values, timestep.observation)
        return behaviour.act(q if behaviour.every_head else q[acting.head], acting.head, key), acting

    return Actor(begin, act)


def redrawing(actor: Actor, steps: int) -> Actor:
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
