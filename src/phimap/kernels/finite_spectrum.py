"""Kernels with finitely many frequencies."""

from __future__ import annotations

from typing import Any

import numpy as np

from phimap._validation import check_finite
from phimap.kernels.base import Kernel
from phimap.kernels.geometry import Rows

# Number of frequencies in a block. The projections of a tile of rows on a block then take no more memory than a tile of
# kernel values.
_BLOCK = 256


class FiniteSpectrum(Kernel):
    r"""A weighted sum of cosines: the kernel with a discrete spectral law.

    .. math:: k(x, y) = \sum_j a_j \cos(\langle w_j, x - y\rangle)

    The inner products of weighted random Fourier features are such a kernel, so its feature map is exact.

    Parameters
    ----------
    frequencies : array-like of shape (s, d)
        The frequencies w_j, in radians per unit of the columns.
    weights : array-like of shape (s,) or None, default=None
        The weights a_j >= 0; None means ``1 / s`` for each.

    Notes
    -----
    **Error.** Rounding of the cosines: about eps times the largest ``|<w, x>|``, in float64.

    **Cost.** ``4 s`` operations per entry, plus O(s d / 256) per entry for the projections, which are computed once per
    tile of 256 rows.

    **Differs from the source in** nothing; the source calls this kernel the learned kernel of weighted random features.

    References
    ----------
    Sinha, Duchi (2016), *Learning kernels with random features*, Equation 5.

    Examples
    --------
    >>> from phimap.kernels import FiniteSpectrum
    >>> FiniteSpectrum([[1.0], [2.0]])([[0.0], [1.0]]).round(4)
    array([[1.    , 0.0621],
           [0.0621, 1.    ]])
    """

    def __init__(self, frequencies: Any, weights: Any = None):
        self.frequencies = frequencies
        self.weights = weights

    def _check_parameters(self, n_features: int) -> None:
        frequencies = np.asarray(self.frequencies, dtype=np.float64)
        if frequencies.ndim != 2 or frequencies.shape[1] != n_features or not len(frequencies):
            raise ValueError(
                f"`frequencies` must be of shape (s, n_features={n_features}) with s at least 1, got "
                f"{frequencies.shape}. Give a row for each frequency."
            )
        check_finite(frequencies, "frequencies")
        if self.weights is None:
            return
        weights = np.asarray(self.weights, dtype=np.float64)
        if weights.shape != frequencies.shape[:1]:
            raise ValueError(
                f"`weights` must be of shape ({len(frequencies)},), one for each frequency, got {weights.shape}."
            )
        check_finite(weights, "weights")
        if not weights.min() >= 0:
            raise ValueError(f"`weights` must be at least 0, got {weights.min()}. Leave such frequencies out.")

    def _measure(self) -> np.ndarray:
        """The weights (s,), with the default filled in."""
        n_frequencies = np.shape(self.frequencies)[0]
        if self.weights is None:
            return np.full(n_frequencies, 1.0 / n_frequencies)
        return np.asarray(self.weights, dtype=np.float64)

    def _evaluate(self, X: Rows, Y: Rows) -> np.ndarray:
        W, weights = np.asarray(self.frequencies, dtype=np.float64).T, self._measure()
        values = np.zeros((X.shape[0], Y.shape[0]))
        for start in range(0, weights.size, _BLOCK):
            block = slice(start, start + _BLOCK)
            left, right = X @ W[:, block], Y @ W[:, block]
            values += (np.cos(left) * weights[block]) @ np.cos(right).T
            values += (np.sin(left) * weights[block]) @ np.sin(right).T
        return values

    def _diagonal(self, X: Rows) -> np.ndarray:
        return np.full(X.shape[0], self._measure().sum())
