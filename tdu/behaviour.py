"""Which head acts for an episode, and how it picks an action from its values."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tdu.bonus import spread
from tdu.types import Array, Behaviour, Key, State, Transition


def greedy(q: Array, key: Key) -> Array:
    """An action of largest value, ties broken at random."""
    best = q == jnp.max(q)
    return jnp.argmax(jnp.where(best, jax.random.uniform(key, q.shape), -1.0)).astype(jnp.int32)


def epsilon_greedy(epsilon: float | Array) -> Callable[[Array, Key], Array]:
    """A random action with probability `epsilon`, else a greedy one."""
    if isinstance(epsilon, float | int) and epsilon == 0.0:
        return greedy

    def act(q: Array, key: Key) -> Array:
        # The largest of several draws is a random one of them. XLA recomputes everything that is not behind a reduction in
        # every kernel that uses the action. So all randomness goes through the argmax, and the generator runs once.
        draws = jax.random.uniform(key, (q.shape[-1] + 1,))
        eligible = (q == jnp.max(q)) | (draws[-1] < epsilon)
        return jnp.argmax(jnp.where(eligible, draws[:-1], -1.0)).astype(jnp.int32)

    return act


def uniform(heads: int, epsilon: float = 0.0) -> Behaviour:
    """All heads are equally likely."""

    def begin(_: State, key: Key) -> Array:
        return jax.random.randint(key, (), 0, heads)

    return Behaviour(tuple, begin, _act_greedily(epsilon), _ignore)


def optimistic(choice: Behaviour, beta: float, epsilon: float = 0.0) -> Behaviour:
    """Heads are drawn by `choice`; actions are argmax Q_head + β·σ, with σ the spread of all heads' values (Q+UCB)."""
    pick = epsilon_greedy(epsilon)

    def act(q: Array, head: Array, key: Key) -> Array:
        return pick(q[head] + beta * spread(q), key)

    return choice._replace(act=act, every_head=True)


def mixed(exploiters: int, heads: int, probability: float, epsilon: float = 0.0) -> Behaviour:
    """An explorer with the given probability, else an exploiter; uniform within each group."""

    def begin(_: State, key: Key) -> Array:
        key_group, key_head = jax.random.split(key)
        explore = jax.random.uniform(key_group) < probability
        low = jnp.where(explore, exploiters, 0)
        high = jnp.where(explore, heads, exploiters)
        return jax.random.randint(key_head, (), low, high)

    return Behaviour(tuple, begin, _act_greedily(epsilon), _ignore)


class Ucb1State(NamedTuple):
    steps: Array
    """Environment steps of each head, [H], int32; counted up to 2³⁰."""
    mean: Array
    """Mean reward per step of each head, [H]."""
    error: Array
    """Rounding error of the mean, [H]."""


def ucb1(heads: int, eta: float, epsilon: float = 0.0) -> Behaviour:
    """argmax V_k + η·√(log n / n_k), V_k the mean reward per step of head k; every head acts once first (appendix D)."""

    def init() -> Ucb1State:
        return Ucb1State(jnp.zeros(heads, jnp.int32), jnp.zeros(heads), jnp.zeros(heads))

    def begin(state: Ucb1State, key: Key) -> Array:
        tried = jnp.maximum(state.steps, 1).astype(jnp.float32)
        bound = state.mean + eta * jnp.sqrt(jnp.log(jnp.maximum(jnp.sum(state.steps.astype(jnp.float32)), 1.0)) / tried)
        return greedy(jnp.where(state.steps == 0, jnp.inf, bound), key)

    def observe(state: Ucb1State, head: Array, transition: Transition) -> Ucb1State:
        # After millions of steps a reward changes the mean by less than float32 resolves: Kahan summation keeps the error.
        steps = jnp.minimum(state.steps[head] + 1, 1 << 30)
        mean = state.mean[head]
        change = (transition.r_t - mean) / steps.astype(jnp.float32) + state.error[head]
        moved = mean + change
        return Ucb1State(
            steps=state.steps.at[head].set(steps),
            mean=state.mean.at[head].set(moved),
            error=state.error.at[head].set(change - (moved - mean)),
        )

    return Behaviour(init, begin, _act_greedily(epsilon), observe)


def _act_greedily(epsilon: float) -> Callable[[Array, Array, Key], Array]:
    """ε-greedy on the acting head's own values."""
    pick = epsilon_greedy(epsilon)
    return lambda q, head, key: pick(q, key)


def _ignore(state: State, head: Array, transition: Transition) -> State:
    del head, transition
    return state
