"""Cholesky factorisation of packed symmetric matrices on threads."""

from __future__ import annotations

import math

import numpy as np

from phimap.learn.blocks.triangle import BlockTriangle
from phimap.ops import run_tasks, single_threaded_blas
from phimap.ops.blas import factorise, invert_upper, solve_transposed, subtract_gram, subtract_products

# Number of columns of a block row that one task updates. The work on so many columns outweighs the cost of starting the
# task.
_STRIP = 2048
# From `_MANY` right-hand sides on, the forward substitution has enough work for narrower strips.
_MANY, _NARROW_STRIP = 256, 512


class NotPositiveDefiniteError(np.linalg.LinAlgError):
    """The matrix plus its shift has a pivot that is not positive."""


class BlockedCholesky:
    """Cholesky factor of a symmetric positive definite matrix, from block products on threads.

    ``A + shift I = U^T U`` by a right-looking factorisation over fixed blocks. The next diagonal block is factorised
    while the remaining blocks are updated.

    Parameters
    ----------
    matrix : BlockTriangle
        A; it is not changed.
    shift : float, default=0.0
        Added to the diagonal.
    n_jobs : int, optional
        Threads; the result does not depend on them.
    out : ndarray of shape (n_entries,), float64, optional
        Buffer for the factor, with as many entries as ``matrix.data``; by default a new array. It may be the ``data``
        of an earlier factor, or ``matrix.data`` itself if A is not needed any more.

    Attributes
    ----------
    size : int
        Rows of A, m.
    shift : float
    data : ndarray of shape (n_entries,)
        The packed factor. Its diagonal blocks hold the inverses of the diagonal blocks of U.

    Raises
    ------
    NotPositiveDefiniteError
        If a pivot is not positive.

    Notes
    -----
    **Error.** ``|A + shift I - U^T U| <= c m eps |A + shift I|``, as for any blocked Cholesky factorisation. Solves
    have a further error, because they use the explicit inverses of the diagonal blocks. It is proportional to the
    condition number of a diagonal block, not to that of A. **Cost.** m^3 / 6 multiply-adds. With `block` the order of a
    diagonal block, about m^2 `block` / 4 of them are in triangular solves, and m `block`^2 / 3 in factorisations and
    inverses of diagonal blocks. All others are in matrix products that update the factor in place. A solve reads the
    factor twice for any number of right-hand sides. Memory: the factor, 4 m (m + `block`) bytes.
    **Differs from the source.** LAPACK's dpotrf leaves the triangular diagonal blocks in the factor. Here each of them
    is replaced by its inverse after its last use in the factorisation, so that a solve consists of matrix products.

    References
    ----------
    N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., 2002, Sections 10.1 and 14.3.
    """

    def __init__(
        self,
        matrix: BlockTriangle,
        shift: float = 0.0,
        n_jobs: int | None = None,
        out: np.ndarray | None = None,
    ):
        self.size: int = matrix.size
        self.shift = shift
        self.n_jobs = n_jobs
        self._factor = BlockTriangle(matrix.size, np.empty_like(matrix.data) if out is None else out, matrix.block)
        self._log_pivots = np.zeros(self._factor.n_blocks)
        with single_threaded_blas():
            run_tasks(lambda i: self._copy_panel(matrix, i, shift), range(self._factor.n_blocks), n_jobs)
            self._factorise(shift)

    @property
    def data(self) -> np.ndarray:
        """The packed factor."""
        return self._factor.data

    def log_determinant(self) -> float:
        """Logarithm of the determinant of ``A + shift I``."""
        return float(2.0 * self._log_pivots.sum())

    def solve(self, B: np.ndarray) -> np.ndarray:
        """Solve ``(A + shift I) X = B`` for `B` of shape (m, k) or (m,); float64, in Fortran order."""
        return self.solve_upper(self.solve_lower(B))

    def solve_lower(self, B: np.ndarray) -> np.ndarray:
        """Solve ``U^T X = B``, the forward substitution."""
        X = self._right_hand_sides(B)
        factor, width = self._factor, _STRIP if len(X) < _MANY else _NARROW_STRIP
        with single_threaded_blas():
            for i in range(factor.n_blocks):
                rows, panel = factor.rows(i), factor.panel(i)
                height = rows.stop - rows.start

                def finish(some: slice, panel=panel[:, :height], rows=rows) -> None:
                    X[some, rows] = X[some, rows] @ panel

                def eliminate(strip: slice, panel=panel, rows=rows) -> None:
                    X[:, strip] -= X[:, rows] @ panel[:, strip.start - rows.start : strip.stop - rows.start]

                run_tasks(finish, _strips(0, len(X), _MANY), self.n_jobs)
                run_tasks(eliminate, _strips(rows.stop, self.size, width), self.n_jobs)
        return X.T.reshape(B.shape)

    def solve_upper(self, B: np.ndarray) -> np.ndarray:
        """Solve ``U X = B``, the backward substitution."""
        X = self._right_hand_sides(B)
        factor = self._factor
        with single_threaded_blas():
            for i in reversed(range(factor.n_blocks)):
                rows, panel = factor.rows(i), factor.panel(i)
                height = rows.stop - rows.start

                def known(strip: slice, panel=panel, rows=rows) -> np.ndarray:
                    return X[:, strip] @ panel[:, strip.start - rows.start : strip.stop - rows.start].T

                for part in run_tasks(known, _strips(rows.stop, self.size, _STRIP), self.n_jobs):
                    X[:, rows] -= part
                X[:, rows] = X[:, rows] @ panel[:, :height].T
        return X.T.reshape(B.shape)

    def _right_hand_sides(self, B: np.ndarray) -> np.ndarray:
        """Copy `B` to the rows of an array (k, m) in C order, so that products read contiguous block rows."""
        if B.ndim not in (1, 2) or B.shape[0] != self.size:
            raise ValueError(f"`B` must have shape ({self.size}, k), got {B.shape}.")
        return np.array(B.reshape(self.size, -1).T, dtype=np.float64, order="C")

    def _copy_panel(self, matrix: BlockTriangle, i: int, shift: float) -> None:
        panel, v = self._factor.panel(i), matrix.downdate
        # If the factor overwrites the matrix, the entries need no copy.
        if panel.ctypes.data != matrix.panel(i).ctypes.data:
            panel[...] = matrix.panel(i)
        if v is not None:
            rows = self._factor.rows(i)
            subtract_products(panel, v[None, rows], v[None, rows.start :])
        height = panel.shape[0]
        panel[np.arange(height), np.arange(height)] += shift

    def _factorise(self, shift: float) -> None:
        factor, last = self._factor, self._factor.n_blocks
        self._factorise_diagonal(0, shift)
        for k in range(last):
            upper, panel = factor.tile(k, k), factor.panel(k)
            height, width = panel.shape

            def finish(strip: slice, upper=upper, panel=panel) -> None:
                solve_transposed(upper, panel[:, strip])

            def update(task: tuple[int, slice | None], k=k, panel=panel) -> None:
                i, strip = task
                if i == k:
                    # Later steps need only the inverse of this block, and no other task waits for it.
                    invert_upper(factor.tile(k, k))
                    return
                rows = panel[:, (i - k) * factor.block :]
                if strip is not None:
                    left = rows[:, : factor.panel(i).shape[0]]
                    subtract_products(factor.panel(i)[:, strip], left, rows[:, strip])
                    return
                tile = factor.tile(i, i)
                subtract_gram(tile, rows[:, : tile.shape[0]])
                if i == k + 1:
                    self._factorise_diagonal(i, shift)

            # These strips are half as wide as others, because all tasks of this step read the same diagonal block.
            run_tasks(finish, _strips(height, width, _STRIP // 2), self.n_jobs)
            # The next diagonal block comes first, so that its serial work overlaps with the other updates.
            tasks: list[tuple[int, slice | None]] = [(i, None) for i in range(k + 1, last)]
            for i in range(k + 1, last):
                rows, columns = factor.panel(i).shape
                tasks[1:1] = [(i, strip) for strip in _strips(rows, columns, _STRIP)]
            run_tasks(update, [*tasks, (k, None)], self.n_jobs)

    def _factorise_diagonal(self, i: int, shift: float) -> None:
        """Factorise diagonal block `i` in place."""
        tile = self._factor.tile(i, i)
        # LAPACK does not report a pivot that is NaN.
        if not (factorise(tile) and np.isfinite(np.triu(tile)).all()):
            rows = self._factor.rows(i)
            raise NotPositiveDefiniteError(
                f"The matrix with shift {shift:.3g} is not positive definite: a pivot in rows {rows.start} to "
                f"{rows.stop - 1} is not positive or not finite. Use a larger `alpha`."
            )
        tile[...] = np.triu(tile)
        self._log_pivots[i] = np.log(np.diagonal(tile)).sum()


def factor_with_retries(
    matrix: BlockTriangle, shift: float, n_jobs: int | None, *, most_retries: float = math.inf, out: np.ndarray | None
) -> BlockedCholesky:
    """Return the Cholesky factor of ``matrix + shift I``; retry with ten times the shift if a pivot is not positive.

    The error is raised after `most_retries` retries. The result has the last shift as attribute `shift`. `out` is a
    buffer for the factor, see `BlockedCholesky`.
    """
    while True:
        try:
            return BlockedCholesky(matrix, shift, n_jobs, out=out)
        except NotPositiveDefiniteError:
            if most_retries == 0:
                raise
            shift, most_retries = 10 * shift, most_retries - 1


def _strips(start: int, stop: int, width: int) -> list[slice]:
    """Cut the columns from `start` to `stop` into strips of at most `width` columns."""
    return [slice(left, min(left + width, stop)) for left in range(start, stop, width)]
