"""The width of a kernel, from the distances between rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from phimap.kernels import Gaussian, StationaryKernel
from phimap.ops import single_threaded_blas


def median_length_scale(subset: Any, kernel: StationaryKernel | None = None) -> float:
    """The median of the kernel's own distance between distinct rows of `subset` (n, d), dense or CSR.

    1 where all rows are equal. None is the Gaussian kernel, of the Euclidean distance.
    """
    kernel = Gaussian() if kernel is None else kernel
    with single_threaded_blas():
        distances = kernel.distances(subset)[np.triu_indices(subset.shape[0], 1)]
    distances = distances[distances > 0]
    return float(np.median(distances)) if distances.size else 1.0
