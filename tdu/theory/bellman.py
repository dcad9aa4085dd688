"""Whether a distribution of values obeys the Bellman equations of its moments (the paper's eqs. 2 and 3), and how read.

    E_θ[Q] = E_θ[E_{r,s'}[r + γQ(s', π(s'))]],    V_θ[Q] = V_θ[E_{r,s'}[r + γQ(s', π(s'))]].

The paper does not say whose expectation E_{r,s'} is. Here it is that of the MDP that is passed in: the true one, the mean of
the posterior, or, for draws of Q_π from p(M), of each draw's own MDP.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tdu.errors import UserError
from tdu.theory.mdp import MDP, Real, check_discount, next_values


class Residuals(NamedTuple):
    """Left side minus right side of both equations, [S, A], and the standard errors of their sampling."""

    mean: Real
    variance: Real
    mean_error: Real
    variance_error: Real


def backup(q: Real, policy: ArrayLike, task: MDP, *, gamma: float) -> Real:
    """E_{r,s'}[r + γQ(s', π(s'))] of values [samples, S, A], in one MDP for all samples or in one for each."""
    check_discount(gamma)
    if q.ndim != 3 or q.shape[1:] != task.rewards.shape[-2:] or len(q) < 1:
        raise UserError(f"values must be [samples, {task.states}, {task.actions}], not {q.shape}.")
    return np.asarray(
        task.rewards + gamma * np.einsum("...ijk,...k->...ij", task.transitions, next_values(q, policy), optimize=True)
    )


def residuals(q: Real, policy: ArrayLike, task: MDP, *, gamma: float) -> Residuals:
    """How far values [samples, S, A] are from obeying both equations in an MDP, or each in its own."""
    after = backup(q, policy, task, gamma=gamma)
    difference = q - after
    squares = np.square(q - q.mean(axis=0)) - np.square(after - after.mean(axis=0))
    root = np.sqrt(len(q))
    return Residuals(
        difference.mean(axis=0), squares.mean(axis=0), difference.std(axis=0) / root, squares.std(axis=0) / root
    )


def moved_through(q: Real, policy: ArrayLike, task: MDP, *, gamma: float) -> Real:
    """V_θ[E_{r,s'}[r + γQ]] − E_{r,s'}[r + γ·V_θ[Q]], [S, A]: the proof of Lemma 1 takes this difference to be zero."""
    inside = backup(q, policy, task, gamma=gamma).var(axis=0)
    return inside - backup(q.var(axis=0)[None], policy, task, gamma=gamma)[0]
