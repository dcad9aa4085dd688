"""How well a trained agent does when it only exploits: episodes of its greedy policy, without learning."""

from pathlib import Path
from typing import Any

import numpy as np

from tdu import runs
from tdu.greedy import greedy_returns
from tdu.options import whole_number
from tdu.train import load


def evaluate(path: str | Path, *, episodes: int = 200, seed: int = 0, env: Any = None) -> dict[str, Any]:
    """Mean return of a run's agent over `episodes` new episodes, with its standard error.

    The agent acts greedily on the mean value over its exploiters. `seed` is of the episodes, whose randomness is apart from
    every training's. A run on an object of the user's needs that object again, as `env`.
    """
    episodes = whole_number("episodes", episodes, 1, 10**6)
    seed = whole_number("seed", seed, 0, 2**32 - 1)
    run = load(path, env)
    config = runs.read_config(Path(path))
    returns = greedy_returns(config["env"] if env is None else env, run.agent, episodes=episodes, seed=seed)
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
