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
    """The median of the kernel's distance between distinct rows of `subset` (n, d), dense or CSR.

    It is 1 if all rows are equal. Without a kernel the distance is Euclidean. A row of weight w counts like w equal
    rows, whose distances to each other are left out.
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
    """The weighted median of `values`: the mean of the two middle ones if half of the weight ends exactly at one."""
    order = np.argsort(values, kind="stable")
    values, passed = values[order], np.cumsum(weights[order])
    half = passed[-1] / 2
    low, high = np.searchsorted(passed, half * np.array([1 - _ROUNDING, 1 + _ROUNDING]))
    return float((values[low] + values[min(high, values.size - 1)]) / 2)
