"""The bias of an ensemble on one transition τ = (s, a, r, s'), and Theorem 2's formula for it.

With q = Q(s, a), q' = Q(s', π(s')) and m = E_M[q], let B and C be the biases of E[q] and E[q²], B' and C' those of q', D that
of E[q·q'], A = m·B, and ρ = B'/B, φ = C'/C, κ = D/C, α = m'/m. Then, exactly,

    Bias V[q] = C − 2A − B²,    Bias V[δ] = w₁·C − 2·w₂·A − w₃·B²,
    w₁ = γ²φ − 2γκ + 1,    w₂ = (γα − 1)(γρ − 1),    w₃ = (γρ − 1)².

The paper's proof has plus signs in both; docs/theory.md derives ours. Moments are sample moments with divisor n.

Subtracting constants from all q and from all q' changes no variance. So both identities are computed about the midpoint of
the means under p(θ) and p(M), and large values with a small spread lose no digits. One limit remains: if the bias B is far
larger than the spread, B² dominates every term, and a prediction is off by about B²/10¹⁶.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tdu.errors import UserError
from tdu.theory.mdp import Real, check_discount, finite, within_range

Numbers = float | Real
Truth = NDArray[np.bool_]

_ROUNDING = 64 * np.finfo(np.float64).eps
"""Relative differences of moments below this are rounding errors, and not used as denominators."""


class TransitionBias(NamedTuple):
    """Numbers for one transition, arrays [...] for many. A ratio is NaN if its denominator is zero."""

    B: Numbers
    """Bias of E[Q(s, a)]."""
    C: Numbers
    """Bias of E[Q(s, a)²]."""
    D: Numbers
    """Bias of E[Q(s, a)·Q(s', π(s'))]."""
    A: Numbers
    """E_M[Q(s, a)]·B."""
    rho: Numbers
    phi: Numbers
    kappa: Numbers
    alpha: Numbers
    mean_q: Numbers
    """Measured bias of the mean of Q(s, a)."""
    var_q: Numbers
    """Measured bias of its variance."""
    mean_td: Numbers
    """Measured bias of the mean of δ."""
    var_td: Numbers
    """Measured bias of the variance of δ."""
    var_q_predicted: Numbers
    """C − 2A − B², about the midpoint of the means."""
    var_td_predicted: Numbers
    """w₁·C − 2·w₂·A − w₃·B², about the same midpoint; multiplied out, so that it needs no ratios."""
    sufficient: bool | Truth
    """Whether Theorem 2's condition holds, with the appendix's interval for φ; false if a ratio is NaN."""


def transition_bias(theta: ArrayLike, truth: ArrayLike, *, gamma: float) -> TransitionBias:
    """The biases of p(θ) on a transition, from samples [samples, 2] of (Q(s, a), Q(s', π(s'))) under p(θ) and under p(M).

    For many transitions both are [samples, ..., 2]. The numbers of samples may differ. The reward of τ is the same under both
    and cancels.
    """
    estimated, true = _samples("theta", theta), _samples("truth", truth)
    if estimated.shape[1:] != true.shape[1:]:
        shapes = f"{estimated.shape} and {true.shape}"
        raise UserError(f"theta and truth must have the same transitions; their shapes are {shapes}.")
    check_discount(gamma)
    with within_range("values in theta and truth"):
        record = _record(estimated, true, gamma)
    return record if estimated.ndim > 2 else TransitionBias(*(np.asarray(field).item() for field in record))


def _record(theta: Real, truth: Real, gamma: float) -> TransitionBias:
    middle = (theta.mean(axis=0) + truth.mean(axis=0)) / 2
    near, near_truth = theta - middle, truth - middle
    estimated, true = _moments(near), _moments(near_truth)
    B, B_next, c, c_next, d = (estimated[name] - true[name] for name in ("q", "q'", "q²", "q'²", "qq'"))
    middle_q, middle_next = middle[..., 0], middle[..., 1]
    C, C_next = c + 2 * middle_q * B, c_next + 2 * middle_next * B_next
    D = d + middle_q * B_next + middle_next * B
    m, m_next = middle_q + true["q"], middle_next + true["q'"]
    size = np.maximum(*(np.square(samples[..., 0]).mean(axis=0) for samples in (theta, truth)))
    rho, alpha = _ratio(B_next, B, np.sqrt(size)), _ratio(m_next, m, np.sqrt(size))
    phi, kappa = _ratio(C_next, C, size), _ratio(D, C, size)
    of_mean, of_truth = gamma * B_next - B, gamma * true["q'"] - true["q"]
    td, td_truth = (gamma * samples[..., 1] - samples[..., 0] for samples in (near, near_truth))
    return TransitionBias(
        B=B, C=C, D=D, A=m * B, rho=rho, phi=phi, kappa=kappa, alpha=alpha,
        mean_q=B,
        var_q=near[..., 0].var(axis=0) - near_truth[..., 0].var(axis=0),
        mean_td=td.mean(axis=0) - td_truth.mean(axis=0),
        var_td=td.var(axis=0) - td_truth.var(axis=0),
        var_q_predicted=c - 2 * true["q"] * B - B**2,
        var_td_predicted=gamma**2 * c_next - 2 * gamma * d + c - 2 * of_truth * of_mean - of_mean**2,
        sufficient=condition(rho, phi, kappa, alpha, gamma=gamma),
    )  # fmt: skip


def weights(record: TransitionBias, *, gamma: float) -> tuple[Numbers, Numbers, Numbers]:
    """w₁, w₂, w₃ from the ratios; NaN if those are."""
    check_discount(gamma)
    first = gamma**2 * record.phi - 2 * gamma * record.kappa + 1
    return first, (gamma * record.alpha - 1) * (gamma * record.rho - 1), (gamma * record.rho - 1) ** 2


def condition(rho: ArrayLike, phi: ArrayLike, kappa: ArrayLike, alpha: ArrayLike, *, gamma: float) -> Truth:
    """Theorem 2's condition: ρ, α, κ in (0, 2/γ) and φ in ((2κγ − 2)/γ², 2κ/γ).

    Multiplied by γ, so that it is defined at γ = 0. It is false there: δ = r − Q(s, a) is as biased as Q(s, a).
    """
    inside = _inside(rho, alpha, kappa, gamma)
    return inside & (np.abs(gamma**2 * np.asarray(phi) - 2 * gamma * np.asarray(kappa) + 1) < 1)


def condition_of_the_text(rho: ArrayLike, phi: ArrayLike, kappa: ArrayLike, alpha: ArrayLike, *, gamma: float) -> Truth:
    """The condition as Theorem 2 prints it, φ in (1 − 2γκ, (2/γ)²): it allows a large w₁, and is not used elsewhere."""
    inside, phi = _inside(rho, alpha, kappa, gamma), np.asarray(phi)
    return inside & (phi > 1 - 2 * gamma * np.asarray(kappa)) & (gamma**2 * phi < 4)


def _inside(rho: ArrayLike, alpha: ArrayLike, kappa: ArrayLike, gamma: float) -> Truth:
    """Whether ρ, α and κ are in (0, 2/γ)."""
    check_discount(gamma)
    inside = [np.abs(gamma * np.asarray(ratio) - 1) < 1 for ratio in (rho, alpha, kappa)]
    return np.asarray(inside[0] & inside[1] & inside[2])


def same_sign(record: TransitionBias) -> Truth:
    """Whether the three terms C, −2A and −B² of Bias V[q] have one sign.

    With Theorem 2's condition this *is* sufficient: |Bias V[δ]| ≤ |w₁||C| + 2|w₂||A| + w₃B² < |C| + 2|A| + B² = |Bias V[q]|.
    """
    return (np.asarray(record.C) <= 0) & (np.asarray(record.A) >= 0) & (np.asarray(record.B) != 0)


def _samples(name: str, numbers: ArrayLike) -> Real:
    samples = finite(name, numbers)
    if samples.ndim < 2 or samples.shape[-1] != 2:
        raise UserError(f"{name} must have the shape [samples, 2] or [samples, ..., 2], not {samples.shape}.")
    if 0 in samples.shape:
        raise UserError(f"{name} is empty: its shape is {samples.shape}; give at least one sample of one transition.")
    return samples


def _moments(samples: Real) -> dict[str, Real]:
    q, q_next = samples[..., 0], samples[..., 1]
    products = {"q": q, "q'": q_next, "q²": q * q, "q'²": q_next * q_next, "qq'": q * q_next}
    return {name: np.asarray(product.mean(axis=0)) for name, product in products.items()}


def _ratio(above: Real, below: Real, size: Real) -> Real:
    zero = np.abs(below) <= _ROUNDING * size
    return np.divide(above, below, out=np.full(np.shape(below), np.nan), where=~zero)
