"""Directions to the vertices of randomly rotated regular simplices."""

from __future__ import annotations

import numpy as np

from phimap.kernels.spectral import SpectralLaw
from phimap.ops import run_tasks
from phimap.projections.base import Projection, ProjectionRecord
from phimap.projections.dense import DenseRecord, haar_orthogonal


class Simplex(Projection):
    """Simplex random features: blocks of d directions at equal obtuse angles, with independent radii.

    The d unit vectors of a block are the vertices of a regular simplex with d vertices, rotated at random: any two
    have the inner product ``-1 / (d - 1)``, the least that d vectors can share. For d = 1 it is a random sign.

    Notes
    -----
    **Error.** Unbiased. The sum of any two directions of a block is as short as can be, which minimises the variance
    of positive (exponential) features. Cosines do not tell a direction from its opposite: for them orthogonal
    directions spread better, and the variance lies between theirs and that of independent draws.

    **Cost.** As `Orthogonal`: O(s d^2) flops in `fit`, O(s d) numbers stored and O(s d) flops a row.

    **Differs from the source in** radii for every rotation-invariant law; directions and radii are independent, the
    source's `SimRFs`, without the weights of its `SimRFs+`.

    References
    ----------
    Reid, Choromanski, Likhosherstov, Weller (2023), *Simplex random features*, Equation 7.
    """

    name = "simplex"
    needs_rotation_invariance = True

    def _sample(self, law: SpectralLaw, n_directions: int, rng: np.random.Generator) -> ProjectionRecord:
        d = law.n_features
        block_rngs = rng.spawn(-(-n_directions // d))
        blocks = run_tasks(lambda child: rotated_simplex(d, d, child), block_rngs)
        W = np.concatenate(blocks)[:n_directions] * law.sample_radii(rng, n_directions)[:, None] * law.scale
        return DenseRecord(np.ascontiguousarray(W.T))


def rotated_simplex(n_vertices: int, n_features: int, rng: np.random.Generator) -> np.ndarray:
    """Unit vectors (n_vertices, n_features) with inner products ``-1 / (n_vertices - 1)``, rotated at random.

    There are at most ``n_features + 1`` such vectors.
    """
    rotation = haar_orthogonal(n_features, rng)
    if n_vertices == 1:
        return rotation[:1]
    from scipy.linalg import helmert

    # Helmert's rows are an orthonormal basis of the vectors that sum to zero: its columns are a simplex's vertices.
    return np.sqrt(n_vertices / (n_vertices - 1)) * (helmert(n_vertices).T @ rotation[: n_vertices - 1])
