"""Mastery: the greedy policy follows the optimal path of a task in many checks in a row, which chance cannot achieve.

The greedy policy is that of the trained agent: for an ensemble, of the exploiters' mean. Its depth is the number of steps for
which it follows `EnvSpec.optimal_path` from the start. It is computed from the values alone, without an episode.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from tdu.options import Until as Until
from tdu.types import Array, EnvSpec, Params

PERIOD = 5
"""Episodes between two checks."""

CHECKS = 20
"""Checks in a row at full depth after which a task is mastered."""


def is_solving(spec: EnvSpec) -> bool:
    """Whether `mastered` means `solved`: where there is no optimal path, and a streak of successes is the rule.

    bsuite's share of bad episodes can be low by chance, before anything is learned. It never ends a run by itself.
    """
    return not spec.optimal_path and spec.solved is not None and spec.solved.streak > 0


def is_reached(until: Until, spec: EnvSpec, solved_episode: int | None, mastered_episode: int | None) -> bool:
    """Whether a run has reached its goal."""
    waits = until == "mastered" and not is_solving(spec) and mastered_episode is None
    return until != "budget" and solved_episode is not None and not waits


Values = Callable[[Params, Array], Array]
Path = tuple[tuple[int, int], ...]


def greedy_depth(values: Values, path: Path) -> Callable[[Params], Array]:
    """The depth of the greedy policy as a function of the agent's params. `values(params, observation)` are [A]."""
    states, actions = jnp.asarray(path, jnp.int32).T

    def depth(params: Params) -> Array:
        greedy = jnp.argmax(jax.vmap(values, in_axes=(None, 0))(params, states), axis=1)
        return jnp.sum(jnp.cumprod(greedy == actions), dtype=jnp.int32)

    return depth
