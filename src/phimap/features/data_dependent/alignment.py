"""Weights of frequencies that align a kernel with the targets.

The weights lie in a chi-square ball around equal weights.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import bisect


def aligned_weights(energies: np.ndarray, radius: float) -> np.ndarray:
    """Maximiser (l,) of ``energies @ q`` over nonnegative weights q of sum 1 with ``l |q|^2 - 1 <= radius``.

    The constraint is the chi-square ball around 1 / l. The maximiser is ``max(energies - tau, 0)``, divided by its sum.
    The number tau is chosen so that the maximiser lies on the boundary of the ball. If the ball contains the weights
    that are equal at the largest energies and 0 elsewhere, these weights are returned.
    """
    order, largest = energies.size, energies == energies.max()
    if order / largest.sum() - 1 <= radius:
        return largest / largest.sum()
    if radius == 0:
        return np.full(order, 1.0 / order)
    # The energies are scaled, because the tolerance of the bisection is absolute.
    energies = energies / energies.max()
    # If no weight is 0, the spread is ``variance / (mean - tau)^2``, and tau has a closed form.
    tau = energies.mean() - energies.std() / radius**0.5
    least = energies.min()
    if tau > least:
        tau = bisect(lambda tau: _spread(energies, tau) - radius, least, energies[~largest].max(), maxiter=200)
    weights = np.maximum(energies - tau, 0.0)
    return weights / weights.sum()


def _spread(energies: np.ndarray, tau: float) -> float:
    """Return ``l |q|^2 - 1``, where q is ``max(energies - tau, 0)`` (l,) divided by its sum; increases with tau."""
    weights = np.maximum(energies - tau, 0.0)
    return float(energies.size * np.square(weights).sum() / weights.sum() ** 2) - 1.0
