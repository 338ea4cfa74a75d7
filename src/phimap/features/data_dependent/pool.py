"""Pools of frequencies from which the data select.

The functions draw a pool, evaluate it on rows, and build a map from it.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt
from typing import Any

import numpy as np

from phimap.config import stated_budget
from phimap.features.fourier import FourierRecord
from phimap.kernels import Gaussian, StationaryKernel
from phimap.ops import Array, ops_for
from phimap.projections import Projection, as_projection
from phimap.projections.dense import DenseRecord

# Number of frequencies whose cosines and sines are in memory at a time.
_BLOCK = 1024
# Maximum number of square matrices in memory while scores and weights are computed. Their order is the number of rows.
_MATRICES = 4


def checked_kernel(kernel: StationaryKernel | None) -> StationaryKernel:
    """Return `kernel` after checking that it is stationary; None becomes the Gaussian kernel of length scale 1."""
    kernel = Gaussian() if kernel is None else kernel
    if not isinstance(kernel, StationaryKernel):
        raise TypeError(f"`kernel` must be a stationary kernel, got {kernel!r}. Use NystroemFeatures for others.")
    return kernel


def draw_pool(
    kernel: StationaryKernel, n_features: int, size: int, projection: str | Projection, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Frequencies (size, d) from the kernel's spectral density, and their weights (size,) in the kernel estimate."""
    law = kernel.spectral_law(n_features)
    record = as_projection(projection, law).sample(law, size, rng)
    return record.to_dense(), np.square(record.weight_roots) * (
        1 if record.weight_signs is None else record.weight_signs
    )


def chosen_rows(X: Array, n_subset: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """At most `n_subset` random rows of `X`, dense in float64 on the host, and their sorted indices.

    The number n of rows is reduced until four n x n matrices fit into half of the byte budget.
    """
    ops = ops_for(X)
    most = max(2, min(n_subset, isqrt(stated_budget() // (2 * 8 * _MATRICES))))
    places = np.arange(X.shape[0]) if X.shape[0] <= most else np.sort(rng.permutation(X.shape[0])[:most])
    return np.asarray(ops.to_host(ops.dense(X[places])), dtype=np.float64), places


def for_blocks(
    rows: np.ndarray, frequencies: np.ndarray, evaluate: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> np.ndarray:
    """Call `evaluate` with the cosines and sines (n, k) of each block of k frequencies, and return all results (l,)."""
    parts = []
    for start in range(0, len(frequencies), _BLOCK):
        projected = rows @ frequencies[start : start + _BLOCK].T
        parts.append(evaluate(np.cos(projected), np.sin(projected)))
    return np.concatenate(parts)


def spectral_record(
    frequencies: np.ndarray, weights: np.ndarray, n_components: int, rng: np.random.Generator
) -> FourierRecord:
    """The map with a cosine and a sine for each frequency (s, d), with the given weights (s,).

    For odd widths the last frequency has only one cosine, with a random phase.
    """
    n_phases = n_components % 2
    shift = rng.uniform(0, 2 * np.pi, n_phases)
    scale = np.sqrt(weights * np.repeat([1.0, 2.0], [len(weights) - n_phases, n_phases]))
    projection: Any = DenseRecord(np.ascontiguousarray(frequencies.T))
    return FourierRecord(projection, shift, scale, False, False)
