"""Episodes of a trained agent that only exploits, without learning. Their randomness is apart from every training's."""

import math
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tdu import environments, random
from tdu.environments.vector import VectorEnvironment
from tdu.run.runners.interaction import run_key
from tdu.run.trained import TrainedAgent
from tdu.types import Actor, Array, Environment, Key, Params, TimeStep

LONGEST = 10**6
"""Steps after which an episode is given up."""

MAX_STEPS = 10**7
"""Steps at most in Python, of all episodes together."""


def greedy_returns(
    env: Any,
    agent: TrainedAgent,
    *,
    episodes: int,
    seed: int = 0,
    longest: int = LONGEST,
    max_steps: int = MAX_STEPS,
) -> np.ndarray:
    """Returns of `episodes` episodes; fewer where some do not end within `longest` steps, or all within `max_steps`.

    Several environments play as many episodes each, whichever end first.
    """
    made = environments.make(env, f"evaluation {seed}")
    if isinstance(made, Environment):
        return _compiled(made, agent, episodes, seed, longest)
    try:
        return _stepwise(made, agent, episodes, min(max_steps, longest * episodes))
    finally:
        if isinstance(env, str):
            made.close()


def mean_and_error(returns: np.ndarray) -> tuple[float, float]:
    """Mean return and its standard error."""
    spread = float(np.std(returns, ddof=1)) if len(returns) > 1 else 0.0
    return float(np.mean(returns)), spread / math.sqrt(len(returns))


def _stepwise(env: VectorEnvironment, agent: TrainedAgent, episodes: int, max_steps: int) -> np.ndarray:
    """The first episodes of every row."""
    rows = [TrainedAgent(agent.spec, agent.agent, agent.params) for _ in range(env.size)]
    now, rewards = env.start(), np.zeros(env.size, np.float32)
    totals = np.zeros(env.size)
    returns: list[list[float]] = [[] for _ in rows]
    shares = [len(range(row, episodes, env.size)) for row in range(env.size)]
    waits = np.zeros(env.size, bool)
    for _ in range(0, max_steps, env.size):
        seen = [TimeStep(now[i], rewards[i], np.float32(1), np.bool_(False)) for i in range(env.size)]
        actions = [0 if waits[i] else row.act_on(seen[i]) for i, row in enumerate(rows)]
        stepped = env.step(np.asarray(actions))
        waits = stepped.after.last & stepped.taken & env.skips  # for their next episode, which the next call begins
        totals += np.where(stepped.taken, stepped.after.reward, 0.0)
        now, rewards = stepped.now, np.where(stepped.after.last, np.float32(0), stepped.after.reward)
        for i in stepped.ended:
            returns[i].append(float(totals[i]))
            totals[i] = 0.0
            rows[i].begin_episode()
        if all(len(mine) >= share for mine, share in zip(returns, shares, strict=True)):
            break
    return np.asarray([x for mine, share in zip(returns, shares, strict=True) for x in mine[:share]])


def _compiled(env: Environment, agent: TrainedAgent, episodes: int, seed: int, longest: int) -> np.ndarray:
    """All episodes side by side."""
    keys = jax.random.split(random.for_use(run_key(seed), random.Use.EVALUATION), episodes)
    returns, over = map(np.asarray, _program(env, agent.agent.evaluator)(agent.params, keys, np.int32(longest)))
    return returns[over].astype(np.float64)


@lru_cache(maxsize=8)
def _program(env: Environment, evaluator: Actor) -> Any:
    """Returns of an episode for each key, and whether it ended; agents that differ in what they have learned share it."""

    def one(params: Params, key: Key, longest: Array) -> tuple[Array, Array]:
        key_reset, key_steps, key_acts, key_begin = jax.random.split(key, 4)
        state, timestep = env.reset(key_reset)
        acting = evaluator.begin(params, key_begin)

        def step(carry: Any) -> Any:
            state, timestep, acting, total, t = carry
            action, acting = evaluator.act(params, acting, timestep, jax.random.fold_in(key_acts, t))
            state, timestep = env.step(state, action, jax.random.fold_in(key_steps, t))
            return state, timestep, acting, total + timestep.reward, t + 1

        start = (state, timestep, acting, jnp.zeros(()), jnp.zeros((), jnp.int32))
        end = jax.lax.while_loop(lambda carry: ~carry[1].last & (carry[4] < longest), step, start)
        return end[3], end[1].last

    return jax.jit(jax.vmap(one, in_axes=(None, 0, None)))
