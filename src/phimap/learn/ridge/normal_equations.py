"""The normal equations of ridge regression without their matrix: a right-hand side, and products that take a pass."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import NamedTuple

import numpy as np

from phimap.learn.blocks.blocks import FeatureBlock, FeatureRows
from phimap.learn.solver import Summand, Sums

# Columns that are corrected at a time: a sketch of a thousand columns has no second copy.
_STRIP = 128


class NormalSums(NamedTuple):
    """Sums over rows of w, w y (t,), w z (m,) and ``w z y^T`` (m, t)."""

    weight: np.ndarray
    sum_y: np.ndarray
    sum_z: np.ndarray
    cross: np.ndarray


class NormalEquations:
    """``(A + alpha I) W = B`` for rows less their mean; A is known by its products.

    Parameters
    ----------
    moments : Moments
        Of all rows of the stream.
    left_out : sequence of Rows
        Those of the stream's rows that do not count.
    n_jobs : int or None

    Attributes
    ----------
    weight : float
    mean_y, sum_z : ndarray of shape (t,), (m,)
    rhs : ndarray of shape (m, t)
        B.
    size : float
        The norm of the sums that B is a difference of.
    left_out : tuple of Rows
    """

    def __init__(self, moments: NormalSums, n_jobs: int | None, left_out: Sequence[FeatureRows] = ()):
        self._moments, self.left_out, self._n_jobs = moments, tuple(left_out), n_jobs
        counted = moments
        for rows in left_out:
            less = moments_of(rows.block, rows.targets, counts(rows), n_jobs)
            counted = NormalSums(*(of_all - part for of_all, part in zip(counted, less, strict=True)))
        weight, sum_y, sum_z, cross = counted
        self.weight, self.mean_y, self.sum_z = weight.item(), sum_y / weight, sum_z
        self.rhs = cross - np.outer(sum_z, self.mean_y)
        self.size: float = float(np.linalg.norm(cross) + np.linalg.norm(sum_z) * np.linalg.norm(self.mean_y))

    def without(self, left_out: Sequence[FeatureRows]) -> NormalEquations:
        """The equations without some rows."""
        return NormalEquations(self._moments, self._n_jobs, left_out)

    def product(self, V: np.ndarray) -> Generator[Summand, Sums, np.ndarray]:
        """``A V`` (m, k): one pass."""
        (image,) = yield from products([(self, V)], self._n_jobs)
        return image

    def of_all(self, image: np.ndarray, V: np.ndarray) -> np.ndarray:
        """``A V`` (m, k) where `image` is the sum of ``w z z^T V`` over all rows of the stream."""
        return self._moved(image, V, -1)

    def to_all(self, image: np.ndarray, V: np.ndarray) -> np.ndarray:
        """The sum of ``w z z^T V`` over all rows of the stream where `image` is ``A V``."""
        return self._moved(image, V, 1)

    def centred(self, image: np.ndarray, V: np.ndarray, sign: int = -1) -> None:
        """Make ``A V`` of the sum of ``w z z^T V`` over the rows that count, in place; with `sign` 1 the reverse."""
        for first in range(0, V.shape[1], _STRIP):
            columns = slice(first, first + _STRIP)
            image[:, columns] += sign * np.outer(self.sum_z, (self.sum_z @ V[:, columns]) / self.weight)

    def _moved(self, image: np.ndarray, V: np.ndarray, sign: int) -> np.ndarray:
        moved = image.copy()
        self.centred(moved, V, sign)
        for first in range(0, V.shape[1], _STRIP):
            columns = slice(first, first + _STRIP)
            for rows in self.left_out:
                moved[:, columns] += sign * gram_times(rows.block, V[:, columns], counts(rows), self._n_jobs)
        return moved

    def intercept(self, W: np.ndarray) -> np.ndarray:
        """The intercept (t,) that goes with coefficients (m, t)."""
        return self.mean_y - (self.sum_z @ W) / self.weight


def products(
    factors: Sequence[tuple[NormalEquations, np.ndarray]], n_jobs: int | None
) -> Generator[Summand, Sums, list[np.ndarray]]:
    """``A V`` (m, k) for each system of the same stream with its V: one pass."""
    V = np.hstack([own for _, own in factors])

    def multiplied(block: FeatureBlock, targets: np.ndarray, weights: np.ndarray) -> Sums:
        return (gram_times(block, V, weights, n_jobs),)

    (image,) = yield multiplied
    ends = np.cumsum([own.shape[1] for _, own in factors])
    parts = [slice(end - own.shape[1], end) for end, (_, own) in zip(ends, factors, strict=True)]
    # Systems that leave out the same rows share one product with them: their features may have to be formed for it.
    shared = {id(rows): rows for system, _ in factors for rows in system.left_out}
    for rows in shared.values():
        without = [p for p, (system, _) in zip(parts, factors, strict=True) if any(rows is r for r in system.left_out)]
        columns = np.concatenate([np.arange(part.start, part.stop) for part in without])
        image[:, columns] -= gram_times(rows.block, V[:, columns], counts(rows), n_jobs)
    for part, (system, own) in zip(parts, factors, strict=True):
        system.centred(image[:, part], own)
    return [image[:, part] for part in parts]


def counts(rows: FeatureRows) -> np.ndarray:
    """What each of some rows counts (r,)."""
    return np.ones(len(rows.targets)) if rows.weights is None else rows.weights


def moments_of(block: FeatureBlock, targets: np.ndarray, weights: np.ndarray, n_jobs: int | None) -> NormalSums:
    """The sums over the rows of a block."""
    products, _ = block.cross_products(weights[:, None] * np.column_stack([targets, np.ones(len(targets))]), n_jobs)
    return NormalSums(np.array([weights.sum()]), weights @ targets, products[:, -1], products[:, :-1])


def gram_times(block: FeatureBlock, V: np.ndarray, weights: np.ndarray, n_jobs: int | None) -> np.ndarray:
    """The sum of ``w z z^T V`` (m, k) over the rows of a block."""
    return block.gram_times(V, weights, n_jobs)
