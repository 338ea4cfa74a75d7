"""Base classes of kernels: `Kernel`, and the stationary and dot-product kernels that approximations use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from phimap._validation import check_real
from phimap.config import fits_budget, memory_budget
from phimap.kernels.geometry import Rows, squared_distances, squared_norms
from phimap.kernels.rows import Sparsified, checked_rows
from phimap.kernels.spectral import SpectralLaw
from phimap.ops.tasks import run_tasks

# Number of rows and of columns of a tile. Each float64 temporary then takes 512 KiB, which fits in a core's cache, and
# the allocator reuses the memory. With temporaries of 2 MiB, most of the time was spent on allocating new pages.
_TILE = 256

#: Functions behind ``kernel + kernel``, ``kernel * kernel`` and ``number * kernel``. `phimap.kernels.combined` fills
#: the dictionary, because this module cannot import `combined`.
OPERATORS: dict[str, Callable[[Any, Any], Kernel]] = {}


class Kernel(BaseEstimator, ABC):
    """An exact kernel, called as a function of rows.

    A subclass stores its parameters unchanged and implements `_evaluate` and `_diagonal`, which receive checked
    float64 tiles. This class handles input checks, the byte budget, threads, symmetry and the dtype of the result.

    Notes
    -----
    **Error.** All arithmetic is in float64; the result is rounded once, to the dtype of the input.

    **Cost.** O(n m d) operations, half as many for ``Y=None``. Memory: the result, and a few 256 x 256 tiles per
    thread.
    """

    def __call__(self, X: Any, Y: Any = None) -> np.ndarray:
        """Evaluate the kernel between all rows of `X` and all rows of `Y`.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n, d)
            float32 stays float32; all other numeric dtypes become float64.
        Y : array-like or CSR matrix of shape (m, d), optional
            None means `X`: the result is then exactly symmetric and its diagonal is ``diag(X)``.

        Returns
        -------
        ndarray of shape (n, m)
            float32 if both inputs are float32, else float64. The values do not depend on the number of threads.

        Raises
        ------
        ValueError
            If an input is not a finite real matrix, the widths differ, a parameter is out of range, or a
            value exceeds the range of the dtype.
        TypeError
            If a parameter is of the wrong kind.
        MemoryError
            If the result would exceed the byte budget; nothing has been allocated then.
        """
        left = checked_rows(X, "X")
        right = left if Y is None else checked_rows(Y, "Y")
        if left.shape[1] != right.shape[1]:
            raise ValueError(
                f"`Y` must have as many features as `X`, got {right.shape[1]} and {left.shape[1]}. "
                "Pass the same columns."
            )
        self._check_parameters(left.shape[1])
        n, m = left.shape[0], right.shape[0]
        dtype = np.result_type(left.dtype, right.dtype)
        self._check_budget(n, m, dtype.itemsize)
        if sparse.issparse(left) != sparse.issparse(right):
            left, right = (Sparsified(rows) if isinstance(rows, np.ndarray) else rows for rows in (left, right))
        result = np.empty((n, m), dtype=dtype)

        def fill(tile: tuple[int, int]) -> None:
            rows, columns = (slice(start, start + _TILE) for start in tile)
            block = result[rows, columns]
            _store(self._evaluate, (_float64(left[rows]), _float64(right[columns])), block, tile)
            if Y is None and rows == columns:
                below = np.tril_indices(block.shape[0], -1)
                block[below] = block.T[below]
            elif Y is None:
                result[columns, rows] = block.T

        tiles = product(range(0, n, _TILE), range(0, m, _TILE))
        run_tasks(fill, [tile for tile in tiles if Y is not None or tile[0] <= tile[1]])
        if Y is None:
            np.fill_diagonal(result, self._diagonal_of(left))
        return result

    def in_single_precision(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray | None:
        """Evaluate the kernel in float32 for dense, finite rows `X` (n, d) in float32 and `Y` (m, d).

        Returns
        -------
        ndarray of shape (n, m), or None
            None if the kernel cannot be evaluated in float32 for so many columns.

        Notes
        -----
        **Error.** A few eps of float32, times the squared distance in length scales if this is above 1. Small distances
        have the same relative error, because they are computed from differences of entries.
        """
        return None

    def diag(self, X: Any) -> np.ndarray:
        """Evaluate the kernel of each row with itself.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
            ``k(x_i, x_i)``; the dtype follows the same rule as a call.

        Raises
        ------
        ValueError, TypeError
            As for a call.
        """
        rows = checked_rows(X, "X")
        self._check_parameters(rows.shape[1])
        return self._diagonal_of(rows)

    def terms(self) -> list[tuple[float, Kernel]]:
        """List the summands of this kernel with their positive weights; a kernel that is not a sum lists itself.

        Returns
        -------
        list of (float, Kernel)
        """
        return [(1.0, self)]

    @property
    def is_stationary(self) -> bool:
        """Whether the kernel depends only on ``x - y``, or is a sum of kernels that do."""
        return all(isinstance(part, StationaryKernel) for _, part in self.terms())

    # Without this setting, a NumPy scalar times a kernel would treat the kernel as an object array.
    __array_ufunc__ = None

    def __add__(self, other: Any) -> Kernel:
        if not isinstance(other, Kernel):
            raise TypeError(f"a kernel can be added to a kernel only, got {other!r}. Use Taylor([c]) for a constant c.")
        return OPERATORS["add"](self, other)

    __radd__ = __add__

    def __mul__(self, other: Any) -> Kernel:
        if isinstance(other, Kernel):
            return OPERATORS["multiply"](self, other)
        return OPERATORS["scale"](self, check_real("factor", other, above=0.0))

    __rmul__ = __mul__

    def _diagonal_of(self, X: Rows) -> np.ndarray:
        """The result (n,) of `diag` for rows that are already checked."""
        result = np.empty(X.shape[0], dtype=X.dtype)
        for start in range(0, X.shape[0], _TILE):
            rows = slice(start, start + _TILE)
            _store(self._diagonal, (_float64(X[rows]),), result[rows], (start,))
        return result

    def _check_budget(self, n: int, m: int, itemsize: int) -> None:
        needed = n * m * itemsize
        if not fits_budget(needed):
            # The repr of a kernel with array parameters has several lines, which are joined here.
            named = " ".join(repr(self).split())
            raise MemoryError(
                f"The ({n}, {m}) matrix of {named} needs {needed / 2**30:.3g} GiB, over the byte budget of "
                f"{memory_budget() / 2**30:.3g} GiB. Evaluate fewer rows at a time, approximate the kernel by a "
                "feature map, or raise phimap.config(memory=...)."
            )

    @abstractmethod
    def _check_parameters(self, n_features: int) -> None:
        """Raise if a parameter is invalid for data with `n_features` columns."""

    @abstractmethod
    def _evaluate(self, X: Rows, Y: Rows) -> np.ndarray:
        """Kernel values (n, m) in float64 between two float64 tiles (n, d) and (m, d), both dense or both CSR."""

    @abstractmethod
    def _diagonal(self, X: Rows) -> np.ndarray:
        """Kernel values ``k(x, x)`` (n,) in float64 for the rows of a float64 tile (n, d)."""


class StationaryKernel(Kernel):
    """A kernel that depends on the difference of two rows, ``k(x, y) = f((x - y) / length_scale)`` with ``f(0) = 1``.

    Parameters
    ----------
    length_scale : float or array-like of shape (d,), default=1.0
        Positive length scale in the units of the columns: one number for all columns or one per column.
    """

    def __init__(self, length_scale: Any = 1.0):
        self.length_scale = length_scale

    @abstractmethod
    def spectral_law(self, n_features: int) -> SpectralLaw:
        """Give the distribution of w for which ``E[cos(<w, x - y>)] = k(x, y)``.

        Parameters
        ----------
        n_features : int
            Width d of the data.

        Returns
        -------
        SpectralLaw
        """

    def distances(self, X: Any) -> np.ndarray:
        """Give the pairwise distances on which the kernel is based, not divided by `length_scale`.

        Their median is the default length scale. They are Euclidean here; a kernel based on another distance overrides
        this method.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n, d)

        Returns
        -------
        ndarray of shape (n, n)
        """
        rows = _float64(checked_rows(X, "X"))
        return np.sqrt(squared_distances(rows, rows))

    def gradients(self, X: np.ndarray, Y: np.ndarray, weights: np.ndarray) -> np.ndarray | None:
        """Give the gradients of ``sum_j weights[j] k(x, y_j)`` with respect to x.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Points at which the gradients are taken.
        Y : ndarray of shape (m, d)
            The rows y_j.
        weights : ndarray of shape (m, t)
            Coefficients of t sums.

        Returns
        -------
        ndarray of shape (n, d, t), or None
            None if the kernel does not implement gradients. At a kink, gradients are the mean of the one-sided slopes.
        """
        return None

    @property
    def factorises(self) -> bool:
        """Whether the kernel is a product of one-dimensional kernels, one per column."""
        return False

    def _of_column(self, x: np.ndarray, y: np.ndarray, column: int, n_features: int) -> np.ndarray:
        """Kernel values (n, m) of rows that differ only in `column`, where their entries are x (n,) and y (m,)."""
        left, right = np.zeros((x.size, n_features)), np.zeros((y.size, n_features))
        left[:, column], right[:, column] = x, y
        return self._evaluate(left, right)

    def _slope_of_column(self, x: np.ndarray, y: np.ndarray, column: int, n_features: int) -> np.ndarray | None:
        """Derivative (n, m) of `_of_column` with respect to x; None if the kernel has no such derivative."""
        return None

    def _check_parameters(self, n_features: int) -> None:
        self._inverse_length_scale(n_features)

    def _inverse_length_scale(self, n_features: int) -> float | np.ndarray:
        """``1 / length_scale``: a float or an array (d,)."""
        if isinstance(self.length_scale, list | tuple | np.ndarray) and np.ndim(self.length_scale) > 0:
            scales = np.asarray(self.length_scale)
            if scales.dtype.kind not in "iuf":
                raise TypeError(f"`length_scale` must be numeric, got an array of dtype {scales.dtype}.")
            if scales.shape != (n_features,):
                raise ValueError(
                    f"`length_scale` must be a number or one number for each of the {n_features} features, "
                    f"got shape {scales.shape}."
                )
            if not (np.isfinite(scales).all() and (scales > 0).all()):
                worst = int(np.flatnonzero(~(np.isfinite(scales) & (scales > 0)))[0])
                raise ValueError(
                    f"`length_scale` must be positive and finite, got {scales[worst]} for feature {worst}. "
                    "Drop a feature that must not count."
                )
            return 1.0 / scales.astype(np.float64)
        return 1.0 / check_real("length_scale", self.length_scale, above=0.0)

    def _diagonal(self, X: Rows) -> np.ndarray:
        return np.ones(X.shape[0])


class DotProductKernel(Kernel):
    """A kernel that depends on the inner product of two rows, ``k(x, y) = f(<x, y>)``.

    If `homogeneous` is True, the kernel is ``|x| |y| f(cos(x, y))`` instead; the two forms agree on unit rows.
    """

    #: Whether f is applied to the cosine and the value is multiplied by the norms.
    homogeneous: bool = False

    @abstractmethod
    def taylor_coefficients(self, max_degree: int, n_features: int) -> np.ndarray:
        """Give the non-negative coefficients c_0, ..., c_p of ``f(t) = sum_j c_j t^j``.

        Parameters
        ----------
        max_degree : int
            Highest degree p.
        n_features : int
            Width d of the data.

        Returns
        -------
        ndarray of shape (max_degree + 1,)
        """

    @abstractmethod
    def _of_product(self, products: np.ndarray, n_features: int) -> np.ndarray:
        """Kernel values for the inner products `products`, which may be overwritten."""

    def _evaluate(self, X: Rows, Y: Rows) -> np.ndarray:
        products = X @ Y.T
        return self._of_product(products.toarray() if sparse.issparse(products) else products, X.shape[1])

    def _diagonal(self, X: Rows) -> np.ndarray:
        return self._of_product(squared_norms(X), X.shape[1])


def check_range(values: np.ndarray, start: tuple[int, ...]) -> None:
    """Raise if a value overflows its dtype; `start` is the index of ``values[0, ...]`` in the whole result."""
    finite = np.isfinite(values)
    if not finite.all():
        entry = tuple(int(i) + first for i, first in zip(np.argwhere(~finite)[0], start, strict=True))
        raise ValueError(
            f"The kernel value at index {entry} exceeds the range of {values.dtype}. Scale the data down, or pass "
            "float64."
        )


def _float64(rows: Rows) -> Rows:
    return rows.astype(np.float64, copy=False)


def _store(
    evaluate: Callable[..., np.ndarray], tiles: tuple[Rows, ...], target: np.ndarray, start: tuple[int, ...]
) -> None:
    """Write ``evaluate(*tiles)`` into `target`, a block of the whole result that begins at index `start`."""
    with np.errstate(over="ignore", invalid="ignore"):
        target[...] = evaluate(*tiles)
    check_range(target, start)
