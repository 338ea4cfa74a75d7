"""Sufficient statistics of ridge regression: sums over rows, so that fits add up."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from phimap.learn.ridge.cholesky import BlockTriangle
from phimap.ops import Array, is_tensor, ops_for, run_tasks
from phimap.packed import PackedArray
from phimap.records import Record

# Columns of a block row that one task multiplies: its float32 product (512 x 2048) stays in cache until it is added.
_STRIP = 2048


@dataclass
class RidgeStatistics(Record):
    """Sums over rows of features z and targets y; `update` and `merge` change or make them.

    Attributes
    ----------
    n : int
        Rows.
    gram : BlockTriangle
        Sum of ``z z^T``, the upper block triangle.
    cross : ndarray of shape (m, t)
        Sum of ``z y^T``.
    sum_z : ndarray of shape (m,)
    sum_y, sum_yy : ndarray of shape (t,)
        Sums of y and of its squares.
    eps : float
        Machine epsilon of the coarsest dtype in which features came.

    Notes
    -----
    **Error.** Products are formed in the dtype of the features and summed over batches in float64. Targets enter
    them less their mean over the batch, so that the rounding of `cross` does not grow with a constant in y.

    **Cost.** n m^2 flops altogether, and 4 m^2 bytes.

    **Differs from the source in** nothing: these are the sums of the normal equations.
    """

    n: int
    gram: BlockTriangle
    cross: np.ndarray
    sum_z: np.ndarray
    sum_y: np.ndarray
    sum_yy: np.ndarray
    eps: float

    @classmethod
    def empty(cls, n_components: int, n_targets: int) -> RidgeStatistics:
        """Return the sums over no rows."""
        m, t = n_components, n_targets
        zeros = (np.zeros(shape) for shape in ((m, t), m, t, t))
        return cls(0, BlockTriangle.zeros(m), *zeros, eps=float(np.finfo(np.float64).eps))

    @property
    def n_components(self) -> int:
        """Features m."""
        return self.gram.size

    def update(self, Z: Array | PackedArray, Y: np.ndarray, n_jobs: int | None = None, *, sign: int = 1) -> None:
        """Add rows, or take rows away that were added.

        Parameters
        ----------
        Z : array or PackedArray of shape (r, m)
            Features, float32 or float64; a tensor's Gram matrix is formed where it lives, that of bits, or of signs
            and zeros, by counting.
        Y : ndarray of shape (r, t)
            Targets in float64.
        n_jobs : int, optional
            Threads; changes no bit.
        sign : {1, -1}, default=1
            -1 takes the rows away.
        """
        if Y.shape[0] == 0:
            return
        if isinstance(Z, PackedArray) and not Z.is_countable:
            Z = Z.to_dense()
        ops = ops_for(Z)
        mean_y = Y.mean(axis=0)
        if isinstance(Z, PackedArray):
            self._count(Z, Y, sign, n_jobs)
        elif is_tensor(Z):
            sums = ops.column_sums(Z)
            self._add_gram(sign * ops.cross_products(Z, Z))
            self.cross += sign * (ops.cross_products(Z, ops.constant(Y - mean_y)) + np.outer(sums, mean_y))
            self.sum_z += sign * sums
        else:
            self._multiply(Z, Y - mean_y, mean_y, sign, n_jobs)
        self.n += sign * Y.shape[0]
        self.sum_y += sign * Y.sum(axis=0)
        self.sum_yy += sign * np.square(Y).sum(axis=0)
        self.eps = max(self.eps, float(np.finfo(ops.dtype).eps))

    def without(self, Z: Array, Y: np.ndarray, n_jobs: int | None = None) -> RidgeStatistics:
        """Return the sums without some of the rows: new arrays, as large as these."""
        gram = replace(self.gram, data=self.gram.data.copy())
        copies = (array.copy() for array in (self.cross, self.sum_z, self.sum_y, self.sum_yy))
        rest = RidgeStatistics(self.n, gram, *copies, eps=self.eps)
        rest.update(Z, Y, n_jobs, sign=-1)
        return rest

    def merge(self, other: RidgeStatistics, *, sign: int = 1) -> RidgeStatistics:
        """Return the sums over the rows of both; with `sign` -1 those of `other` are taken away."""
        if (self.n_components, self.cross.shape) != (other.n_components, other.cross.shape):
            raise ValueError(
                f"`other` must have features and targets {self.cross.shape}, got {other.cross.shape}. "
                "Merge statistics of the same feature map and targets."
            )
        return RidgeStatistics(
            self.n + sign * other.n,
            replace(self.gram, data=self.gram.data + sign * other.gram.data),
            self.cross + sign * other.cross,
            self.sum_z + sign * other.sum_z,
            self.sum_y + sign * other.sum_y,
            self.sum_yy + sign * other.sum_yy,
            max(self.eps, other.eps),
        )

    def subset(self, columns: np.ndarray) -> RidgeStatistics:
        """Return the statistics of some of the features, in the order of `columns`."""
        gram = BlockTriangle.from_dense(self.gram.entries(columns, columns), self.gram.block)
        return replace(self, gram=gram, cross=self.cross[columns], sum_z=self.sum_z[columns])

    def centred_gram(self) -> BlockTriangle:
        """Sum of ``(z - mean)(z - mean)^T``: the same entries, and a rank-one term."""
        return replace(self.gram, downdate=self.sum_z / np.sqrt(self.n))

    def centred_cross(self) -> np.ndarray:
        """Sum of ``(z - mean)(y - mean)^T`` (m, t)."""
        return self.cross - np.outer(self.sum_z, self.sum_y / self.n)

    def centred_squares(self) -> np.ndarray:
        """Sum of ``(y - mean)^2`` (t,), never negative."""
        return np.maximum(self.sum_yy - self.sum_y**2 / self.n, 0)

    def _multiply(
        self, Z: np.ndarray, deviations: np.ndarray, mean_y: np.ndarray, sign: int, n_jobs: int | None
    ) -> None:
        """Add the products of a batch, block by block on threads; its targets are `deviations` plus `mean_y`."""
        gram, size = self.gram, self.n_components
        deviations = deviations.astype(Z.dtype, copy=False)
        accumulate = np.add if sign > 0 else np.subtract

        def add(task: tuple[int, int | None]) -> None:
            i, left = task
            rows = gram.rows(i)
            block = Z[:, rows]
            if left is None:
                # NumPy sees A^T A here and does half the work.
                _apply(accumulate, gram.tile(i, i), block.T @ block)
                sums = block.sum(axis=0, dtype=np.float64)
                _apply(accumulate, self.cross[rows], block.T @ deviations + np.outer(sums, mean_y))
                _apply(accumulate, self.sum_z[rows], sums)
            else:
                columns = slice(left, min(left + _STRIP, size))
                target = gram.panel(i)[:, columns.start - rows.start : columns.stop - rows.start]
                _apply(accumulate, target, block.T @ Z[:, columns])

        tasks: list[tuple[int, int | None]] = []
        for i in range(gram.n_blocks):
            tasks += [(i, left) for left in range(gram.rows(i).stop, size, _STRIP)]
        # The small tasks last, so that the threads end together.
        tasks += [(i, None) for i in range(gram.n_blocks)]
        run_tasks(add, tasks, n_jobs)

    def _count(self, Z: PackedArray, Y: np.ndarray, sign: int, n_jobs: int | None) -> None:
        """Add the products of a packed batch; those of its features are exact."""
        gram, columns = self.gram, replace(Z.transposed(n_jobs), dtype=np.dtype(np.float64))
        accumulate = np.add if sign > 0 else np.subtract

        def add(task: tuple[int, int]) -> None:
            i, left = task
            right = min(left + _STRIP, self.n_components)
            first = gram.rows(i).start
            product = columns[gram.rows(i)].gram(columns[left:right], n_jobs=1)
            _apply(accumulate, gram.panel(i)[:, left - first : right - first], product)

        tasks = [
            (i, left) for i in range(gram.n_blocks) for left in range(gram.rows(i).start, self.n_components, _STRIP)
        ]
        run_tasks(add, tasks, n_jobs)
        products = columns.dot(np.column_stack([Y, np.ones(len(Y))]), n_jobs)
        self.cross += sign * products[:, :-1]
        self.sum_z += sign * products[:, -1]

    def _add_gram(self, product: np.ndarray) -> None:
        """Add a full matrix (m, m)."""
        for i in range(self.gram.n_blocks):
            rows = self.gram.rows(i)
            self.gram.panel(i)[...] += product[rows, rows.start :]


def _apply(accumulate: np.ufunc, target: np.ndarray, product: np.ndarray) -> None:
    accumulate(target, product, out=target)
