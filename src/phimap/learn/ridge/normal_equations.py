"""The normal equations of ridge regression without their matrix. Each product with it takes a pass over the rows."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import NamedTuple

import numpy as np

from phimap.learn.blocks.blocks import FeatureBlock, FeatureRows
from phimap.learn.solver import Summand, Sums

# Number of columns of a product that are centred at a time. For all columns at once, the centring term would take as
# much memory as the product.
_STRIP = 128


class NormalSums(NamedTuple):
    """Sums over rows of w, w y (t,), w z (m,) and ``w z y^T`` (m, t), with weights w, targets y and features z."""

    weight: np.ndarray
    sum_y: np.ndarray
    sum_z: np.ndarray
    cross: np.ndarray

    @classmethod
    def of(cls, block: FeatureBlock, targets: np.ndarray, weights: np.ndarray, n_jobs: int | None) -> NormalSums:
        """The sums over the rows of a block."""
        products, _ = block.cross_products(weights[:, None] * np.column_stack([targets, np.ones(len(targets))]), n_jobs)
        return cls(np.array([weights.sum()]), weights @ targets, products[:, -1], products[:, :-1])


class NormalEquations:
    """``(A + alpha I) W = B`` for the centred rows of a stream.

    The matrix A is not formed: a product with it takes a pass.

    Parameters
    ----------
    sums : NormalSums
        Sums over all rows of the stream.
    n_jobs : int or None
    held_out : sequence of FeatureRows
        Rows of the stream that are left out of the equations.

    Attributes
    ----------
    weight : float
        Total weight of the rows in the equations.
    mean_y, sum_z : ndarray of shape (t,), (m,)
        Weighted mean of the targets, and weighted sum of the features, of the rows in the equations.
    rhs : ndarray of shape (m, t)
        B.
    size : float
        Sum of the norms of the two terms whose difference is B; it scales the rounding error of B.
    held_out : tuple of FeatureRows
    """

    def __init__(self, sums: NormalSums, n_jobs: int | None, held_out: Sequence[FeatureRows] = ()):
        self._sums, self.held_out, self._n_jobs = sums, tuple(held_out), n_jobs
        for rows in held_out:
            part = NormalSums.of(rows.block, rows.targets, rows.weights_or_ones, n_jobs)
            sums = NormalSums(*(all_rows - some for all_rows, some in zip(sums, part, strict=True)))
        weight, sum_y, sum_z, cross = sums
        self.weight, self.mean_y, self.sum_z = weight.item(), sum_y / weight, sum_z
        self.rhs = cross - np.outer(sum_z, self.mean_y)
        self.size: float = float(np.linalg.norm(cross) + np.linalg.norm(sum_z) * np.linalg.norm(self.mean_y))

    def without(self, held_out: Sequence[FeatureRows]) -> NormalEquations:
        """The equations of the stream without the rows `held_out`."""
        return NormalEquations(self._sums, self._n_jobs, held_out)

    def product(self, V: np.ndarray) -> Generator[Summand, Sums, np.ndarray]:
        """Return ``A V`` (m, k), in one pass over the stream."""
        (image,) = yield from products([(self, V)], self._n_jobs)
        return image

    def from_stream(self, image: np.ndarray, V: np.ndarray) -> np.ndarray:
        """``A V`` (m, k), given `image`, the sum of ``w z z^T V`` over all rows of the stream."""
        return self._converted(image, V, -1)

    def to_stream(self, image: np.ndarray, V: np.ndarray) -> np.ndarray:
        """The sum of ``w z z^T V`` over all rows of the stream, given `image`, which is ``A V``."""
        return self._converted(image, V, 1)

    def centre(self, image: np.ndarray, V: np.ndarray, sign: int = -1) -> None:
        """Turn the sum of ``w z z^T V`` over the rows in the equations into ``A V``, in place; `sign` 1 reverses it."""
        for first in range(0, V.shape[1], _STRIP):
            columns = slice(first, first + _STRIP)
            image[:, columns] += sign * np.outer(self.sum_z, (self.sum_z @ V[:, columns]) / self.weight)

    def _converted(self, image: np.ndarray, V: np.ndarray, sign: int) -> np.ndarray:
        converted = image.copy()
        self.centre(converted, V, sign)
        for first in range(0, V.shape[1], _STRIP):
            columns = slice(first, first + _STRIP)
            for rows in self.held_out:
                part = rows.block.gram_times(V[:, columns], rows.weights_or_ones, self._n_jobs)
                converted[:, columns] += sign * part
        return converted

    def intercept(self, W: np.ndarray) -> np.ndarray:
        """The intercept (t,) for coefficients (m, t)."""
        return self.mean_y - (self.sum_z @ W) / self.weight


def products(
    factors: Sequence[tuple[NormalEquations, np.ndarray]], n_jobs: int | None
) -> Generator[Summand, Sums, list[np.ndarray]]:
    """Return ``A V`` (m, k) for each pair of a system and its V, in one pass. All systems belong to the same stream."""
    V = np.hstack([own for _, own in factors])
    (image,) = yield lambda block, targets, weights: (block.gram_times(V, weights, n_jobs),)
    ends = np.cumsum([own.shape[1] for _, own in factors])
    parts = [slice(end - own.shape[1], end) for end, (_, own) in zip(ends, factors, strict=True)]
    # One product is computed for each set of held-out rows, because a product may have to form the features of these
    # rows.
    for rows in {id(rows): rows for system, _ in factors for rows in system.held_out}.values():
        own = [p for p, (system, _) in zip(parts, factors, strict=True) if any(rows is r for r in system.held_out)]
        columns = np.concatenate([np.arange(part.start, part.stop) for part in own])
        image[:, columns] -= rows.block.gram_times(V[:, columns], rows.weights_or_ones, n_jobs)
    for part, (system, own) in zip(parts, factors, strict=True):
        system.centre(image[:, part], own)
    return [image[:, part] for part in parts]
