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
    size, goes_right = len(rights), rights.ravel().astype(np.int64)
    slip, cells = 1 / size if stochastic else 0.0, np.arange(size * size)
    to_left, below, to_right = _successors(size).T
    transitions, rewards = np.zeros((size * size, 2, size * size + 1)), np.zeros((size * size, 2))
    transitions[cells, 1 - goes_right, to_left] = 1
    transitions[cells, goes_right, to_right] = 1 - slip
    transitions[cells, goes_right, below] += slip  # the same cell as `to_right` in the last column
    rewards[cells, goes_right] = (cells % size == size - 1) - move_cost / size
    return MDP(transitions, rewards)


def _successors(size: int) -> NDArray[np.int64]:
    """The cells of the next row to the left, below and to the right of each cell, [N², 3]; N² is the end."""
    rows, columns = np.indices((size, size)).reshape(2, -1, 1)
    return np.where(rows == size - 1, size * size, (rows + 1) * size + np.clip(columns + np.arange(-1, 2), 0, size - 1))


def deep_sea_support(size: int) -> Support:
    """Prior knowledge of Deep Sea: a move leads to the next row, at most one column away."""
    check_count("size", size)
    support = np.zeros((size * size, 2, size * size + 1), bool)
    support[np.arange(size * size)[:, None], :, _successors(size)] = True
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
    branches = np.arange(depth)
    transitions[branches, leads, branches + 1] = 1
    transitions[branches, 1 - leads, depth] = 1
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
