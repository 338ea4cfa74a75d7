"""The dense Gauss quadrature grid: the product of one-dimensional rules, one for each column."""

from __future__ import annotations

from itertools import count

import numpy as np
from scipy import special

from phimap.kernels.spectral import SpectralLaw
from phimap.projections.base import Projection, ProjectionRecord, input_scale
from phimap.projections.quadrature import WeightedRecord

# Maximum number of points of the grid. With more features, the exact kernel is cheaper for all but the largest data.
_MOST_POINTS = 2**22


class GaussGrid(Projection):
    """The dense Gauss-Hermite grid: all ``n^d`` points of the product rule with n nodes per column.

    The rule is deterministic. The number of directions must be ``n^d`` for some n >= 2. For stationary kernels opposite
    directions have the same cosine and are merged, so the number must be ``n^d / 2``, rounded up. The rule suits a few
    columns only: 2 nodes in each of 20 columns give half a million directions.

    Notes
    -----
    **Error.** Deterministic and biased. Polynomials of degree up to ``2 n - 1`` in each coordinate are integrated
    exactly. The estimate of the Gaussian kernel at scaled differences delta is ``prod_j q_n(delta_j)``. Here
    ``q_n(t) = sum_i a_i cos(x_i t)``, with nodes x_i and weights a_i, has an error of at most ``n! t^(2 n) / (2 n)!``.
    For differences up to about ``sqrt(n)`` in each column, the error decreases faster than any power of n. The weights
    are positive.

    **Cost.** O(s d) numbers stored and O(s d) flops per row, with ``s = n^d / 2`` for stationary kernels.

    **Differs from the source in** merging opposite directions.

    References
    ----------
    Dao, De Sa, Re (2017), *Gaussian quadrature for kernel features*, Section 3.1; Liu, Huang, Chen, Suykens (2021),
    *Random features for kernel approximation*, Section 3.3.
    """

    name = "gauss-grid"

    @classmethod
    def _requirements(cls, law: SpectralLaw) -> tuple[tuple[str, bool], ...]:
        return (("a Gaussian spectral law", law.is_gaussian),)

    def _sample(self, law: SpectralLaw, n_directions: int, rng: np.random.Generator) -> ProjectionRecord:
        d, merged = law.n_features, law.is_for_even_functions
        n_nodes = self._n_nodes(d, n_directions, merged)
        nodes, weights = special.roots_hermitenorm(n_nodes)
        weights = weights / weights.sum()
        places = np.indices((n_nodes,) * d).reshape(d, -1)
        points, products = nodes[places], weights[places].prod(axis=0)
        if merged:
            # The i-th point from the start and the i-th point from the end are opposite. The first half is kept, with
            # doubled weights.
            points, products = points[:, :n_directions], products[:n_directions].copy()
            products[: n_nodes**d // 2] *= 2
        # By symmetry the middle node is 0, but the computed node has a rounding error.
        points[np.abs(points) < np.finfo(np.float64).eps * n_nodes] = 0.0
        return WeightedRecord(np.ascontiguousarray(points * input_scale(law)[:, None]), products)

    def _n_nodes(self, d: int, n_directions: int, merged: bool) -> int:
        """Number of nodes per column of the grid with `n_directions` directions; raise if there is no such grid."""

        def size(n_nodes: int) -> int:
            return (n_nodes**d + 1) // 2 if merged else n_nodes**d

        # Nodes per column of the smallest grid that has too many directions. Only the next smaller grid can fit.
        above = next(n for n in count(2) if size(n) > n_directions)
        if above > 2 and size(above - 1) == n_directions <= _MOST_POINTS:
            return above - 1
        fitting = [size(n) for n in (above - 1, above) if n > 1 and size(n) <= _MOST_POINTS]
        if not fitting:
            raise ValueError(
                f"`projection`={self.name!r} has 2^{d - merged} directions or more for {d} features, "
                f"got {n_directions}. Use projection='orthogonal'."
            )
        sizes = " or ".join(map(str, fitting))
        widths = " or ".join(str(2 * size) for size in fitting)
        remedy = f"n_components={widths} for pairs, {sizes} for phases" if merged else f"n_components={sizes}"
        raise ValueError(
            f"`projection`={self.name!r} has {sizes} directions for {d} features, got {n_directions}. "
            f"Use {remedy}, or projection='orthogonal'."
        )
