"""How well a run's agent does when it only exploits."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tdu.errors import UserError, tell
from tdu.greedy import greedy_returns, mean_and_error
from tdu.options import whole_number
from tdu.training.loading import load
from tdu.training.plan import LARGEST_SEED

EPISODES = 200
"""If nobody says otherwise."""


def evaluate(
    path: str | Path,
    *,
    episodes: int = EPISODES,
    seed: int = 0,
    env: Any = None,
    say: Callable[[str], None] = tell,
    best: bool = False,
) -> dict[str, Any]:
    """Mean return of a run's agent over `episodes` new episodes, with its standard error.

    The agent acts greedily on the mean value over its exploiters. `seed` is of the episodes, whose randomness is apart from
    every training's. A run on an object of the user's needs that object again, as `env`. `say` is called
    with anything worth telling, a damaged checkpoint for example. With `best`, the agent is the one that did best in the
    evaluations during the run.
    """
    episodes = whole_number("episodes", episodes, 1, 10**6)
    seed = whole_number("seed", seed, 0, LARGEST_SEED)
    run = load(path, env, say, best=best)
    config = run.config
    returns = greedy_returns(config.env if env is None else env, run.agent, episodes=episodes, seed=seed)
    if not len(returns):
        raise UserError(f"no episode on {config.env} came to an end; it may have none.")
    mean, error = mean_and_error(returns)
    return {
        "env": config.env,
        "agent": config.agent,
        "seed": config.seed,
        "episodes": len(returns),
        "mean_return": mean,
        "standard_error": error,
        "min_return": float(np.min(returns)),
        "max_return": float(np.max(returns)),
    }
