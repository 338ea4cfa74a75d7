"""Stratified radii of directions."""

from __future__ import annotations

import numpy as np

from phimap.kernels.spectral import SpectralLaw


def stratified_radii(law: SpectralLaw, n_blocks: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Radii (n_blocks, size) of a law with unit scale, ascending within rows, one from each stratum.

    The ``n_blocks * size`` strata have equal probability. A column holds neighbouring strata in random order, so that
    each row is evenly spread, too. A radius from a random column follows the law.
    """
    parts = rng.permuted(np.arange(size * n_blocks).reshape(size, n_blocks), axis=1).T
    # Rounding can give the probability 1, at which the radius is infinite.
    points = np.minimum((parts + rng.random(parts.shape)) / parts.size, 1 - np.finfo(np.float64).epsneg)
    return law.radial_quantile(points)
