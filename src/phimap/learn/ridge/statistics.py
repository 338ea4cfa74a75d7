"""Sufficient statistics of ridge regression. They are sums over rows, so the statistics of two fits can be added."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from phimap.learn.blocks.blocks import FeatureBlock, FeatureRows, Features, feature_block
from phimap.learn.blocks.triangle import BlockTriangle, add_to
from phimap.learn.weights import total_weight, weighted_sum
from phimap.records import Record, of_floats, of_number, with_lengths


@dataclass
class RidgeStatistics(Record):
    """Weighted sums over rows of features z and targets y.

    Attributes
    ----------
    n : int
        Number of rows.
    gram : BlockTriangle
        Sum of ``z z^T``, the upper block triangle.
    cross : ndarray of shape (m, t)
        Sum of ``z y^T``.
    sum_z : ndarray of shape (m,)
        Sum of z.
    sum_y, sum_yy : ndarray of shape (t,)
        Sums of y and of its squares.
    eps : float
        Largest machine epsilon of the features that were added.
    weight : float
        Sum of the weights; `n` if rows have no weights.

    Notes
    -----
    **Error.** Products are formed in the dtype of the features and summed over batches in float64. Targets are centred
    by their mean over the batch first, so that the rounding error of `cross` does not grow with a constant in y.

    **Cost.** n m^2 flops in total, and 4 m^2 bytes.

    **Differs from the source in** nothing: these are the sums of the normal equations.
    """

    n: int = field(metadata=of_number(least=0))
    gram: BlockTriangle = field(metadata=with_lengths(size="m"))
    cross: np.ndarray = field(metadata=of_floats("m", "t"))
    sum_z: np.ndarray = field(metadata=of_floats("m"))
    sum_y: np.ndarray = field(metadata=of_floats("t"))
    sum_yy: np.ndarray = field(metadata=of_floats("t"))
    eps: float = field(metadata=of_number(above=0))
    weight: float = field(default=None, metadata=of_number(least=0))  # pyright: ignore[reportAssignmentType]

    def __post_init__(self) -> None:
        if self.weight is None:
            # Model files of the earliest versions have no weights.
            self.weight = self.n

    @classmethod
    def empty(cls, n_components: int, n_targets: int) -> RidgeStatistics:
        """Return the sums over no rows, for `n_components` features and `n_targets` targets."""
        m, t = n_components, n_targets
        zeros = (np.zeros(shape) for shape in ((m, t), m, t, t))
        return cls(0, BlockTriangle.zeros(m), *zeros, eps=float(np.finfo(np.float64).eps))

    @property
    def n_components(self) -> int:
        """Number m of features."""
        return self.gram.size

    def update(
        self,
        Z: FeatureBlock | Features,
        Y: np.ndarray,
        n_jobs: int | None = None,
        *,
        weights: np.ndarray | None = None,
        sign: int = 1,
    ) -> None:
        """Add rows, or subtract rows that were added before.

        Parameters
        ----------
        Z : FeatureBlock, array, tensor or PackedArray of shape (r, m)
            Features, float32 or float64. The Gram matrix of a tensor is formed on its device. The Gram matrix of packed
            features is formed by counting.
        Y : ndarray of shape (r, t)
            Targets in float64.
        n_jobs : int, optional
            Threads; the result does not depend on them.
        weights : ndarray of shape (r,), optional
            Positive weights: a row of weight w counts like w equal rows.
        sign : {1, -1}, default=1
            -1 subtracts the rows.
        """
        if Y.shape[0] == 0:
            return
        block = feature_block(Z)
        (block if weights is None else block.scaled(np.sqrt(weights))).add_gram(self.gram, sign, n_jobs)
        cross, sums = block.cross_products(Y, n_jobs, weights)
        add_to(self.cross, cross, sign)
        add_to(self.sum_z, sums, sign)
        self.n += sign * Y.shape[0]
        self.weight += sign * total_weight(weights, Y.shape[0])
        self.sum_y += sign * weighted_sum(Y, weights)
        self.sum_yy += sign * weighted_sum(np.square(Y), weights)
        self.eps = max(self.eps, block.eps)

    def without(self, rows: FeatureRows, n_jobs: int | None = None) -> RidgeStatistics:
        """Return the sums without some of the rows, in new arrays as large as the old ones."""
        rest = self._copy()
        rest.update(rows.block, rows.targets, n_jobs, weights=rows.weights, sign=-1)
        return rest

    def merge(self, other: RidgeStatistics, *, sign: int = 1) -> RidgeStatistics:
        """Return the sums over the rows of `self` and `other`; with `sign` -1 the rows of `other` are subtracted."""
        both = self._copy()
        both.absorb(other, sign=sign)
        return both

    def absorb(self, other: RidgeStatistics, *, sign: int = 1) -> None:
        """Add the sums of `other` in place; with `sign` -1 subtract them."""
        if (self.n_components, self.cross.shape) != (other.n_components, other.cross.shape):
            raise ValueError(
                f"`other` must have features and targets {self.cross.shape}, got {other.cross.shape}. "
                "Merge statistics of the same feature map and targets."
            )
        for name in ("cross", "sum_z", "sum_y", "sum_yy"):
            add_to(getattr(self, name), getattr(other, name), sign)
        add_to(self.gram.data, other.gram.data, sign)
        self.n += sign * other.n
        self.weight += sign * other.weight
        self.eps = max(self.eps, other.eps)

    def _copy(self) -> RidgeStatistics:
        copies = {name: getattr(self, name).copy() for name in ("cross", "sum_z", "sum_y", "sum_yy")}
        return replace(self, gram=replace(self.gram, data=self.gram.data.copy()), **copies)

    def subset(self, columns: np.ndarray) -> RidgeStatistics:
        """Return the statistics of some of the features, in the order of `columns`."""
        gram = BlockTriangle.from_dense(self.gram.entries(columns, columns), self.gram.block)
        return replace(self, gram=gram, cross=self.cross[columns], sum_z=self.sum_z[columns])

    def centred_gram(self) -> BlockTriangle:
        """Sum of ``(z - mean)(z - mean)^T``: `gram` minus a rank-one term.

        The result keeps the entries of `gram`. Its `downdate` holds the vector of the term.
        """
        return replace(self.gram, downdate=self.sum_z / np.sqrt(self.weight))

    def centred_cross(self) -> np.ndarray:
        """Sum of ``(z - mean)(y - mean)^T`` (m, t)."""
        return self.cross - np.outer(self.sum_z, self.sum_y / self.weight)

    def centred_squares(self) -> np.ndarray:
        """Sum of ``(y - mean)^2`` (t,), never negative."""
        return np.maximum(self.sum_yy - self.sum_y**2 / self.weight, 0)
