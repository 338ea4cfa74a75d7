"""The corrections of one region: ridge regression of its residuals in the space of the kernel."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from phimap.kernels import Kernel
from phimap.learn.corrections.residuals import Residuals
from phimap.ops.blas import factorise, solve_transposed, solve_upper

# Number of rows of a kernel matrix that are computed at a time, from the diagonal to the right.
_BLOCK_ROWS = 128
# Kernel values are kept in float32 if none is smaller.
_LEAST_SINGLE = 1e-15


class RegionFit(NamedTuple):
    """Corrections of one region.

    Attributes
    ----------
    coefs : ndarray of shape (r, t)
        Coefficients of the residuals of the fit to all rows.
    validation_errors : ndarray of shape (v, t)
        Errors at the validation rows, defined as in `_Probe`.
    inverse : ndarray of shape (r, h)
        As in `LearnedCorrections`.
    """

    coefs: np.ndarray
    validation_errors: np.ndarray
    inverse: np.ndarray


def fit_region(
    kernel: Kernel, scale: float, alpha: float, residuals: Residuals, part: np.ndarray, left_out: np.ndarray
) -> RegionFit:
    r"""Return the corrections of the region with the rows `part` (r,).

    The mask `left_out` (r,) marks the columns of the inverse.

    Notes
    -----
    Let ``U^T U`` be ``S K S + alpha I`` with the validation rows last, U its Cholesky factor, e the residuals of the
    training fit, and ``u = U^{-T} S e``. The corrections that are learned at the training rows alone then have the
    errors :math:`S_V^{-1} U_{VV}^T u_V` at the validation rows. So one factorisation gives these errors, the
    coefficients of all rows, and the columns of the inverse.
    """
    # A region may be empty, since planes do not separate equal rows.
    if not part.size:
        return RegionFit(residuals.errors[part], residuals.training_fit_errors[part], np.zeros((0, 0)))
    # The training rows that may be left out follow the others: the products of U^-T with their columns of the identity
    # are zero above them.
    held_out = residuals.held_out[part]
    order = np.argsort(np.where(held_out, 2, left_out), kind="stable")
    rows, first = part[order], int((~held_out).sum())
    X, roots = residuals.X[rows] * residuals.X.dtype.type(scale), np.sqrt(residuals.count(rows))[:, None]
    factor = _region_factor(kernel, X, alpha, roots)
    both = np.concatenate([residuals.errors[rows], residuals.training_fit_errors[rows]], axis=1)
    solved = (roots * both).astype(factor.dtype)
    solve_transposed(factor, solved)
    of_all, of_training = np.split(solved, 2, axis=1)
    errors = np.triu(factor[first:, first:]).T @ of_training[first:] / roots[first:]
    solve_upper(factor, of_all)
    coefs = np.empty(of_all.shape)
    coefs[order] = roots * of_all
    return RegionFit(coefs, errors, _columns_of_inverse(factor, order, np.flatnonzero(left_out)))


def _columns_of_inverse(factor: np.ndarray, order: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return `columns` (h,) of ``(U^T U)^{-1}`` as (r, h), for the factor U (r, r) of rows in an `order` (r,)."""
    places = np.argsort(order)[columns]
    solved = np.zeros((len(factor), columns.size), factor.dtype)
    if columns.size:
        solved[places, np.arange(columns.size)] = 1.0
        first = int(places.min())
        solve_transposed(factor[first:, first:], solved[first:])
        solve_upper(factor, solved)
    inverse = np.empty_like(solved)
    inverse[order] = solved
    return inverse


def _region_factor(kernel: Kernel, X: np.ndarray, alpha: float, roots: np.ndarray) -> np.ndarray:
    """Return the Cholesky factor U of ``S K S + alpha I`` for the rows `X`; `roots` is the diagonal of S.

    It is in float64 if rounding errors of float32 exceed alpha. Entries below its diagonal are arbitrary.
    """
    try:
        return factorised(kernel_matrix(kernel, X), alpha, roots)
    except np.linalg.LinAlgError:
        return factorised(kernel_matrix(kernel, X.astype(np.float64)), alpha, roots)


def factorised(matrix: np.ndarray, alpha: float, roots: np.ndarray) -> np.ndarray:
    """Replace the matrix K by the Cholesky factor U of ``S K S + alpha I``; `roots` (n, 1) is the diagonal of S.

    Entries below the diagonal of U are arbitrary.
    """
    if not (roots == 1).all():
        roots = roots.astype(matrix.dtype)
        matrix *= roots * roots.T
    matrix[np.diag_indices_from(matrix)] += matrix.dtype.type(alpha)
    if not factorise(matrix):
        raise np.linalg.LinAlgError
    return matrix


def kernel_matrix(kernel: Kernel, X: np.ndarray) -> np.ndarray:
    """Kernel values (n, n) of the pairs of rows, with zeros for most pairs below the diagonal.

    Values are as `kernel_values` returns them. The zeros save a third of the time; a factorisation does not read them.
    """
    matrix = np.zeros((len(X), len(X)), X.dtype)
    for first in range(0, len(X), _BLOCK_ROWS):
        rows = slice(first, first + _BLOCK_ROWS)
        block = kernel_values(kernel, X[rows], X[first:])
        matrix = matrix.astype(np.promote_types(matrix.dtype, block.dtype), copy=False)
        matrix[rows, first:] = block
    return matrix


def kernel_values(kernel: Kernel, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Kernel values (n, k), in float32 for float32 rows if the kernel allows, else in float64.

    The rounding error of float32 is far below all alphas. If some values are tiny, the result is in float64, because a
    factorisation in float32 would multiply them to subnormal numbers, which take many times as long.
    """
    if not (len(X) and len(Y)):
        return np.zeros((len(X), len(Y)))
    single = kernel.in_single_precision(X, Y) if X.dtype == np.float32 else None
    if single is None:
        return kernel(X.astype(np.float64), Y.astype(np.float64))
    return single if single.min() >= _LEAST_SINGLE else single.astype(np.float64)
