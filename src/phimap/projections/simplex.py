"""Directions to the vertices of randomly rotated regular simplices."""

from __future__ import annotations

import numpy as np

from phimap.kernels.spectral import SpectralLaw
from phimap.projections.base import Projection, ProjectionRecord
from phimap.projections.dense import DenseRecord, drawn_blocks, haar_orthogonal


class Simplex(Projection):
    """Simplex random features: blocks of d directions at equal obtuse angles, with independent radii.

    The d unit vectors of a block are the vertices of a randomly rotated regular simplex. Any two of them have the inner
    product ``-1 / (d - 1)``, the smallest value that all pairs of d vectors can have. For d = 1 a block is a random
    sign.

    Notes
    -----
    **Error.** Unbiased. The sum of any two directions of a block is as short as possible, which minimises the variance
    of positive (exponential) features. For cosines, which are equal for opposite directions, orthogonal directions are
    better: the variance with simplices lies between orthogonal and independent directions.

    **Cost.** As for `Orthogonal`: O(s d min(s, d)) flops in `fit`, O(s d) numbers stored and O(s d) flops per row.

    **Differs from the source in** radii for every rotation-invariant law. Directions and radii are independent, as in
    the source's `SimRFs`; the weights of its `SimRFs+` are not implemented.

    References
    ----------
    Reid, Choromanski, Likhosherstov, Weller (2023), *Simplex random features*, Equation 7.
    """

    name = "simplex"
    drawn_arrays = 5
    needs_rotation_invariance = True

    def _sample(self, law: SpectralLaw, n_directions: int, rng: np.random.Generator) -> ProjectionRecord:
        d = law.n_features
        blocks = drawn_blocks(lambda size, child: rotated_simplex(d, d, child, size), n_directions, d, rng)
        W = blocks * law.sample_radii(rng, n_directions)[:, None] * law.scale
        return DenseRecord(np.ascontiguousarray(W.T))


def rotated_simplex(
    n_vertices: int, n_features: int, rng: np.random.Generator, n_rows: int | None = None
) -> np.ndarray:
    """Unit vectors (n_rows, n_features) with inner products ``-1 / (n_vertices - 1)``, rotated at random.

    They are the first `n_rows`, by default all, of the `n_vertices` vertices of a regular simplex; `n_vertices` is at
    most ``n_features + 1``.
    """
    n_rows = n_vertices if n_rows is None else n_rows
    if n_vertices == 1:
        return haar_orthogonal(n_features, rng, 1)
    from scipy.linalg import helmert

    # The columns of the Helmert matrix are orthonormal. Scaling row 0, which is constant, gives the required inner
    # products; for a complete simplex this row becomes 0 and is dropped.
    coordinates = helmert(n_rows, full=True)
    coordinates[0] *= np.sqrt(1 - n_rows / n_vertices)
    if n_rows == n_vertices:
        coordinates = coordinates[1:]
    rotation = haar_orthogonal(n_features, rng, len(coordinates))
    return np.sqrt(n_vertices / (n_vertices - 1)) * (coordinates.T @ rotation)
