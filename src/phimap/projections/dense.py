"""Projections that store their matrix: independent and block-orthogonal directions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import comb

import numpy as np

from phimap.kernels.spectral import SpectralLaw
from phimap.kernels.subsets import SubsetLaw, scattered, spread_subsets
from phimap.ops import Array, Ops, run_tasks
from phimap.projections.base import Projection, ProjectionRecord
from phimap.projections.subsets import SubsetRecord
from phimap.records import of_floats

# Number of directions in a block: a block of 512 rows then takes 1 MB in float32, the size of an L2 cache.
_BLOCK = 512
# Directions with q nonzero entries are stored as a dense matrix if there are at most this many times q columns, because
# a dense product is then faster.
_INPUTS_AN_ENTRY = 16


@dataclass(frozen=True)
class DenseRecord(ProjectionRecord):
    """A stored matrix.

    Attributes
    ----------
    matrix : ndarray of shape (n_features, n_directions)
        W transposed: dense and CSR rows are multiplied by it without a copy.
    """

    # With tiles of 256 rows, OpenBLAS with AVX-512 reaches only 90% of its speed with many rows.
    least_tile_rows = 512

    matrix: np.ndarray = field(metadata=of_floats("d", "s"))

    @property
    def n_features(self) -> int:
        return self.matrix.shape[0]

    @property
    def n_directions(self) -> int:
        return self.matrix.shape[1]

    @property
    def n_flops(self) -> int:
        return 2 * self.n_features * self.n_directions

    @property
    def scratch_width(self) -> int:
        return min(self.n_directions, _BLOCK)

    def blocks(self, ops: Ops, X: Array) -> Iterator[tuple[slice, Array]]:
        # For CSR rows SciPy needs a contiguous matrix; it would copy a sliced block for every tile.
        width = self.n_directions if ops.is_sparse(X) else _BLOCK
        for first in range(0, self.n_directions, width):
            columns = slice(first, min(first + width, self.n_directions))
            yield columns, ops.matmul(X, self.matrix[:, columns])


class SpreadProjection(Projection):
    """Base of projections that draw all directions jointly and store them. They also support additive kernels.

    For an additive kernel, the number of directions differs by at most one between subsets of columns, and is about
    equal for all columns. All directions come from one joint draw in q dimensions, where q is the size of a subset.
    Each subset takes one group of these directions.
    """

    serves_subsets = True
    drawn_arrays = 4

    def _sample(self, law: SpectralLaw, n_directions: int, rng: np.random.Generator) -> ProjectionRecord:
        if not isinstance(law, SubsetLaw):
            return DenseRecord(np.ascontiguousarray(self._directions(law, n_directions, rng).T))
        subset_rng, entry_rng = rng.spawn(2)
        n_subsets = min(n_directions, comb(law.n_features, law.order))
        subsets = spread_subsets(law.n_features, law.order, n_subsets, subset_rng)
        # The directions take the subsets in turn, so that the first directions of a map, if it is truncated, are
        # balanced, too.
        subsets = np.resize(subsets, (n_directions, law.order))
        return stored_entries(law, subsets, self._in_turn(law.part, n_directions, n_subsets, entry_rng))

    @abstractmethod
    def _directions(self, law: SpectralLaw, n_directions: int, rng: np.random.Generator) -> np.ndarray:
        """Directions (s, d) for a law that is not a `SubsetLaw`."""

    def _in_turn(self, law: SpectralLaw, n_directions: int, n_groups: int, rng: np.random.Generator) -> np.ndarray:
        """Directions (s, d); direction i belongs to group ``i % n_groups``, and each group is well spread by itself."""
        directions = np.empty((n_directions, law.n_features))
        directions[np.argsort(np.arange(n_directions) % n_groups, kind="stable")] = self._directions(
            law, n_directions, rng
        )
        return directions


def stored_entries(law: SubsetLaw, subsets: np.ndarray, entries: np.ndarray) -> ProjectionRecord:
    """A record of directions with `entries` (s, q), given for unit scale, in the columns `subsets` (s, q)."""
    entries = entries * np.broadcast_to(law.scale, law.n_features)[subsets]
    if law.n_features > _INPUTS_AN_ENTRY * law.order:
        return SubsetRecord(law.n_features, np.ascontiguousarray(subsets.T), np.ascontiguousarray(entries.T))
    return DenseRecord(np.ascontiguousarray(scattered(subsets, entries, law.n_features).T))


class Gaussian(Projection):
    """Independent draws from the spectral law (for the Gaussian kernel: Gaussian directions).

    Notes
    -----
    **Error.** The baseline for all other projections. For paired Fourier features of a kernel k, an estimate from s
    directions has the variance ``(1 + k(2 delta) - 2 k(delta)^2) / (2 s)`` at the difference delta.

    **Cost.** O(s d) numbers stored and O(s d) flops per row.

    **Differs from the source in** nothing.

    References
    ----------
    Rahimi, Recht (2007), *Random features for large-scale kernel machines*, Algorithm 1.
    """

    name = "gaussian"
    serves_subsets = True
    drawn_arrays = 2

    def _sample(self, law: SpectralLaw, n_directions: int, rng: np.random.Generator) -> ProjectionRecord:
        if isinstance(law, SubsetLaw):
            return stored_entries(law, *law.sample_entries(rng, n_directions))
        return DenseRecord(np.ascontiguousarray(law.sample(rng, n_directions).T))


class Orthogonal(SpreadProjection):
    """Orthogonal random features: blocks of Haar-orthogonal directions with independent radii.

    Each block of d directions is the factor Q of the QR decomposition of a Gaussian matrix. The signs of the columns
    are fixed by the diagonal of R, so that Q is Haar distributed. The directions are then scaled to radii drawn from
    the law. Each direction follows the law exactly, so the estimate is unbiased; orthogonality reduces its variance.

    Notes
    -----
    **Error.** For the Gaussian kernel at a distance of tau length scales, the cosines of two directions in a block have
    the covariance ``c = 1F1(d, d / 2, -tau^2 / 2) - exp(-tau^2)``, where 1F1 is the confluent hypergeometric function.
    For large d, c is about ``-tau^4 exp(-tau^2) / (2 d)``. The variance of paired features from s <= d directions is
    ``((1 - exp(-tau^2))^2 / 2 + (s - 1) c) / s``. It is below the variance of independent draws if c is negative.

    **Cost.** O(s d min(s, d)) flops in `fit`; afterwards as for independent draws.

    **Differs from the source in** the choice of signs, without which Q is not Haar distributed, and in radii for every
    rotation-invariant law.

    References
    ----------
    Yu, Suresh, Choromanski, Holtmann-Rice, Kumar (2016), *Orthogonal random features*, Section 3.
    """

    name = "orthogonal"
    needs_rotation_invariance = True

    def _directions(self, law: SpectralLaw, n_directions: int, rng: np.random.Generator) -> np.ndarray:
        d = law.n_features
        blocks = drawn_blocks(lambda size, child: haar_orthogonal(d, child, size), n_directions, d, rng)
        return blocks * law.sample_radii(rng, n_directions)[:, None] * law.scale


def drawn_blocks(
    draw: Callable[[int, np.random.Generator], np.ndarray], n_rows: int, block: int, rng: np.random.Generator
) -> np.ndarray:
    """Independent blocks ``draw(size, rng)`` of `block` rows, stacked; the last block may be smaller."""
    sizes = [min(block, n_rows - first) for first in range(0, n_rows, block)]
    return np.concatenate(run_tasks(lambda item: draw(*item), zip(sizes, rng.spawn(len(sizes)), strict=True)))


def haar_orthogonal(order: int, rng: np.random.Generator, n_rows: int | None = None) -> np.ndarray:
    """The first rows (n_rows, order) of a Haar-distributed orthogonal matrix, by default all rows.

    For the same generator, a smaller `n_rows` gives the same first rows at lower cost.
    """
    Q, R = np.linalg.qr(rng.standard_normal((order if n_rows is None else n_rows, order)).T)
    # QR determines Q up to the signs of its columns. With a positive diagonal of R, it is unique and Haar distributed.
    return (Q * np.where(np.diagonal(R) < 0, -1.0, 1.0)).T
