"""Whether a distribution of values satisfies the Bellman equations of its moments (the paper's eqs. 2 and 3).

    E_θ[Q] = E_θ[E_{r,s'}[r + γQ(s', π(s'))]],    V_θ[Q] = V_θ[E_{r,s'}[r + γQ(s', π(s'))]].

The paper does not define which MDP the expectation E_{r,s'} is taken in. Here it is the MDP that is passed in: the true one,
the mean of the posterior, or, for draws of Q_π from p(M), the MDP of each draw.
"""

import numpy as np
from numpy.typing import ArrayLike

from tdu.errors import UserError
from tdu.theory.mdp import MDP, Real, check_discount, checked, finite, next_values, within_range
from tdu.theory.posterior import SampleMoments


def backup(q: ArrayLike, policy: ArrayLike, task: MDP, *, gamma: float) -> Real:
    """E_{r,s'}[r + γQ(s', π(s'))] of values [samples, S, A], in one MDP for all samples or one for each."""
    return _backup(*_consistent(q, task), policy, gamma)


def _backup(q: Real, task: MDP, policy: ArrayLike, gamma: float) -> Real:
    check_discount(gamma)
    after = np.einsum("...ijk,...k->...ij", task.transitions, next_values(q, policy), optimize=True)
    return np.asarray(task.rewards + gamma * after)


def _consistent(q: ArrayLike, task: MDP) -> tuple[Real, MDP]:
    """Checked values [samples, S, A], and one MDP for all of them or one for each."""
    samples, task = finite("values", q), checked(task)
    if samples.ndim != 3 or samples.shape[1:] != task.rewards.shape[-2:] or len(samples) < 1:
        raise UserError(f"values must be [samples, {task.states}, {task.actions}], not {samples.shape}.")
    if task.rewards.ndim > 2 and task.rewards.shape != samples.shape:
        several = task.rewards.shape[:-2]
        raise UserError(f"{len(samples)} samples of values need one MDP or one for each, not {several}.")
    return samples, task


def residuals(q: ArrayLike, policy: ArrayLike, task: MDP, *, gamma: float) -> SampleMoments:
    """Left side minus right side of both equations, [S, A], for values [samples, S, A], in one MDP or one for each."""
    samples, task = _consistent(q, task)
    if len(samples) < 2:
        raise UserError("residuals of moments need at least two samples of values.")
    with within_range("values"):
        after = _backup(samples, task, policy, gamma)
        difference = samples - after
        squares = np.square(samples - samples.mean(axis=0)) - np.square(after - after.mean(axis=0))
        root = np.sqrt(len(samples))
        errors = difference.std(axis=0) / root, squares.std(axis=0) / root
        return SampleMoments(difference.mean(axis=0), squares.mean(axis=0), *errors)


def moved_through(q: ArrayLike, policy: ArrayLike, task: MDP, *, gamma: float) -> Real:
    """V_θ[E_{r,s'}[r + γQ]] − E_{r,s'}[r + γ·V_θ[Q]], [S, A]: the proof of Lemma 1 assumes that it is zero."""
    samples, task = _consistent(q, task)
    if task.rewards.ndim > 2:
        raise UserError("give one MDP: the variance is moved through its expectation.")
    inside = _backup(samples, task, policy, gamma).var(axis=0)
    return np.asarray(inside - _backup(samples.var(axis=0)[None], task, policy, gamma)[0])
