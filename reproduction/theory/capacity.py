"""What a posterior over a last layer can represent at N state-action pairs (Theorem 1): the residuals of the best fit.

Q_θ = wᵀφ. A mean has n unknowns, E[w]; a variance has n(n+1)/2, the symmetric Cov[w]; a factorised one has n. Equations are

    φ(x)ᵀ·E[w] = t(x)    and    ⟨G(x), Cov[w]⟩ = t(x)    for the pairs x = 1 … N,

with features and targets of the Bellman equations or of the true moments. Leading axes hold many problems.
"""

from typing import NamedTuple

import numpy as np

from tdu.errors import UserError
from tdu.theory.mdp import Real, check_count, check_discount, finite


class Best(NamedTuple):
    """The best covariance found, for each problem [...]."""

    residual: Real
    """Root mean square over the N equations."""
    certificate: Real
    """A lower bound on the residual of any covariance; 0 if none is known."""


def mean_residual(features: Real, targets: Real) -> Real:
    """Residual of the best E[w], [...], for features [..., N, n] and targets [..., N]."""
    features, targets = _checked(features, targets)
    solution = np.einsum("...ij,...j->...i", np.linalg.pinv(features), targets)
    return _root_mean_square(np.einsum("...ij,...j->...i", features, solution) - targets)


def quadratic_forms(features: Real, following: Real | None = None, *, gamma: float = 0.0) -> Real:
    """G = φφᵀ − γ²φ'φ'ᵀ, [..., N, n, n], with φ' = E[φ(s', π(s'))]; G = φφᵀ without `following`."""
    check_discount(gamma)
    features = finite("features", features)
    if features.ndim < 2 or (following is not None and np.shape(following) != features.shape):
        raise UserError(f"features and the following ones must both be [..., N, n]; features are {features.shape}.")
    forms = features[..., :, None] * features[..., None, :]
    if following is None:
        return forms
    following = finite("the following features", following)
    return forms - gamma**2 * following[..., :, None] * following[..., None, :]


def symmetric_residual(forms: Real, targets: Real) -> Real:
    """Residual of the best symmetric matrix, [...], for forms [..., N, n, n] and targets [..., N]."""
    return mean_residual(_flat(forms), targets)


def diagonal_residual(forms: Real, targets: Real) -> Real:
    """Residual of the best diagonal matrix, the covariance of a factorised posterior over w."""
    return mean_residual(np.diagonal(forms, axis1=-2, axis2=-1), targets)


def nonzero_symmetric_residual(forms: Real) -> Real:
    """The smallest residual of the homogeneous ⟨G, Σ⟩ = 0 over symmetric Σ with ‖Σ‖ = 1; Σ = 0 always solves them."""
    flat = _flat(finite("forms", forms))
    unknowns = flat.shape[-1]
    if flat.shape[-2] < unknowns:
        return np.zeros(flat.shape[:-2])
    return np.linalg.svd(flat, compute_uv=False)[..., -1] / np.sqrt(flat.shape[-2])


def covariance_residual(forms: Real, targets: Real, *, iterations: int = 2000) -> Best:
    """Residual of the best covariance, a matrix without negative eigenvalues, by accelerated projected gradients.

    If all targets are zero, covariances have trace 1.
    """
    check_count("iterations", iterations)
    n = np.shape(forms)[-1]
    flat, targets = _checked(np.reshape(forms, (*np.shape(forms)[:-2], n * n)), targets)
    homogeneous = not targets.any()
    gram = np.einsum("...ki,...kj->...ij", flat, flat)
    against = np.einsum("...ki,...k->...i", flat, targets)
    step = 1 / np.maximum(np.linalg.eigvalsh(gram)[..., -1:], 1e-300)
    start = np.broadcast_to(np.eye(n).ravel() / n, gram.shape[:-1])
    best, ahead, momentum = start, start, 1.0
    for _ in range(iterations):
        gradient = np.einsum("...ij,...j->...i", gram, ahead) - against
        moved = _projected(ahead - step * gradient, n, trace_one=homogeneous)
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        # Momentum restarts in problems where the last step went uphill.
        uphill = (gradient * (moved - best)).sum(axis=-1, keepdims=True) > 0
        ahead = moved + np.where(uphill, 0.0, (momentum - 1) / following) * (moved - best)
        best, momentum = moved, following
    gap = np.einsum("...ki,...i->...k", flat, best) - targets
    residual = _root_mean_square(gap)
    return Best(residual, _lower_bound(forms, gap) if homogeneous else np.zeros_like(residual))


def _lower_bound(forms: Real, gap: Real) -> Real:
    """min_Σ ‖⟨G, Σ⟩‖ ≥ λ_min(Σ_k y_k·G_k) for every y of norm 1, over Σ of trace 1; y is the direction of the gap."""
    norm = np.linalg.norm(gap, axis=-1)
    y = gap / np.maximum(norm, 1e-300)[..., None]
    combined = np.einsum("...k,...kij->...ij", y, forms)
    smallest = np.linalg.eigvalsh((combined + np.swapaxes(combined, -1, -2)) / 2)[..., 0]
    return np.maximum(smallest, 0.0) / np.sqrt(gap.shape[-1])


def _projected(flat: Real, n: int, *, trace_one: bool) -> Real:
    """The nearest matrix without negative eigenvalues, and with trace 1 if `trace_one`."""
    matrix = flat.reshape(*flat.shape[:-1], n, n)
    eigenvalues, vectors = np.linalg.eigh((matrix + np.swapaxes(matrix, -1, -2)) / 2)
    if trace_one:  # onto the simplex
        descending = eigenvalues[..., ::-1]
        excess = (np.cumsum(descending, axis=-1) - 1) / np.arange(1, n + 1)
        kept = (descending > excess).sum(axis=-1, keepdims=True)
        eigenvalues = eigenvalues - np.take_along_axis(excess, kept - 1, axis=-1)
    clipped = np.maximum(eigenvalues, 0.0)
    return np.asarray(np.einsum("...ik,...k,...jk->...ij", vectors, clipped, vectors, optimize=True)).reshape(
        flat.shape
    )


def _flat(forms: Real) -> Real:
    """G as vectors over the n(n+1)/2 free entries of Σ, off-diagonal ones times √2, [..., N, n(n+1)/2]."""
    n = forms.shape[-1]
    rows, columns = np.triu_indices(n)
    both = (forms + np.swapaxes(forms, -1, -2)) / 2
    return both[..., rows, columns] * np.where(rows == columns, 1.0, np.sqrt(2))


def _root_mean_square(gap: Real) -> Real:
    return np.asarray(np.sqrt(np.square(gap).mean(axis=-1)))


def _checked(features: Real, targets: Real) -> tuple[Real, Real]:
    features, targets = finite("features", features), finite("targets", targets)
    if features.ndim < 2 or features.shape[:-1] != targets.shape or 0 in features.shape:
        raise UserError(f"features [..., N, n] and targets [..., N] do not fit: {features.shape} and {targets.shape}.")
    return features, targets
