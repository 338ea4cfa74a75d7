"""Directions to the vertices of randomly rotated regular simplices."""

from __future__ import annotations

import numpy as np

from phimap.kernels.spectral import SpectralLaw
from phimap.projections.base import Projection, ProjectionRecord
from phimap.projections.dense import DenseRecord, drawn_blocks, haar_orthogonal


class Simplex(Projection):
    """Simplex random features: blocks of d directions at equal obtuse angles, with independent radii.

    The d unit vectors of a block are the vertices of a regular simplex with d vertices, rotated at random: any two
    have the inner product ``-1 / (d - 1)``, the least that d vectors can share. For d = 1 it is a random sign.

    Notes
    -----
    **Error.** Unbiased. The sum of any two directions of a block is as short as can be, which minimises the variance
    of positive (exponential) features. Cosines do not tell a direction from its opposite: for them orthogonal
    directions spread better, and the variance lies between theirs and that of independent draws.

    **Cost.** As `Orthogonal`: O(s d min(s, d)) flops in `fit`, O(s d) numbers stored and O(s d) flops a row.

    **Differs from the source in** radii for every rotation-invariant law; directions and radii are independent, the
    source's `SimRFs`, without the weights of its `SimRFs+`.

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

    They are some of the `n_vertices` vertices of a regular simplex, by default all of them, of which there are at most
    ``n_features + 1``.
    """
    n_rows = n_vertices if n_rows is None else n_rows
    if n_vertices == 1:
        return haar_orthogonal(n_features, rng, 1)
    from scipy.linalg import helmert

    # Columns of Helmert's basis are orthonormal; shrinking their common part, which vanishes for a whole simplex,
    # gives them the wanted inner products.
    coordinates = helmert(n_rows, full=True)
    coordinates[0] *= np.sqrt(1 - n_rows / n_vertices)
    if n_rows == n_vertices:
        coordinates = coordinates[1:]
    rotation = haar_orthogonal(n_features, rng, len(coordinates))
    return np.sqrt(n_vertices / (n_vertices - 1)) * (coordinates.T @ rotation)
