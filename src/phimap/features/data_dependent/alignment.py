"""Weights of frequencies that align a kernel with targets, within a ball around equal weights."""

from __future__ import annotations

import numpy as np
from scipy.optimize import bisect


def aligned_weights(energies: np.ndarray, radius: float) -> np.ndarray:
    """Maximiser (l,) of ``energies @ q`` over weights q from 0 on, of sum 1, with ``l |q|^2 - 1 <= radius``.

    That is the chi-square ball around 1 / l. The maximiser is ``(energies - tau)_+`` over its sum, with the one tau at
    which the ball ends. Where the ball holds all weights on the largest energy, these share it.
    """
    order, largest = energies.size, energies == energies.max()
    if order / largest.sum() - 1 <= radius:
        return largest / largest.sum()
    if radius == 0:
        return np.full(order, 1.0 / order)
    # All numbers have one scale, since a bisection ends at an absolute distance.
    energies = energies / energies.max()
    # As long as no weight is 0, the spread is the variance over the square of what the mean is above tau.
    tau = energies.mean() - energies.std() / radius**0.5
    least = energies.min()
    if tau > least:
        tau = bisect(lambda tau: _spread(energies, tau) - radius, least, energies[~largest].max(), maxiter=200)
    weights = np.maximum(energies - tau, 0.0)
    return weights / weights.sum()


def _spread(energies: np.ndarray, tau: float) -> float:
    """``l |q|^2 - 1`` of the weights ``(energies - tau)_+`` over their sum; it grows with tau."""
    weights = np.maximum(energies - tau, 0.0)
    return float(energies.size * np.square(weights).sum() / weights.sum() ** 2) - 1.0
