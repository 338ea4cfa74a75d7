"""Packed symmetric matrices in blocks, such as the Gram matrix of a stream of features."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from phimap.ops import run_tasks
from phimap.records import Record, of_floats, of_number

# Side of a block. Three float64 blocks fill 6 MB of cache, and a product of two blocks runs near peak speed.
BLOCK = 512
#: Number of columns of one task, whose float32 product (512 x 4096) is added while it is in cache.
STRIP = 4096


@dataclass(frozen=True, eq=False)
class BlockTriangle(Record):
    """A symmetric float64 matrix, stored as its upper block triangle, minus an optional rank-one term.

    The matrix is ``T - v v^T`` with v the `downdate`. T is packed in one flat array, block row after block row, each in
    C order from its diagonal block to the right edge. Diagonal blocks are stored whole.

    Parameters
    ----------
    size : int
        Number m of rows, which is also the number of columns.
    data : ndarray of shape (n_entries,), float64
        The packed entries, which are not copied. ``BlockTriangle.zeros`` makes an array of this length.
    block : int, default=512
        Side of a block. The last block may be smaller.
    downdate : ndarray of shape (m,), float64, optional
        The vector v.

    Raises
    ------
    ValueError
        If `data` or `downdate` has another shape.

    Notes
    -----
    **Error.** None: entries are stored exactly. **Cost.** 4 m (m + `block`) bytes, half of the square array.
    **Differs from the source.** LAPACK packs column by column, in a form that matrix products cannot read.
    """

    size: int = field(metadata=of_number(length="m"))
    data: np.ndarray = field(metadata=of_floats(None))
    block: int = field(default=BLOCK, metadata=of_number(least=1))
    downdate: np.ndarray | None = field(default=None, metadata=of_floats("m"))

    def __post_init__(self) -> None:
        expected = (packed_entries(self.size, self.block),)
        if self.data.shape != expected or self.data.dtype != np.float64:
            raise ValueError(
                f"`data` must be float64 of shape {expected} for size {self.size}, got {self.data.dtype} "
                f"of shape {self.data.shape}. Use BlockTriangle.zeros."
            )
        if self.downdate is not None and self.downdate.shape != (self.size,):
            raise ValueError(f"`downdate` must have shape ({self.size},), got {self.downdate.shape}.")

    @classmethod
    def zeros(cls, size: int, block: int = BLOCK) -> BlockTriangle:
        """Return the zero matrix of `size` rows."""
        return cls(size, np.zeros(packed_entries(size, block)), block)

    @classmethod
    def from_dense(cls, matrix: np.ndarray, block: int = BLOCK) -> BlockTriangle:
        """Pack the upper block triangle of a symmetric array of shape (m, m)."""
        triangle = cls.zeros(matrix.shape[0], block)
        for i in range(triangle.n_blocks):
            rows = triangle.rows(i)
            triangle.panel(i)[...] = matrix[rows, rows.start :]
        return triangle

    @property
    def n_blocks(self) -> int:
        """Number of block rows."""
        return -(-self.size // self.block)

    def rows(self, i: int) -> slice:
        """Rows of block row `i`."""
        return slice(i * self.block, min((i + 1) * self.block, self.size))

    def panel(self, i: int) -> np.ndarray:
        """Return block row `i` of T from its diagonal block rightwards, a view of shape (height, m - i block)."""
        rows = self.rows(i)
        start = _panel_offset(self.size, self.block, i)
        shape = (rows.stop - rows.start, self.size - rows.start)
        return self.data[start : start + shape[0] * shape[1]].reshape(shape)

    def tile(self, i: int, j: int) -> np.ndarray:
        """Block (i, j) of T as a view, for i <= j."""
        left, columns = i * self.block, self.rows(j)
        return self.panel(i)[:, columns.start - left : columns.stop - left]

    def diagonal(self) -> np.ndarray:
        """The diagonal of the matrix, shape (m,)."""
        diagonal = np.concatenate([self.panel(i).diagonal() for i in range(self.n_blocks)])
        return diagonal if self.downdate is None else diagonal - self.downdate**2

    def to_dense(self) -> np.ndarray:
        """Return the matrix as a full array of shape (m, m), for tests and small m."""
        dense = np.empty((self.size, self.size))
        for i in range(self.n_blocks):
            rows, panel = self.rows(i), self.panel(i)
            dense[rows, rows.start :] = panel
            dense[rows.start :, rows] = panel.T
        return dense if self.downdate is None else dense - np.outer(self.downdate, self.downdate)

    def entries(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Entries of T at all pairs of indices in `rows` and `columns`, shape (n_rows, n_columns)."""
        low = np.minimum(rows[:, None], columns)
        high = np.maximum(rows[:, None], columns)
        left = low - low % self.block
        # The block rows above have `block` rows each. Their rows begin at the column of their diagonal block.
        offset = left * self.size - self.block * (left // self.block) * (left // self.block - 1) // 2 * self.block
        return self.data[offset + (low - left) * (self.size - left) + (high - left)]

    def matmul(self, B: np.ndarray, n_jobs: int | None = None) -> np.ndarray:
        """Product of the matrix with `B` of shape (m, k). Each block is read once."""
        X = np.ascontiguousarray(B.T)

        def products(i: int) -> tuple[np.ndarray, np.ndarray]:
            rows, panel = self.rows(i), self.panel(i)
            height = rows.stop - rows.start
            return X[:, rows] @ panel, X[:, rows.stop :] @ panel[:, height:].T

        result = np.zeros(X.shape)
        for i, (right, own) in enumerate(run_tasks(products, range(self.n_blocks), n_jobs)):
            rows = self.rows(i)
            result[:, rows.start :] += right
            result[:, rows] += own
        if self.downdate is not None:
            # The sum has a fixed order, unlike BLAS, which may use threads for a product with one column.
            result -= np.sum(X * self.downdate, axis=1)[:, None] * self.downdate
        return result.T

    def add(self, matrix: np.ndarray, sign: int) -> None:
        """Add `sign` times a full symmetric matrix (m, m)."""
        for i in range(self.n_blocks):
            rows = self.rows(i)
            add_to(self.panel(i), matrix[rows, rows.start :], sign)

    def add_products(self, Z: np.ndarray, sign: int = 1, n_jobs: int | None = None) -> None:
        """Add `sign` times ``Z^T Z`` of rows `Z` (r, m), computed in their dtype, block by block on threads."""

        def add(task: tuple[int, int | None]) -> None:
            i, left = task
            block = Z[:, self.rows(i)]
            if left is None:
                # NumPy recognises A^T A and computes half of it.
                add_to(self.tile(i, i), block.T @ block, sign)
            else:
                columns = slice(left, min(left + STRIP, self.size))
                first = self.rows(i).start
                target = self.panel(i)[:, columns.start - first : columns.stop - first]
                add_to(target, block.T @ Z[:, columns], sign)

        tasks: list[tuple[int, int | None]] = []
        for i in range(self.n_blocks):
            tasks += [(i, left) for left in range(self.rows(i).stop, self.size, STRIP)]
        # Small tasks come last, so that all threads end at about the same time.
        tasks += [(i, None) for i in range(self.n_blocks)]
        run_tasks(add, tasks, n_jobs)


def add_to(target: np.ndarray, values: np.ndarray, sign: int) -> None:
    """Add `sign`, 1 or -1, times `values` to `target`, in place and in the dtype of `target`."""
    (np.add if sign > 0 else np.subtract)(target, values, out=target)


def packed_entries(size: int, block: int = BLOCK) -> int:
    """Number of entries of the packed upper block triangle of a matrix of `size` rows."""
    return _panel_offset(size, block, -(-size // block))


def _panel_offset(size: int, block: int, i: int) -> int:
    """Number of entries before block row `i`, which may also be the number of block rows."""
    full, short = divmod(size, block)
    above = min(i, full)
    offset = block * (above * size - block * above * (above - 1) // 2)
    return offset + short * short * (i > full)
