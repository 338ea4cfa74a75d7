"""Gradients of weighted sums of kernel values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from phimap.kernels.geometry import squared_distances

#: Derivative of a radial kernel with respect to half the squared scaled distance. The argument holds squared scaled
#: distances (n, m) and may be overwritten.
Slope = Callable[[np.ndarray], np.ndarray]
#: Number of floats in a scratch array, which takes 16 MiB.
SCRATCH = 2**21


def radial_gradients(
    X: np.ndarray, Y: np.ndarray, weights: np.ndarray, slope: Slope, scale: float | np.ndarray
) -> np.ndarray:
    """Gradients (n, d, t) of ``sum_j weights[j] f(|scale (x - y_j)|^2)`` at the rows of `X`.

    With s_j the value of `slope` for x and y_j, the gradient is ``scale^2 sum_j weights[j] s_j (x - y_j)``. This takes
    one matrix of slopes and t matrix products.
    """
    result = np.empty((X.shape[0], X.shape[1], weights.shape[1]))
    step = max(1, SCRATCH // Y.shape[0])
    for start in range(0, X.shape[0], step):
        part = slice(start, start + step)
        slopes = slope(squared_distances(X[part], Y, scale))
        result[part] = weighted_differences(X[part], Y, slopes, weights)
    return result * np.square(np.broadcast_to(scale, X.shape[1]))[:, None]


def weighted_differences(X: np.ndarray, Y: np.ndarray, slopes: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Sums (n, d, t) over j of ``slopes[i, j] weights[j] (x_i - y_j)``."""
    result = np.empty((X.shape[0], X.shape[1], weights.shape[1]))
    centre = Y.mean(axis=0)
    left, right = X - centre, Y - centre
    for target, weight in enumerate(weights.T):
        weighted = slopes * weight
        result[:, :, target] = left * weighted.sum(axis=1, keepdims=True) - weighted @ right
    return result


def product_gradients(
    X: np.ndarray, Y: np.ndarray, weights: np.ndarray, values: np.ndarray, scale: float | np.ndarray
) -> np.ndarray:
    """Gradients (n, d, t) of ``sum_j weights[j] exp(-sum_k |scale_k (x_k - y_jk)|)``.

    `values` (n, m) are the exponentials. In a column where x and y_j agree, the slope counts as zero, the mean of the
    one-sided slopes.
    """
    result = np.empty((X.shape[0], X.shape[1], weights.shape[1]))
    step = max(1, SCRATCH // Y.shape[0])
    for start in range(0, X.shape[0], step):
        part = slice(start, start + step)
        for column in range(X.shape[1]):
            signs = np.sign(np.subtract.outer(X[part, column], Y[:, column]))
            signs *= values[part]
            result[part, column] = signs @ weights
    return -result * np.broadcast_to(scale, X.shape[1])[:, None]
