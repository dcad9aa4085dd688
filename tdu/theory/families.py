"""Tasks whose truth can be written down: Deep Sea, the Binary Tree, random MDPs; and what a prior takes to be possible."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tdu.errors import UserError
from tdu.theory.mdp import MDP, check_count, check_generator, check_number, checked, finite

Support = NDArray[np.bool_]


def deep_sea(right: ArrayLike, *, move_cost: float = 0.01, stochastic: bool = False) -> MDP:
    """Deep Sea [N², 2] with expected rewards; `right` [N, N] is the action that goes right in each cell."""
    rights = finite("right", right)
    if rights.ndim != 2 or len(rights) != rights.shape[1] or not rights.size or not np.isin(rights, (0, 1)).all():
        raise UserError(f"right must be a square of zeros and ones, not {rights.shape}.")
    check_number("move_cost", move_cost)
    size = len(rights)
    slip = 1 / size if stochastic else 0.0
    transitions, rewards = np.zeros((size * size, 2, size * size + 1)), np.zeros((size * size, 2))
    for row, column in np.ndindex(size, size):
        here, last = row * size + column, row == size - 1

        def below(column: int, row: int = row, last: bool = last) -> int:
            return size * size if last else (row + 1) * size + min(max(column, 0), size - 1)

        goes_right = int(rights[row, column])
        transitions[here, 1 - goes_right, below(column - 1)] += 1
        transitions[here, goes_right, below(column + 1)] += 1 - slip
        transitions[here, goes_right, below(column)] += slip
        rewards[here, goes_right] = (1.0 if column == size - 1 else 0.0) - move_cost / size
    return MDP(transitions, rewards)


def deep_sea_support(size: int) -> Support:
    """What somebody may know of Deep Sea beforehand: a move leads to a cell of the next row, one column away at most."""
    check_count("size", size)
    everything = np.zeros((size * size, 2, size * size + 1), bool)
    for row, column in np.ndindex(size, size):
        for side in (-1, 0, 1):
            last = row == size - 1
            cell = size * size if last else (row + 1) * size + min(max(column + side, 0), size - 1)
            everything[row * size + column, :, cell] = True
    return everything


def deep_sea_reachable(size: int) -> NDArray[np.bool_]:
    """Which of the N² cells the diver can be in: those not right of the diagonal."""
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
    """A branch leads to the next or to the end."""
    check_count("depth", depth)
    everything = np.zeros((depth, 2, depth + 1), bool)
    everything[np.arange(depth), :, np.arange(depth) + 1] = True
    everything[..., depth] = True
    return everything


def random_support(
    states: int, actions: int, branching: int, rng: np.random.Generator, *, acyclic: bool = False
) -> Support:
    """`branching` possible successors of each pair, drawn at random; acyclic ones come later in order, or are the end."""
    check_generator(rng)
    for name, count in (("states", states), ("actions", actions), ("branching", branching)):
        check_count(name, count)
    everything = np.zeros((states, actions, states + 1), bool)
    for state, action in np.ndindex(states, actions):
        possible = np.arange(state + 1, states + 1) if acyclic else np.arange(states)
        chosen = rng.choice(possible, size=min(branching, len(possible)), replace=False)
        everything[state, action, chosen] = True
    return everything


def random_mdp(
    support: Support, rng: np.random.Generator, *, concentration: float = 1.0, reward_sd: float = 1.0
) -> MDP:
    """Dirichlet transitions over the possible successors, Gaussian rewards: a draw from the prior of the same kind."""
    check_generator(rng)
    check_number("concentration", concentration)
    check_number("reward_sd", reward_sd)
    possible = finite("the support", support) != 0
    weights = np.where(possible, rng.standard_gamma(np.where(possible, concentration, 1.0)), 0.0)
    total = weights.sum(axis=-1, keepdims=True)
    if not (total > 0).all():
        raise UserError("every pair needs a successor in the support, and a concentration that is not too near 0.")
    return checked(MDP(weights / total, reward_sd * rng.standard_normal(possible.shape[:2])))
