"""How well a trained agent does when it only exploits: episodes of its greedy policy, without learning."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tdu import environments
from tdu.environments.python import PythonEnvironment
from tdu.options import whole_number
from tdu.runners.interaction import run_key
from tdu.trained import TrainedAgent
from tdu.training.loading import load
from tdu.types import Environment


def evaluate(path: str | Path, *, episodes: int = 200, seed: int = 0, env: Any = None) -> dict[str, Any]:
    """Mean return of a run's agent over `episodes` new episodes, with its standard error.

    The agent acts greedily on the mean value over its exploiters. `seed` is of the episodes, whose randomness is apart from
    the training's. A run on an object of the user's needs that object again, as `env`.
    """
    episodes = whole_number("episodes", episodes, 1, 10**6)
    seed = whole_number("seed", seed, 0, 2**31 - 1)
    run = load(path, env)
    config = run.config
    made = environments.make(config.env if env is None else env, seed + 2**31)
    returns = greedy_returns(made, run.agent, episodes=episodes, seed=seed, max_steps=10**6)
    spread = float(np.std(returns, ddof=1)) if episodes > 1 else 0.0
    return {
        "env": config.env,
        "agent": config.agent,
        "seed": config.seed,
        "episodes": episodes,
        "mean_return": float(np.mean(returns)),
        "standard_error": spread / np.sqrt(episodes),
        "min_return": float(np.min(returns)),
        "max_return": float(np.max(returns)),
    }


def greedy_returns(
    env: Environment | PythonEnvironment, trained_agent: TrainedAgent, *, episodes: int, seed: int, max_steps: int
) -> np.ndarray:
    """Returns of so many episodes of the greedy policy, [episodes]; one that lasts longer than `max_steps` is cut there."""
    if isinstance(env, PythonEnvironment):
        return _python(env, trained_agent, episodes, max_steps)
    return _compiled(env, trained_agent, episodes, seed, max_steps)


def _python(env: PythonEnvironment, agent: TrainedAgent, episodes: int, max_steps: int) -> np.ndarray:
    returns = np.zeros(episodes)
    for episode in range(episodes):
        timestep = env.reset(episode)
        for _ in range(max_steps):
            if timestep.last:
                break
            timestep = env.step(agent.act(timestep.observation))
            returns[episode] += timestep.reward
    return returns


def _compiled(env: Environment, agent: TrainedAgent, episodes: int, seed: int, max_steps: int) -> np.ndarray:
    """All episodes side by side."""

    def one(key: jax.Array) -> jax.Array:
        key_reset, key_steps = jax.random.split(key)
        state, timestep = env.reset(key_reset)

        def step(carry: Any) -> Any:
            state, timestep, total, t = carry
            action = jnp.argmax(agent.q(timestep.observation)).astype(jnp.int32)
            state, timestep = env.step(state, action, jax.random.fold_in(key_steps, t))
            return state, timestep, total + timestep.reward, t + 1

        start = (state, timestep, jnp.zeros(()), jnp.zeros((), jnp.int32))
        return jax.lax.while_loop(lambda carry: ~carry[1].last & (carry[3] < max_steps), step, start)[2]

    return np.asarray(jax.jit(jax.vmap(one))(jax.random.split(run_key(seed + 2**31), episodes)), np.float64)
