"""Mixtures of modulated Gaussians: their values and gradients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from phimap.kernels.geometry import Rows, squared_distances
from phimap.kernels.profiles import gaussian
from phimap.kernels.slopes import SCRATCH, weighted_differences


@dataclass(frozen=True)
class Components:
    """The kernel ``sum_q shares_q exp(-|scales_q tau|^2 / 2) cos(<means_q, tau>)`` with ``tau = x - y``.

    Attributes
    ----------
    shares : ndarray of shape (q,)
        Positive weights with sum 1.
    means, scales : ndarray of shape (q, d)
        Means and standard deviations of the frequencies.
    """

    shares: np.ndarray
    means: np.ndarray
    scales: np.ndarray

    def values(self, X: Rows, Y: Rows) -> np.ndarray:
        """Kernel values (n, m) between the rows of `X` (n, d) and `Y` (m, d), both dense or both CSR."""
        mixture, total = None, 0.0
        for share, mean, scale in zip(self.shares, self.means, self.scales, strict=True):
            values = gaussian(squared_distances(X, Y, scale))
            if mean.any():
                phases = _phases(X, Y, mean)
                values *= np.cos(phases, out=phases)
            # Where all components are 1, a running mean is exactly 1, but a weighted sum may not be.
            total += share
            if mixture is None:
                mixture = values
            else:
                values -= mixture
                values *= share / total
                mixture += values
        assert mixture is not None
        return np.minimum(mixture, 1.0, out=mixture)

    def gradients(self, X: np.ndarray, Y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Gradients (n, d, t) with respect to x of ``sum_j weights[j] k(x, y_j)``, at the rows of `X` (n, d)."""
        result = np.zeros((X.shape[0], X.shape[1], weights.shape[1]))
        step = max(1, SCRATCH // Y.shape[0])
        for start in range(0, X.shape[0], step):
            rows = slice(start, start + step)
            for share, mean, scale in zip(self.shares, self.means, self.scales, strict=True):
                envelope = gaussian(squared_distances(X[rows], Y, scale))
                phases = _phases(X[rows], Y, mean)
                slopes = envelope * np.cos(phases)
                slopes *= -share
                result[rows] += weighted_differences(X[rows], Y, slopes, weights) * np.square(scale)[:, None]
                envelope *= np.sin(phases, out=phases)
                result[rows] -= (share * mean)[:, None] * (envelope @ weights)[:, None, :]
        return result


def _phases(X: Rows, Y: Rows, mean: np.ndarray) -> np.ndarray:
    """``<mean, x - y>`` (n, m). Dense rows are centred first, so that data far from the origin lose no digits."""
    centre = 0.0 if sparse.issparse(X) else X.mean(axis=0)
    left, right = ((rows - centre if np.ndim(centre) else rows) @ mean for rows in (X, Y))
    return np.subtract.outer(left, right)
