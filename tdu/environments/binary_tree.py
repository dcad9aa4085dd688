"""The Binary Tree MDP (Janz et al., 2019; the paper's appendix C).

At each of L branches one action ends the episode without reward and the other leads to the next branch. Which action is which
is drawn per branch. The last correct action pays 1. The observation is the one-hot branch, all zeros at the end.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from tdu.environments import time_steps
from tdu.types import Array, Environment, EnvSpec, Key, SolvedRule, TimeStep


class BinaryTreeState(NamedTuple):
    branch: Array
    ended: Array


def onward_actions(depth: int, seed: int) -> np.ndarray:
    """The action that leads on at each branch, [L]."""
    return np.random.RandomState(seed).binomial(1, 0.5, depth)


def binary_tree(depth: int, *, seed: int) -> Environment:
    """A tree of `depth` branches. It counts as solved after ten successes in a row."""
    onward = jnp.asarray(onward_actions(depth, seed), jnp.int32)
    spec = EnvSpec(
        name=f"binary_tree:depth={depth},seed={seed}",
        observation_shape=(depth,),
        num_actions=2,
        num_states=depth,
        solved=SolvedRule(streak=10),
        info_names=("total_bad_episodes",),
    )

    def observe(state: BinaryTreeState) -> Array:
        return jnp.where(state.ended, depth, state.branch).astype(jnp.int32)

    def reset(_: Key) -> tuple[BinaryTreeState, TimeStep]:
        state = BinaryTreeState(jnp.zeros((), jnp.int32), jnp.zeros((), bool))
        return state, time_steps.first(observe(state))

    def step(state: BinaryTreeState, action: Array, _: Key) -> tuple[BinaryTreeState, TimeStep]:
        right = action == onward[state.branch]
        branch = state.branch + right
        top = branch == depth
        state = BinaryTreeState(branch.astype(jnp.int32), ~right | top)
        reward = jnp.where(top, 1.0, 0.0)
        return state, time_steps.following(observe(state), reward, state.ended)

    def info(state: BinaryTreeState) -> dict[str, Array]:
        return {"total_bad_episodes": (state.branch < depth).astype(jnp.int32)}

    return Environment(spec, reset, step, info)
