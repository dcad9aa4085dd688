"""What data leave uncertain of an MDP: p(M), and with it the true p(Q_π), by drawing MDPs and solving each exactly.

Rows of transitions are Dirichlet, expected rewards Gaussian with known noise, pairs are independent. So

    weights = prior weights + visits,    precision = 1/sd² + visits/noise²,    mean = (m/sd² + Σ r/noise²) / precision.

Moments of Q_π come with the standard error of their sampling.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tdu.errors import UserError
from tdu.theory.mdp import MDP, Real, Whole, finite, values

_CHUNK = 2**21
"""Numbers of transitions that are drawn at a time."""


class Data(NamedTuple):
    """Transitions met, each [T]. A next state of S is the end of the episode."""

    states: Whole
    actions: Whole
    rewards: Real
    next_states: Whole


class Moments(NamedTuple):
    """Mean and variance over samples, and the standard errors of both."""

    mean: Real
    variance: Real
    mean_error: Real
    variance_error: Real


class Posterior(NamedTuple):
    """p(M). Weights of 0 on something possible, or a precision of 0, make it improper: good for a start, not for a draw."""

    support: NDArray[np.bool_]
    """What is possible at all, [S, A, S + 1]."""
    weights: Real
    """Of the Dirichlet distributions, [S, A, S + 1]; 0 where impossible."""
    reward_mean: Real
    """[S, A]."""
    reward_precision: Real
    """[S, A]; infinite where the reward is known."""
    noise_sd: float
    """Standard deviation of a reward around its expectation."""

    def given(self, data: Data) -> "Posterior":
        """The posterior after seeing more."""
        data = _checked(data, self.support)
        visits = np.zeros(self.support.shape)
        np.add.at(visits, (data.states, data.actions, data.next_states), 1.0)
        total = np.zeros(self.reward_mean.shape)
        np.add.at(total, (data.states, data.actions), data.rewards)
        known = np.isinf(self.reward_precision)
        before = np.where(known, 1.0, self.reward_precision)
        precision = before + visits.sum(axis=-1) / self.noise_sd**2
        weighted = before * self.reward_mean + total / self.noise_sd**2
        mean = np.divide(weighted, precision, out=np.zeros_like(weighted), where=precision > 0)
        return self._replace(
            weights=self.weights + visits,
            reward_mean=np.where(known, self.reward_mean, mean),
            reward_precision=np.where(known, np.inf, precision),
        )

    def mean(self) -> MDP:
        """The mean MDP: what the next transition is expected to be."""
        self._check_proper()
        return MDP(self.weights / self.weights.sum(axis=-1, keepdims=True), self.reward_mean)

    def draw(self, samples: int, rng: np.random.Generator) -> MDP:
        """MDPs [samples, ...]."""
        self._check_proper()
        if samples < 1:
            raise UserError(f"at least one sample is needed, not {samples}.")
        possible = self.weights > 0
        shape = self.weights[possible]
        rows = np.zeros((samples, *self.weights.shape))
        rows[:, possible] = rng.standard_gamma(shape, size=(samples, shape.size))
        total = rows.sum(axis=-1, keepdims=True)
        if (
            total == 0
        ).any():  # weights so small that every draw of a row was rounded to nothing: nearly all on one successor
            for sample, state, action in np.argwhere(total[..., 0] == 0):
                weights = self.weights[state, action]
                rows[sample, state, action, rng.choice(len(weights), p=weights / weights.sum())] = 1.0
            total = rows.sum(axis=-1, keepdims=True)
        noise = rng.standard_normal((samples, *self.reward_mean.shape))
        return MDP(rows / total, self.reward_mean + noise / np.sqrt(self.reward_precision))

    def values(self, policy: ArrayLike, *, gamma: float, samples: int, rng: np.random.Generator) -> Real:
        """Draws of Q_π from the true posterior, [samples, S, A]."""
        step = max(1, _CHUNK // self.weights.size)
        parts = [min(step, samples - begin) for begin in range(0, samples, step)] or [samples]
        return np.concatenate([values(self.draw(part, rng), policy, gamma=gamma) for part in parts])

    def _check_proper(self) -> None:
        without = self.weights.sum(axis=-1) <= 0
        for improper, what in ((without, "transitions"), (self.reward_precision <= 0, "rewards")):
            if improper.any():
                state, action = np.argwhere(improper)[0]
                raise UserError(
                    f"the posterior of the {what} of state {state}, action {action} is improper: it was never visited and "
                    "its prior says nothing; give data for it or a proper prior."
                )


def prior(
    support: ArrayLike,
    *,
    concentration: float = 1.0,
    reward_mean: ArrayLike = 0.0,
    reward_sd: ArrayLike = 1.0,
    noise_sd: float = 1.0,
) -> Posterior:
    """What is believed before any data; concentration 0 and an infinite reward_sd say nothing, reward_sd 0 all."""
    possible = np.asarray(support, bool)
    if possible.ndim != 3 or possible.shape[-1] != possible.shape[0] + 1 or 0 in possible.shape:
        raise UserError(f"a support has the shape [S, A, S + 1], the episode's end last, not {possible.shape}.")
    if not possible.any(axis=-1).all():
        state, action = np.argwhere(~possible.any(axis=-1))[0]
        raise UserError(
            f"the support lets state {state}, action {action} lead nowhere; give it a successor or the end."
        )
    if not concentration >= 0 or not np.isfinite(concentration):
        raise UserError(f"concentration must be a number from 0 up, not {concentration}.")
    if not 0 < noise_sd < np.inf:
        raise UserError(f"noise_sd must be a number above 0, not {noise_sd}.")
    pairs = possible.shape[:2]
    try:
        sd = np.broadcast_to(np.asarray(reward_sd, np.float64), pairs)
        mean = np.broadcast_to(finite("reward_mean", reward_mean), pairs)
    except ValueError as e:
        raise (
            e
            if isinstance(e, UserError)
            else UserError(f"reward_mean and reward_sd must be numbers or have the shape {pairs}.")
        ) from e
    if not (sd >= 0).all():
        raise UserError("reward_sd must be 0 or more.")
    with np.errstate(divide="ignore"):
        precision = 1 / np.square(sd)
    return Posterior(possible, np.where(possible, concentration, 0.0), mean.copy(), precision, noise_sd)


def gather(
    task: MDP, transitions: int, rng: np.random.Generator, *, noise_sd: float = 1.0, pairs: ArrayLike | None = None
) -> Data:
    """Transitions of pairs drawn uniformly, of all of them or of those in `pairs` [S, A]."""
    allowed = np.argwhere(np.ones(task.rewards.shape, bool) if pairs is None else np.asarray(pairs, bool))
    chosen = allowed[rng.integers(len(allowed), size=transitions)]
    states, actions = chosen[:, 0], chosen[:, 1]
    upto = np.cumsum(task.transitions[states, actions], axis=-1)
    next_states = (rng.random((transitions, 1)) * upto[:, -1:] >= upto).sum(axis=-1)
    rewards = task.rewards[states, actions] + noise_sd * rng.standard_normal(transitions)
    return Data(states, actions, rewards, next_states)


def moments(samples: Real) -> Moments:
    """Moments over the first axis."""
    count = len(samples)
    if count < 2:
        raise UserError(f"moments need two samples at least, not {count}.")
    mean = samples.mean(axis=0)
    squares = np.square(samples - mean)
    variance = squares.mean(axis=0)
    return Moments(mean, variance, np.sqrt(variance / count), squares.std(axis=0) / np.sqrt(count))


def _checked(data: Data, support: NDArray[np.bool_]) -> Data:
    states, actions, _ = support.shape
    rewards = finite("the data's rewards", data.rewards)
    columns = [np.asarray(column) for column in (data.states, data.actions, data.next_states)]
    if rewards.ndim != 1 or any(column.shape != rewards.shape for column in columns):
        raise UserError("data are four columns of one length: states, actions, rewards, next states.")
    if rewards.size and not all(np.issubdtype(column.dtype, np.integer) for column in columns):
        raise UserError("the data's states and actions must be whole numbers.")
    s, a, n = (column.astype(np.int64) for column in columns)
    for name, column, limit in (("state", s, states), ("action", a, actions), ("next state", n, states + 1)):
        if ((column < 0) | (column >= limit)).any():
            raise UserError(f"the data name a {name} outside of 0 … {limit - 1}.")
    if not support[s, a, n].all():
        at = np.argwhere(~support[s, a, n])[0, 0]
        raise UserError(f"the data lead from state {s[at]}, action {a[at]} to {n[at]}, which the prior rules out.")
    return Data(s, a, rewards, n)
