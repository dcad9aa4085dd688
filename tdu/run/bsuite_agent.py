"""An agent as a `bsuite.baselines.base.Agent`, for bsuite's own `experiment.run`."""

from typing import Any

import jax
import numpy as np

from tdu import agents, environments
from tdu.environments import bsuite
from tdu.environments.python import of_dm_env
from tdu.errors import UserError
from tdu.run.runners.player import Round, StepwisePlayer
from tdu.types import Agent, TimeStep


def bsuite_agent(env: Any, agent: str = "tdu", *, seed: int = 0, preset: str | None = None, **options: Any) -> Any:
    """An agent for a bsuite (or any dm_env) environment.

    Examples:
        >>> env = bsuite.load_from_id("catch/0")
        >>> experiment.run(tdu.bsuite_agent(env, "tdu", seed=0, beta=1.0), env, num_episodes=100)
    """
    try:
        from bsuite.baselines import base
    except ModuleNotFoundError as e:
        raise UserError(f"this needs the extra 'bsuite' ({e.name} is missing): pip install 'tdu[bsuite]'.") from None
    reader = of_dm_env(env, name=type(env).__name__, seed=seed, num_states=bsuite.num_states(env))
    preset = preset or agents.default_preset(agent, of_the_paper=environments.identify(env).is_of_the_paper)
    config = agents.configure(agent, options, preset)
    made = agents.find(agent).make(reader.spec, config)
    if not isinstance(made, Agent):
        raise UserError(
            f"{agent} acts in several environments at once, which this interface does not allow; use tdu.train."
        )
    player = StepwisePlayer(made, seed)

    def read(timestep: Any) -> TimeStep:
        return jax.tree.map(lambda x: np.asarray(x)[None], reader.check(timestep, first=True))

    class DropIn(base.Agent):
        """Takes dm_env time steps and returns actions."""

        def select_action(self, timestep: Any) -> int:
            return int(player.select(read(timestep))[0])

        def update(self, timestep: Any, action: int, new_timestep: Any) -> None:
            after = read(new_timestep)
            step = Round(read(timestep).observation, np.asarray([action], np.int32), after, np.ones(1, bool))
            player.update(step, after)

    return DropIn()
