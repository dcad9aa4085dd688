"""Your own bonus in the learner that all agents share.

    python examples/own_bonus.py
    cd examples; tdu train deep_sea:size=10 --agent python:own_bonus:RANGE --beta 0.5

Explorers are paid for the range of the exploiters' TD errors instead of their standard deviation.
"""

from dataclasses import dataclass

import jax.numpy as jnp

import tdu
from tdu import agents
from tdu.agents import assemble
from tdu.agents.config import EnsembleConfig
from tdu.options import option
from tdu.types import Bonus


@dataclass(frozen=True)
class Config(EnsembleConfig):
    """TDU's ensemble. Every field is also an option of `tdu train`."""

    exploiters: int = option(10, "Value functions trained on the reward.", minimum=2)
    explorers: int = option(10, "Value functions trained on reward plus bonus.", minimum=1)
    beta: float = option(0.3, "Weight of the bonus.", minimum=0)


def make(spec, config):
    """The agent for an environment."""

    def reward(state, batch, exploit):
        """The explorers' reward and the bonus in it, [B] each. `exploit.td` has the exploiters' TD errors, [K, B]."""
        bonus = jnp.max(exploit.td, axis=0) - jnp.min(exploit.td, axis=0)
        return batch.r_t + config.beta * bonus, bonus

    paid = Bonus(
        init=lambda key: (),
        observe=lambda state, transition: state,
        learn=lambda state, batch: (state, ()),
        reward=reward,
    )
    return assemble.ensemble(spec, config, bonus=paid)


RANGE = agents.AGENTS["range"] = agents.Entry("Explorers paid for the range of TD errors.", Config, make)

if __name__ == "__main__":
    print(tdu.train("deep_sea:size=10", "range", episodes=1000))
