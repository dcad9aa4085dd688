"""How well a run's agent does when it only exploits."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tdu import agents
from tdu.errors import UserError, tell
from tdu.options import whole_number
from tdu.run.greedy import greedy_returns, mean_and_error
from tdu.run.loading import load
from tdu.run.plan import LARGEST_SEED
from tdu.run.run import Run
from tdu.run.trained import TrainedAgent

EPISODES = 200
"""If nobody says otherwise."""
_SHORTEST = 1000
"""Steps that an episode may have in any case; beyond them, ten times the longest of the run."""


def evaluate(
    path: str | Path,
    *,
    episodes: int = EPISODES,
    seed: int = 0,
    env: Any = None,
    say: Callable[[str], None] = tell,
    on_loaded: Callable[[], None] | None = None,
    best: bool = False,
    explorers: bool = False,
) -> dict[str, Any]:
    """Mean return of a run's agent over `episodes` new episodes, with its standard error.

    The agent acts greedily on the mean value over its exploiters. `seed` is of the episodes, whose randomness is apart from
    every training's. A run on an object of the user's needs that object again, as `env`. `say` is called with anything worth
    telling, a damaged checkpoint for example; `on_loaded` once, before it plays. With `best`, the agent is the one that did
    best in the evaluations during the run. With `explorers`, an agent with a memory acts on its explorers' mean value
    instead, as in the paper's ablation.
    """
    episodes = whole_number("episodes", episodes, 1, 10**6)
    seed = whole_number("seed", seed, 0, LARGEST_SEED)
    run = load(path, env, say, best=best)
    config = run.config
    if not len(run.log["episode"]):
        raise UserError(
            f"no episode of {path} has ended yet, so it is not known how long one takes; "
            "where episodes never end, give the environment a time limit."
        )
    trained = _on_explorers(run) if explorers else run.agent
    longest = max(_SHORTEST, 10 * int(run.log["episode_len"].max()))
    where = config.env if env is None else env
    if on_loaded is not None:
        on_loaded()
    returns = greedy_returns(where, trained, episodes=episodes, seed=seed, longest=longest)
    if not len(returns):
        raise UserError(f"no episode on {config.env} came to an end within {longest:,} steps.")
    mean, error = mean_and_error(returns)
    return {
        "env": config.env,
        "agent": config.agent,
        "seed": config.seed,
        "acting": "explorers" if explorers else "exploiters",
        "best": best,
        "episodes": len(returns),
        "mean_return": mean,
        "standard_error": error,
        "min_return": float(np.min(returns)),
        "max_return": float(np.max(returns)),
    }


def _on_explorers(run: Run) -> TrainedAgent:
    """What a run has learned, acting on the explorers' values."""
    name, spec = run.config.agent, run.agent.spec
    entry = agents.find(name)
    if not entry.is_recurrent:
        raise UserError(
            f"explorers' values can be acted on by agents with a memory only (tdu_r2d2), and {name} has no memory."
        )
    agent = entry.make(spec, agents.configure(name, run.config.config | {"evaluate": "explorers"}))
    return TrainedAgent(spec, agent, run.agent.params)
