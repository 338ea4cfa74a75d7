"""The width of a kernel, from the distances between rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from phimap.kernels import Gaussian, StationaryKernel
from phimap.ops import single_threaded_blas

# Relative rounding of sums of half a million weights.
_ROUNDING = 1e-12


def median_length_scale(
    subset: Any, kernel: StationaryKernel | None = None, weights: np.ndarray | None = None
) -> float:
    """The median of the kernel's own distance between distinct rows of `subset` (n, d), dense or CSR.

    1 where all rows are equal. None is the Gaussian kernel, of the Euclidean distance. A row of weight w counts like w
    equal rows, which are no distinct ones.
    """
    kernel = Gaussian() if kernel is None else kernel
    with single_threaded_blas():
        distances = kernel.distances(subset)[np.triu_indices(subset.shape[0], 1)]
    positive = distances > 0
    distances = distances[positive]
    if weights is not None and distances.size and np.ptp(weights) > 0:
        return _weighted_median(distances, np.outer(weights, weights)[np.triu_indices(weights.size, 1)][positive])
    return float(np.median(distances)) if distances.size else 1.0


def _weighted_median(values: np.ndarray, weights: np.ndarray) -> float:
    """The median of `values` so often repeated: the mean of both middle ones where half the weight ends at one."""
    order = np.argsort(values, kind="stable")
    values, passed = values[order], np.cumsum(weights[order])
    half = passed[-1] / 2
    low, high = np.searchsorted(passed, half * np.array([1 - _ROUNDING, 1 + _ROUNDING]))
    return float((values[low] + values[min(high, values.size - 1)]) / 2)
