"""Radial kernels as functions of squared scaled distances."""

from __future__ import annotations

from math import ceil

import numpy as np
from scipy import special


def gaussian(squared: np.ndarray) -> np.ndarray:
    """The Gaussian kernel ``exp(-squared / 2)`` of squared scaled distances; `squared` is overwritten."""
    squared *= -0.5
    return np.exp(squared, out=squared)


def matern(nu: float, squared: np.ndarray) -> np.ndarray:
    """The Matern function ``2^(1 - nu) / Gamma(nu) r^nu K_nu(r)`` for ``squared = r^2`` (any shape)."""
    steps = ceil(nu) - 1
    lowest = nu - steps
    r = np.sqrt(squared)
    if lowest == 0.5:
        previous = np.negative(r)
        np.exp(previous, out=previous)
        current = previous
        if steps:
            r += 1.0
            r *= previous
            current = r
    else:
        previous = _matern_bessel(lowest, r)
        current = _matern_bessel(lowest + 1.0, r) if steps else previous
    for step in range(1, steps):
        order = lowest + step
        previous *= squared
        previous /= 4.0 * order * (order - 1.0)
        previous += current
        previous, current = current, previous
    return current


def _matern_bessel(nu: float, r: np.ndarray) -> np.ndarray:
    """The Matern function of r (any shape) for 0 < nu <= 2, from the Bessel function."""
    with np.errstate(invalid="ignore"):
        values = special.kve(nu, r) * np.exp(-r) * r**nu
    values *= 2.0 ** (1.0 - nu) / special.gamma(nu)
    # At r = 0, and at small r where the Bessel function overflows, the product is not finite, and its limit 1 is used.
    values[~np.isfinite(values)] = 1.0
    return np.minimum(values, 1.0, out=values)
