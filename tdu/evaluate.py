"""How well a trained agent does when it only exploits: episodes of its greedy policy, without learning."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tdu import environments, runs
from tdu.environments.python import PythonEnvironment
from tdu.options import whole_number
from tdu.runners.interaction import run_key
from tdu.train import TrainedAgent, load
from tdu.types import Environment


def evaluate(path: str | Path, *, episodes: int = 200, seed: int = 0, env: Any = None) -> dict[str, Any]:
    """Mean return of a run's agent over `episodes` new episodes, with its standard error.

    The agent acts greedily on the mean value over its exploiters. `seed` is of the episodes, whose randomness is apart from
    the training's. A run on an object of the user's needs that object again, as `env`.
    """
    episodes = whole_number("episodes", episodes, 1, 10**6)
    seed = whole_number("seed", seed, 0, 2**31 - 1)
    run = load(path, env)
    config = runs.read_config(Path(path))
    made = environments.make(config["env"] if env is None else env, seed + 2**31)
    returns = _python(made, run.agent, episodes) if isinstance(made, PythonEnvironment) else None
    if returns is None:
        assert isinstance(made, Environment)
        returns = _compiled(made, run.agent, episodes, seed)
    spread = float(np.std(returns, ddof=1)) if episodes > 1 else 0.0
    return {
        "env": config["env"],
        "agent": config["agent"],
        "seed": config["seed"],
        "episodes": episodes,
        "mean_return": float(np.mean(returns)),
        "standard_error": spread / np.sqrt(episodes),
        "min_return": float(np.min(returns)),
        "max_return": float(np.max(returns)),
    }


def _python(env: PythonEnvironment, agent: TrainedAgent, episodes: int) -> np.ndarray:
    returns = np.zeros(episodes)
    for episode in range(episodes):
        timestep = env.reset(episode)
        while not timestep.last:
            timestep = env.step(agent.act(timestep.observation))
            returns[episode] += timestep.reward
    return returns


def _compiled(env: Environment, agent: TrainedAgent, episodes: int, seed: int) -> np.ndarray:
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
        return jax.lax.while_loop(lambda carry: ~carry[1].last, step, start)[2]

    return np.asarray(jax.jit(jax.vmap(one))(jax.random.split(run_key(seed + 2**31), episodes)), np.float64)
