"""Radii of directions, spread evenly over their law."""

from __future__ import annotations

import numpy as np

from phimap.kernels.spectral import SpectralLaw


def stratified_radii(law: SpectralLaw, n_blocks: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Radii (n_blocks, size) of a law of unit scale, rising along rows: one in each of as many equal parts of the law.

    A column has neighbouring parts in random order, so that each block is spread evenly, too. A radius from a random
    column follows the law.
    """
    parts = rng.permuted(np.arange(size * n_blocks).reshape(size, n_blocks), axis=1).T
    # Rounding alone can reach 1, where the radius is infinite.
    points = np.minimum((parts + rng.random(parts.shape)) / parts.size, 1 - np.finfo(np.float64).epsneg)
    return law.radial_quantile(points)
