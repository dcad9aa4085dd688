"""bsuite's `SimpleBandit`: eleven arms that pay 0, 0.1, … 1, in an order drawn from `mapping_seed`."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from tdu.environments import time_steps
from tdu.types import Array, Environment, EnvSpec, Key, TimeStep

_ARMS = 11


class BanditState(NamedTuple):
    regret: Array
    """Regret of the chosen arm; 0 before the choice."""


def arm_rewards(mapping_seed: int) -> np.ndarray:
    """The reward of each arm, [A], drawn as in bsuite."""
    order = np.random.RandomState(mapping_seed).choice(range(_ARMS), size=_ARMS, replace=False)
    return np.linspace(0, 1, _ARMS)[order]


def bandit(*, mapping_seed: int) -> Environment:
    """Episodes of one step."""
    rewards = arm_rewards(mapping_seed)
    paid, regrets = jnp.asarray(rewards, jnp.float32), jnp.asarray(1 - rewards, jnp.float32)
    observation = jnp.ones((1, 1))

    def reset(key: Key) -> tuple[BanditState, TimeStep]:
        del key
        return BanditState(jnp.zeros(())), time_steps.first(observation)

    def step(state: BanditState, action: Array, key: Key) -> tuple[BanditState, TimeStep]:
        del state, key
        after = time_steps.following(observation, paid[action], jnp.ones((), bool))
        return BanditState(regrets[action]), after

    spec = EnvSpec("bandit", (1, 1), num_actions=_ARMS, info_names=("total_regret",))
    return Environment(spec, reset, step, lambda state: {"total_regret": state.regret})
