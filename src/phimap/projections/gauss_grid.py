"""The dense Gauss quadrature grid: all products of the nodes of a rule in one dimension."""

from __future__ import annotations

from itertools import count

import numpy as np
from scipy import special

from phimap.kernels.spectral import SpectralLaw
from phimap.projections.base import Projection, ProjectionRecord, input_scale
from phimap.projections.quadrature import WeightedRecord

# A grid of more points than this would be no approximation of anything: it is longer than what it stands for.
_MOST_POINTS = 2**22


class GaussGrid(Projection):
    """The dense Gauss-Hermite grid: all ``n^d`` products of the n nodes of Gauss's rule, and of their weights.

    Nothing is random. The number of directions is ``n^d`` for some n of at least 2 (n of 1 is the point 0 alone); for
    stationary kernels, where a direction and its opposite have the same cosine, each such pair is one direction and
    there are half as many, rounded up. For a few columns only: 2 nodes in 20 columns are half a million directions.

    Notes
    -----
    **Error.** Deterministic and biased. Polynomials of degree up to ``2 n - 1`` in each coordinate are integrated
    exactly. The estimate of the Gaussian kernel at scaled differences delta is ``prod_j q_n(delta_j)`` with ``q_n(t) =
    sum_i a_i cos(x_i t)`` over nodes and weights, whose error is at most ``n! t^(2 n) / (2 n)!`` by the remainder of
    Gauss's rule: for distances up to about ``sqrt(n)`` in each column it falls faster than any power of the number of
    nodes. The weights are positive.

    **Cost.** O(s d) numbers stored and O(s d) flops a row, ``s = n^d / 2``.

    **Differs from the source in** the merged form.

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
            # In this order the opposite of the first point is the last: a half has one point of each pair.
            points, products = points[:, :n_directions], products[:n_directions].copy()
            products[: n_nodes**d // 2] *= 2
        # Symmetry makes the middle node 0 up to rounding, which would be a direction.
        points[np.abs(points) < np.finfo(np.float64).eps * n_nodes] = 0.0
        return WeightedRecord(np.ascontiguousarray(points * input_scale(law)[:, None]), products)

    def _n_nodes(self, d: int, n_directions: int, merged: bool) -> int:
        """The number of nodes in one dimension of a grid of so many directions."""

        def size(n_nodes: int) -> int:
            return (n_nodes**d + 1) // 2 if merged else n_nodes**d

        # The first rule that is too large; that before it fits, or is too small.
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
