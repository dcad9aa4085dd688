"""Tasks as exact MDPs: Deep Sea, the Binary Tree and random MDPs; and supports for priors over them."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tdu.errors import UserError
from tdu.theory.mdp import MDP, check_count, check_generator, check_number, checked, finite

Support = NDArray[np.bool_]


def deep_sea(right: ArrayLike, *, move_cost: float = 0.01, stochastic: bool = False) -> MDP:
    """Deep Sea [N², 2] with expected rewards; `right` [N, N] is the action that moves right in each cell."""
    rights = finite("right", right)
    if rights.ndim != 2 or len(rights) != rights.shape[1] or not rights.size or not np.isin(rights, (0, 1)).all():
        raise UserError(f"right must be a square of zeros and ones, not {rights.shape}.")
    check_number("move_cost", move_cost)
    size = len(rights)
    slip = 1 / size if stochastic else 0.0
    transitions, rewards = np.zeros((size * size, 2, size * size + 1)), np.zeros((size * size, 2))
    for row, column in np.ndindex(size, size):
        cell, last = row * size + column, row == size - 1

        def below(column: int, row: int = row, last: bool = last) -> int:
            return size * size if last else (row + 1) * size + min(max(column, 0), size - 1)

        goes_right = int(rights[row, column])
        transitions[cell, 1 - goes_right, below(column - 1)] += 1
        transitions[cell, goes_right, below(column + 1)] += 1 - slip
        transitions[cell, goes_right, below(column)] += slip
        rewards[cell, goes_right] = (1.0 if column == size - 1 else 0.0) - move_cost / size
    return MDP(transitions, rewards)


def deep_sea_support(size: int) -> Support:
    """Prior knowledge of Deep Sea: a move leads to the next row, at most one column away."""
    check_count("size", size)
    support = np.zeros((size * size, 2, size * size + 1), bool)
    for row, column in np.ndindex(size, size):
        for side in (-1, 0, 1):
            last = row == size - 1
            successor = size * size if last else (row + 1) * size + min(max(column + side, 0), size - 1)
            support[row * size + column, :, successor] = True
    return support


def deep_sea_reachable(size: int) -> NDArray[np.bool_]:
    """Which of the N² cells are reachable: those not right of the diagonal."""
    check_count("size", size)
    return np.tri(size, dtype=bool).ravel()


def binary_tree(onward: ArrayLike) -> MDP:
    """The Binary Tree [L, 2]; `onward` [L] is the action that leads on at each branch."""
    leads = finite("onward", onward)
    if leads.ndim != 1 or not leads.size or not np.isin(leads, (0, 1)).all():
        raise UserError(f"onward must be zeros and ones, one for each branch, not {leads.shape}.")
    leads = leads.astype(np.int64)
    depth = len(leads)
    transitions, rewards = np.zeros((depth, 2, depth + 1)), np.zeros((depth, 2))
    for branch, action in enumerate(leads):
        transitions[branch, action, branch + 1] = 1
        transitions[branch, 1 - action, depth] = 1
    rewards[depth - 1, leads[-1]] = 1.0
    return MDP(transitions, rewards)


def binary_tree_support(depth: int) -> Support:
    """Prior knowledge of the Binary Tree: a branch leads to the next or to the end."""
    check_count("depth", depth)
    support = np.zeros((depth, 2, depth + 1), bool)
    support[np.arange(depth), :, np.arange(depth) + 1] = True
    support[..., depth] = True
    return support


def random_support(
    states: int, actions: int, branching: int, rng: np.random.Generator, *, acyclic: bool = False
) -> Support:
    """`branching` possible successors of each pair, drawn at random. If acyclic, they are later states or the end."""
    check_generator(rng)
    for name, count in (("states", states), ("actions", actions), ("branching", branching)):
        check_count(name, count)
    support = np.zeros((states, actions, states + 1), bool)
    for state, action in np.ndindex(states, actions):
        possible = np.arange(state + 1, states + 1) if acyclic else np.arange(states)
        chosen = rng.choice(possible, size=min(branching, len(possible)), replace=False)
        support[state, action, chosen] = True
    return support


def random_mdp(
    support: Support, rng: np.random.Generator, *, concentration: float = 1.0, reward_sd: float = 1.0
) -> MDP:
    """A draw from a prior: Dirichlet transitions over the possible successors, Gaussian rewards."""
    check_generator(rng)
    check_number("concentration", concentration)
    check_number("reward_sd", reward_sd)
    possible = finite("the support", support) != 0
    weights = np.where(possible, rng.standard_gamma(np.where(possible, concentration, 1.0)), 0.0)
    total = weights.sum(axis=-1, keepdims=True)
    if not (total > 0).all():
        raise UserError("every pair needs a successor in the support, and a concentration not too close to 0.")
    return checked(MDP(weights / total, reward_sd * rng.standard_normal(possible.shape[:2])))
