"""Finite MDPs and the exact values of a policy in them: Q = r + γ·P·V with (I − γ·P_π)·V = r_π.

The last entry of every transition row is the end of the episode, with value 0, so a row has S + 1 entries and sums to one.
Leading axes hold many MDPs. Systems are solved by NumPy (LAPACK, float64).
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tdu.errors import UserError

Real = NDArray[np.float64]
Whole = NDArray[np.int64]

_NUMBER = int | float | np.integer | np.floating
_ROW_ERROR = 1e-8
_MOST_STEPS = 1e10
"""Largest number of discounted steps. Rounding errors grow with it; at this limit six digits of a value are left."""


class MDP(NamedTuple):
    """A finite MDP: a task, or a draw from a posterior."""

    transitions: Real
    """[..., S, A, S + 1]; the last entry is the end of the episode."""
    rewards: Real
    """Expected rewards, [..., S, A]."""

    @property
    def states(self) -> int:
        """Number of states without the end."""
        return self.rewards.shape[-2]

    @property
    def actions(self) -> int:
        """Number of actions in every state."""
        return self.rewards.shape[-1]


def mdp(transitions: ArrayLike, rewards: ArrayLike) -> MDP:
    """A checked MDP from transitions [S, A, S + 1], or [S, A, S] if no episode ends, and rewards [S, A]."""
    probabilities, expected = finite("transitions", transitions), finite("rewards", rewards)
    if expected.ndim != 2:
        raise UserError(f"rewards must have the shape [S, A], at least one state and one action, not {expected.shape}.")
    states, actions = expected.shape
    if probabilities.shape == (states, actions, states):
        probabilities = np.concatenate([probabilities, np.zeros((states, actions, 1))], axis=-1)
    return checked(MDP(probabilities, expected))


def checked(task: MDP) -> MDP:
    """One MDP or many in float64, with consistent shapes and rows that are distributions."""
    if not isinstance(task, MDP):
        raise UserError(f"the task must be an MDP, as tdu.theory.mdp makes them, not {type(task).__name__}.")
    probabilities, expected = finite("transitions", task.transitions), finite("rewards", task.rewards)
    if expected.ndim < 2 or 0 in expected.shape:
        raise UserError(f"rewards must have the shape [S, A], at least one state and one action, not {expected.shape}.")
    *many, states, actions = expected.shape
    if probabilities.shape != (*expected.shape, states + 1):
        axes = "".join(f"{count}, " for count in many)
        raise UserError(
            f"transitions have the shape {probabilities.shape}; rewards of {expected.shape} need [{axes}{states}, {actions}, "
            f"{states + 1}] with the episode's end as last entry, or [{states}, {actions}, {states}] if it never ends."
        )
    if (probabilities < 0).any():
        raise UserError(f"transitions of {_pair(probabilities.min(axis=-1) < 0)} have a negative probability.")
    total = probabilities.sum(axis=-1)
    off = np.abs(total - 1) > _ROW_ERROR
    if off.any():
        raise UserError(f"transitions of {_pair(off)} sum to {total[off][0]:.6g}; a row must sum to one.")
    return MDP(probabilities, expected)


def _pair(which: NDArray[np.bool_]) -> str:
    *many, state, action = np.argwhere(which)[0]
    return f"state {state}, action {action}" + (f" of MDP {', '.join(map(str, many))}" if many else "")


def values(task: MDP, policy: ArrayLike, *, gamma: float) -> Real:
    """Q_π [..., S, A] of the policy [S], exactly."""
    task = checked(task)
    chosen = checked_policy(policy, task.states, task.actions)
    check_discount(gamma)
    onward = task.transitions[..., :-1]
    every = np.arange(task.states)
    under_policy, rewards = onward[..., every, chosen, :], task.rewards[..., every, chosen]
    if gamma == 1:
        _check_that_it_ends(task.transitions[..., every, chosen, :])
    system = np.eye(task.states) - gamma * under_policy
    if (1 - gamma) * _MOST_STEPS < 1:  # otherwise no episode has that many discounted steps
        _check_that_it_ends_in_time(system)
    with within_range("values"):
        state_values = np.linalg.solve(system, rewards[..., None])[..., 0]
        q = task.rewards + gamma * np.einsum("...ijk,...k->...ij", onward, state_values, optimize=True)
        if not np.isfinite(q).all():  # LAPACK does not raise
            raise FloatingPointError
    return np.asarray(q)


def next_values(q: ArrayLike, policy: ArrayLike) -> Real:
    """Q(s', π(s')) for every s', [..., S + 1], from Q [..., S, A]; 0 at the end."""
    table = finite("values", q)
    if table.ndim < 2:
        raise UserError(f"values must have the shape [..., S, A], not {table.shape}.")
    chosen = checked_policy(policy, table.shape[-2], table.shape[-1])
    onward = table[..., np.arange(table.shape[-2]), chosen]
    return np.concatenate([onward, np.zeros((*onward.shape[:-1], 1))], axis=-1)


def greedy(q: Real) -> Whole:
    """The policy [S] that maximises Q [S, A]."""
    return np.asarray(np.argmax(q, axis=-1), np.int64)


def checked_policy(policy: ArrayLike, states: int, actions: int) -> Whole:
    """The policy as whole numbers [S]."""
    try:
        chosen = np.asarray(policy)
    except ValueError as e:
        raise UserError(f"a policy is one whole number for each of the {states} states.") from e
    if chosen.shape != (states,) or not np.issubdtype(chosen.dtype, np.integer):
        raise UserError(f"a policy is one whole number for each of {states} states, not {chosen.dtype} {chosen.shape}.")
    if (chosen < 0).any() or (chosen >= actions).any():
        raise UserError(f"a policy's actions lie between 0 and {actions - 1}.")
    return chosen.astype(np.int64)


def check_discount(gamma: float) -> None:
    if not isinstance(gamma, _NUMBER) or not 0 <= gamma <= 1:
        raise UserError(f"gamma must be a number between 0 and 1, not {gamma!r}.")


def check_number(name: str, number: object) -> None:
    if not isinstance(number, _NUMBER) or not 0 <= number < np.inf:
        raise UserError(f"{name} must be a number from 0 up, not {number!r}.")


def check_count(name: str, count: object, *, least: int = 1) -> None:
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < least:
        raise UserError(f"{name} must be a whole number, at least {least}, not {count!r}.")


def check_generator(rng: object) -> None:
    if not isinstance(rng, np.random.Generator):
        raise UserError(f"rng must be a generator such as np.random.default_rng(0), not {rng!r}.")


def finite(name: str, numbers: ArrayLike) -> Real:
    """The numbers in float64; raises if one is infinite or NaN."""
    try:
        array = np.asarray(numbers, np.float64)
    except (TypeError, ValueError) as e:
        raise UserError(f"{name} must be one array of numbers.") from e
    if wrong := int((~np.isfinite(array)).sum()):
        raise UserError(f"{name} must be finite; {wrong} of its numbers are NaN or infinite.")
    return array


@contextmanager
def within_range(what: str) -> Iterator[None]:
    """Turns an overflow into an error that names the numbers."""
    try:
        with np.errstate(over="raise", invalid="ignore"):
            yield
    except FloatingPointError as e:
        raise UserError(
            f"the {what} are too large: they or their squares overflow float64; scale the rewards down."
        ) from e


def _check_that_it_ends(under_policy: Real) -> None:
    """Checks that the policy [..., S, S + 1] reaches the end from every state; with γ = 1 values are infinite otherwise."""
    leads = under_policy[..., :-1] > 0
    ends = under_policy[..., -1] > 0
    for _ in range(ends.shape[-1]):
        ends = ends | (leads & ends[..., None, :]).any(axis=-1)
    if not ends.all():
        state = np.argwhere(~ends)[0][-1]
        raise UserError(
            f"gamma is 1 and the policy never ends from state {state}; use a smaller gamma or add a transition to the end."
        )


def _check_that_it_ends_in_time(system: Real) -> None:
    """Checks the expected number of steps to the end, (I − γ·P_π)⁻¹·1; the rounding error grows with it."""
    steps = None
    with suppress(np.linalg.LinAlgError):  # numerically singular
        steps = np.linalg.solve(system, np.ones((*system.shape[:-1], 1)))
    if steps is None or not ((steps > 0) & (steps < _MOST_STEPS)).all():
        raise UserError(
            f"with this gamma the policy takes more than {_MOST_STEPS:g} steps to end, and values would be rounding errors; "
            "use a smaller gamma."
        )
