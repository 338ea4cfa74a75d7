"""The kernels of the survey's experiment, the methods that estimate each kernel, and their maps.

Liu et al. (2021), Section 6.1: the Gaussian kernel, the arc-cosine kernels of order 0 and 1, and a polynomial kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import phimap as pm
from phimap.features import FeatureMap
from phimap.features.power_series.powers import METHODS as POWERS
from phimap.kernels import Kernel
from phimap.learn.search.families import median_length_scale
from phimap.projections import REGISTRY

_DEGREE = 2


@dataclass(frozen=True)
class Family:
    """A kernel, its methods, and a function that makes a feature map.

    Attributes
    ----------
    kernel : callable
        ``kernel(rows)`` gives the kernel, whose scale is determined by the rows.
    methods : sequence of str
    make : callable
        ``make(kernel, method, n_directions, seed)`` gives an unfitted map.
    """

    kernel: Callable[[np.ndarray], Kernel]
    methods: Sequence[str]
    make: Callable[[Any, str, int, int], FeatureMap]


def _fourier(kernel: Any, method: str, n_directions: int, seed: int) -> FeatureMap:
    return pm.FourierFeatures(kernel, 2 * n_directions, projection=method, random_state=seed)


def _arc_cosine(kernel: Any, method: str, n_directions: int, seed: int) -> FeatureMap:
    return pm.ArcCosineFeatures(kernel.order, n_directions, projection=method, random_state=seed)


def _polynomial(kernel: Any, method: str, n_directions: int, seed: int) -> FeatureMap:
    return pm.DotProductFeatures(kernel, 2 * n_directions, method=method, random_state=seed)


#: Families by the name of the kernel. The polynomial kernel is ``(1 + <x, y> / d)^2``.
FAMILIES = {
    "gaussian": Family(lambda rows: pm.kernels.Gaussian(median_length_scale(rows)), sorted(REGISTRY), _fourier),
    "arccosine0": Family(lambda rows: pm.kernels.ArcCosine(0), sorted(REGISTRY), _arc_cosine),
    "arccosine1": Family(lambda rows: pm.kernels.ArcCosine(1), sorted(REGISTRY), _arc_cosine),
    "polynomial": Family(
        lambda rows: pm.kernels.Polynomial(_DEGREE, gamma=1 / rows.shape[1]), sorted(POWERS), _polynomial
    ),
}
