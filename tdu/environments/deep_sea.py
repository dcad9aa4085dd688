"""Deep Sea, equal to bsuite 0.3.6's `DeepSea` transition by transition (Osband et al., 2020).

An N × N grid. The diver starts in the upper left corner and sinks one row per step, to the left or to the right. Which action
is which differs between cells. Moving right costs `move_cost`/N. Only N moves to the right in a row reach the chest, worth 1:
one policy in 2^N. If stochastic, a move to the right fails with probability 1/N, and Gaussian noise is added to the reward in
both lower corners.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tdu.environments import time_steps
from tdu.types import Array, Environment, EnvSpec, Key, SolvedRule, TimeStep


class DeepSeaState(NamedTuple):
    row: Array
    column: Array
    bad: Array
    """1 if the diver chose to leave the diagonal."""
    depth: Array
    """Chosen moves to the right before the first one to the left. Slips do not count as left."""
    chests: Array
    """1 once the chest is reached: bsuite's return without noise and costs."""


class Draws(NamedTuple):
    """The random numbers of one step, separate from the dynamics, so that each can be tested alone."""

    slip: Array
    """Uniform in [0, 1)."""
    noise: Array
    """Standard normal."""


def action_mapping(size: int, mapping_seed: int) -> np.ndarray:
    """The action that moves right in each cell, [N, N], drawn as in bsuite."""
    return np.random.RandomState(mapping_seed).binomial(1, 0.5, [size, size])


def optimal_path(mapping: np.ndarray) -> tuple[tuple[int, int], ...]:
    """The states of the diagonal, each with the action that moves right."""
    return tuple((row * len(mapping) + row, int(right)) for row, right in enumerate(mapping.diagonal()))


def solved_rule(stochastic: bool) -> SolvedRule:
    """bsuite 0.3.6's rule: the share of bad episodes is below 0.9; if stochastic, below 0.8 from episode 100 on."""
    return SolvedRule(0.8, from_episode=100) if stochastic else SolvedRule(0.9)


def dynamics(
    size: int, *, mapping_seed: int, stochastic: bool, move_cost: float
) -> Callable[[DeepSeaState, Array, Draws], tuple[DeepSeaState, TimeStep]]:
    """The function that makes one move, given its random numbers."""
    right_action = jnp.asarray(action_mapping(size, mapping_seed), jnp.int32)

    def move(state: DeepSeaState, action: Array, draws: Draws) -> tuple[DeepSeaState, TimeStep]:
        right = action == right_action[state.row, state.column]
        chest = right & (state.column == size - 1)
        reward = jnp.where(chest, 1.0, 0.0)
        slips = jnp.zeros((), bool)
        if stochastic:
            corner = (state.row == size - 1) & ((state.column == 0) | (state.column == size - 1))
            reward += jnp.where(corner, draws.noise, 0.0)
            slips = draws.slip <= 1 / size
        reward -= jnp.where(right, move_cost / size, 0.0)
        step = jnp.where(right, jnp.where(slips, 0, 1), -1)
        wrong = ~right & (state.row == state.column)
        state = DeepSeaState(
            row=state.row + 1,
            column=jnp.clip(state.column + step, 0, size - 1),
            bad=jnp.where(wrong, 1, state.bad),
            depth=state.depth + (right & (state.depth == state.row)),
            chests=state.chests + chest,
        )
        return state, time_steps.following(_observe(state, size), reward, state.row == size)

    return move


def deep_sea(
    size: int, *, mapping_seed: int, stochastic: bool, move_cost: float, solved_share: float = 0.0
) -> Environment:
    """Deep Sea of `size` × `size`; `solved_share` replaces the threshold of bsuite's rule."""
    rule = solved_rule(stochastic)
    spec = EnvSpec(
        name=f"deep_sea:size={size},mapping_seed={mapping_seed},stochastic={str(stochastic).lower()},move_cost={move_cost}",
        observation_shape=(size, size),
        num_actions=2,
        num_states=size * size,
        solved=rule._replace(bad_share=solved_share) if solved_share else rule,
        info_names=("total_bad_episodes", "denoised_return", "diagonal_depth"),
        per_episode=("diagonal_depth",),
        optimal_path=optimal_path(action_mapping(size, mapping_seed)),
    )

    move = dynamics(size, mapping_seed=mapping_seed, stochastic=stochastic, move_cost=move_cost)

    def reset(_: Key) -> tuple[DeepSeaState, TimeStep]:
        zero = jnp.zeros((), jnp.int32)
        state = DeepSeaState(zero, zero, zero, zero, zero)
        return state, time_steps.first(_observe(state, size))

    def step(state: DeepSeaState, action: Array, key: Key) -> tuple[DeepSeaState, TimeStep]:
        if not stochastic:
            return move(state, action, Draws(jnp.ones(()), jnp.zeros(())))
        key_slip, key_noise = jax.random.split(key)
        return move(state, action, Draws(jax.random.uniform(key_slip), jax.random.normal(key_noise)))

    def info(state: DeepSeaState) -> dict[str, Array]:
        return {"total_bad_episodes": state.bad, "denoised_return": state.chests, "diagonal_depth": state.depth}

    return Environment(spec, reset, step, info)


def _observe(state: DeepSeaState, size: int) -> Array:
    cell = state.row * size + state.column
    return jnp.where(state.row >= size, size * size, cell).astype(jnp.int32)
