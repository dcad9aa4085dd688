"""The posterior p(M) over MDPs given data, and the true p(Q_π): MDPs are drawn and each is solved exactly.

Rows of transitions are Dirichlet, expected rewards are Gaussian with known noise, and pairs are independent:

    weights = prior weights + visits,    precision = 1/sd² + visits/noise²,    mean = (m/sd² + Σ r/noise²) / precision.

Moments of Q_π come with their standard errors.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tdu.errors import UserError
from tdu.theory.mdp import (  # fmt: skip
    MDP,
    Real,
    Whole,
    check_count,
    check_discount,
    check_generator,
    check_number,
    checked,
    checked_policy,
    finite,
    values,
    within_range,
)

_CHUNK = 2**21  # Transition probabilities drawn at a time


class Data(NamedTuple):
    """Observed transitions, each [T]. Next state S is the end of the episode."""

    states: Whole
    actions: Whole
    rewards: Real
    next_states: Whole


class SampleMoments(NamedTuple):
    """Mean and variance over samples, and the standard errors of both."""

    mean: Real
    variance: Real
    mean_error: Real
    variance_error: Real


class Posterior(NamedTuple):
    """p(M). A row of zero weights, or a precision of 0, is improper: data can be added, but no MDP can be drawn.

    A weight of 0 beside larger ones is valid: that successor has probability 0 (concentration 0, not yet observed).
    """

    support: NDArray[np.bool_]
    """Possible successors, [S, A, S + 1]."""
    weights: Real
    """Dirichlet weights, [S, A, S + 1]; 0 for successors without probability."""
    reward_mean: Real
    """[S, A]."""
    reward_precision: Real
    """[S, A]; infinite for known rewards."""
    noise_sd: float
    """Standard deviation of a reward around its expectation."""

    def given(self, data: Data) -> "Posterior":
        """The posterior after more data."""
        states, actions, _ = self.support.shape
        data = checked_data(data, states, actions)
        triples = data.states, data.actions, data.next_states
        if not (possible := self.support[triples]).all():
            s, a, following = (column[np.argmin(possible)] for column in triples)
            raise UserError(f"the data lead from state {s}, action {a} to {following}, which the prior rules out.")
        visits = np.zeros(self.support.shape)
        np.add.at(visits, triples, 1.0)
        total = np.zeros(self.reward_mean.shape)
        np.add.at(total, triples[:2], data.rewards)
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
        """The mean MDP: the distribution of the next transition."""
        self._check_proper()
        return MDP(self.weights / self.weights.sum(axis=-1, keepdims=True), self.reward_mean)

    def draw(self, samples: int, rng: np.random.Generator) -> MDP:
        """MDPs [samples, ...]."""
        self._check_proper()
        check_count("samples", samples)
        check_generator(rng)
        possible = self.weights > 0
        shape = self.weights[possible]
        rows = np.zeros((samples, *self.weights.shape))
        rows[:, possible] = rng.standard_gamma(shape, size=(samples, shape.size))
        total = rows.sum(axis=-1, keepdims=True)
        if (total == 0).any():  # tiny weights: all draws of a row underflow; nearly all mass is on one successor
            for sample, state, action in np.argwhere(total[..., 0] == 0):
                weights = self.weights[state, action]
                rows[sample, state, action, rng.choice(len(weights), p=weights / weights.sum())] = 1.0
            total = rows.sum(axis=-1, keepdims=True)
        noise = rng.standard_normal((samples, *self.reward_mean.shape))
        return MDP(rows / total, self.reward_mean + noise / np.sqrt(self.reward_precision))

    def values(self, policy: ArrayLike, *, gamma: float, samples: int, rng: np.random.Generator) -> Real:
        """Draws of Q_π from the true posterior, [samples, S, A].

        With γ = 1, a policy that may return to a state is refused: the probability of returning is random, and Q_π may
        have no mean (E[1/(1 − p)] is infinite for uniform p). Every draw is still finite. If you can show that the moments
        exist, use `values(posterior.draw(…), …)`.
        """
        check_count("samples", samples)
        check_discount(gamma)
        if gamma == 1:
            self._check_that_it_never_returns(policy)
        step = max(1, _CHUNK // self.weights.size)
        parts = [min(step, samples - begin) for begin in range(0, samples, step)]
        return np.concatenate([values(self.draw(part, rng), policy, gamma=gamma) for part in parts])

    def _check_that_it_never_returns(self, policy: ArrayLike) -> None:
        states, actions = self.reward_mean.shape
        leads = self.weights[np.arange(states), checked_policy(policy, states, actions), :-1] > 0
        goes_on = leads.any(axis=-1)
        for _ in range(states):
            goes_on = (leads & goes_on).any(axis=-1)
        if goes_on.any():
            raise UserError(
                f"gamma is 1 and under the posterior the policy may go in circles from state {np.argmax(goes_on)}: "
                "the values may have no finite mean; use a smaller gamma."
            )

    def _check_proper(self) -> None:
        for size, what in ((self.weights.sum(axis=-1), "transitions"), (self.reward_precision, "rewards")):
            improper = ~(size > 0)
            if improper.any():
                state, action = np.argwhere(improper)[0]
                raise UserError(
                    f"the posterior of the {what} of state {state}, action {action} is improper: it was never visited and "
                    "its prior is improper; give data for it or a proper prior."
                )


def prior(
    support: ArrayLike,
    *,
    concentration: float = 1.0,
    reward_mean: ArrayLike = 0.0,
    reward_sd: ArrayLike = 1.0,
    noise_sd: float = 1.0,
) -> Posterior:
    """The posterior before any data. Concentration 0 and infinite reward_sd are improper; reward_sd 0 fixes the rewards.

    With concentration 0 every pair needs data before a draw, and successors that were not observed have probability 0.
    """
    possible = finite("the support", support) != 0
    if possible.ndim != 3 or possible.shape[-1] != possible.shape[0] + 1 or 0 in possible.shape:
        raise UserError(f"a support has the shape [S, A, S + 1], the episode's end last, not {possible.shape}.")
    if not possible.any(axis=-1).all():
        state, action = np.argwhere(~possible.any(axis=-1))[0]
        raise UserError(f"in the support, state {state}, action {action} lead nowhere; add a successor or the end.")
    check_number("concentration", concentration)
    check_number("noise_sd", noise_sd)
    pairs = possible.shape[:2]
    try:
        sd = np.broadcast_to(np.asarray(reward_sd, np.float64), pairs)
        mean = np.broadcast_to(np.asarray(reward_mean, np.float64), pairs)
    except (TypeError, ValueError) as e:
        raise UserError(f"reward_mean and reward_sd must be numbers or have the shape {pairs}.") from e
    finite("reward_mean", mean)
    if not (sd >= 0).all():
        raise UserError("reward_sd must be 0 or more.")
    with np.errstate(divide="ignore", over="ignore"):
        precision, learned = 1 / np.square(sd), 1 / np.square(np.float64(noise_sd))
    if not 0 < learned < np.inf:
        raise UserError(f"noise_sd must be a number above 0 with a finite, nonzero square, not {noise_sd!r}.")
    return Posterior(possible, np.where(possible, concentration, 0.0), mean.copy(), precision, noise_sd)


def gather(
    task: MDP, transitions: int, rng: np.random.Generator, *, noise_sd: float = 1.0, pairs: ArrayLike | None = None
) -> Data:
    """Transitions of pairs drawn uniformly from all, or from those in `pairs` [S, A]."""
    task = checked(task)
    if task.rewards.ndim != 2:
        raise UserError(f"data come from one MDP, with rewards [S, A], not {task.rewards.shape}.")
    check_generator(rng)
    check_count("transitions", transitions, least=0)
    check_number("noise_sd", noise_sd)
    usable = np.ones(task.rewards.shape, bool) if pairs is None else finite("pairs", pairs) != 0
    if usable.shape != task.rewards.shape or not usable.any():
        raise UserError(f"pairs must be booleans of shape {task.rewards.shape}, at least one of them true.")
    allowed = np.argwhere(usable)
    chosen = allowed[rng.integers(len(allowed), size=transitions)]
    states, actions = chosen[:, 0], chosen[:, 1]
    cumulative = np.cumsum(task.transitions[states, actions], axis=-1)
    next_states = (rng.random((transitions, 1)) * cumulative[:, -1:] >= cumulative).sum(axis=-1)
    rewards = task.rewards[states, actions] + noise_sd * rng.standard_normal(transitions)
    return Data(states, actions, rewards, next_states)


def moments(samples: ArrayLike) -> SampleMoments:
    """Moments over the first axis."""
    numbers = finite("samples", samples)
    count = len(numbers) if numbers.ndim else 0
    if count < 2:
        raise UserError(f"moments need at least two samples, not {count}.")
    with within_range("samples"):
        mean = numbers.mean(axis=0)
        squares = np.square(numbers - mean)
        variance = squares.mean(axis=0)
        return SampleMoments(mean, variance, np.sqrt(variance / count), squares.std(axis=0) / np.sqrt(count))


def checked_data(data: Data, states: int, actions: int) -> Data:
    """Data with four columns of one length, whose states and actions exist."""
    if not isinstance(data, Data):
        raise UserError(f"data must be a tdu.theory.Data, not {type(data).__name__}.")
    rewards = finite("the data's rewards", data.rewards)
    s, a, n = (finite("the data's states and actions", x) for x in (data.states, data.actions, data.next_states))
    if rewards.ndim != 1 or any(column.shape != rewards.shape for column in (s, a, n)):
        raise UserError("data are four columns of one length: states, actions, rewards, next states.")
    for name, column, limit in (("state", s, states), ("action", a, actions), ("next state", n, states + 1)):
        if (column != np.floor(column)).any():
            raise UserError("the data's states and actions must be whole numbers.")
        if ((column < 0) | (column >= limit)).any():
            raise UserError(f"the data have a {name} outside of 0 … {limit - 1}.")
    return Data(s.astype(np.int64), a.astype(np.int64), rewards, n.astype(np.int64))
