"""Screening of many columns: it finds the columns related to the targets, with a bound on false discoveries."""

from __future__ import annotations

import numpy as np
from scipy import stats

from phimap.learn.search.sample import SearchSample

# Columns are screened if there are at least `_LEAST_COLUMNS` of them, and at most `_ROWS_A_COLUMN` training rows for
# each. With fewer columns or more rows, gradients give a better metric, which also finds columns that matter only in
# products.
_LEAST_COLUMNS, _ROWS_A_COLUMN = 32, 4
# Bound on the expected share of irrelevant columns among the chosen columns.
_FALSE_DISCOVERIES = 0.01
# The ranks of a target are regressed on polynomials of this degree in the ranks of a column.
_DEGREE = 3
# A direction counts as zero if its eigenvalue in the Gram matrix of these polynomials is below this share of the
# largest.
_ROUNDING = 1e-6
# Largest number of rows that are used, and largest number of ranks in memory at a time.
_ROWS, _MOST_RANKS = 2500, 2**22


def screened(sample: SearchSample) -> np.ndarray | None:
    r"""Choose the columns that are related to the targets, if there are many columns.

    The result is None if no column or more than half of the columns would be chosen. It is also None if there are fewer
    than 32 columns, or more than four training rows for each column.

    Parameters
    ----------
    sample : SearchSample
        Dense rows.

    Returns
    -------
    ndarray of int, shape (k,), or None
        Indices in ascending order.

    Notes
    -----
    The ranks of each target are regressed on polynomials of degree 3 in the ranks of one column. The F test of this
    regression gives a p value. With several targets, the least p value is multiplied by their number. The procedure of
    Benjamini and Hochberg then bounds the expected share of wrongly chosen columns by 1 %. If no column is related to
    the targets and the tests are independent, it chooses a column with a probability of at most 1 %. The held-out rows
    take part in the screening. Because the bound is strict, held-out errors stay almost unbiased. Ranks make the test
    insensitive to outliers. Columns that matter only in products with others are not found.

    **Cost.** Sorting at most 2,500 rows of each column.

    References
    ----------
    Benjamini, Hochberg (1995), *Controlling the false discovery rate*.
    """
    d = sample.X.shape[1]
    if d < max(_LEAST_COLUMNS, sample.n_learned / _ROWS_A_COLUMN):
        return None
    Y = sample.Y[:_ROWS]
    n, n_targets = Y.shape
    targets = _centred_ranks(Y)
    height = max(1, _MOST_RANKS // n)
    starts = range(0, d, height)
    least = np.concatenate([_p_values(sample.X[:n, at : at + height], targets).min(axis=0) for at in starts])
    values = np.minimum(1.0, least * n_targets)
    order = np.argsort(values, kind="stable")
    passed = np.flatnonzero(values[order] <= _FALSE_DISCOVERIES * np.arange(1, d + 1) / d)
    if not passed.size or passed[-1] + 1 > d // 2:
        return None
    return np.sort(order[: passed[-1] + 1])


def _centred_ranks(values: np.ndarray) -> np.ndarray:
    """Mean ranks of each column (n, d), shifted and scaled to lie in [-1, 1] with mean 0."""
    n = len(values)
    return (2 * stats.rankdata(values, axis=0) - n - 1) / n


def _p_values(X: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """P values (t, d) of the hypotheses that ranks of targets (n, t) do not depend on columns (n, d)."""
    n = len(X)
    basis = np.polynomial.legendre.legvander(_centred_ranks(X), _DEGREE)[:, :, 1:]
    basis -= basis.mean(axis=0)
    values, vectors = np.linalg.eigh(np.einsum("ndi,ndj->dij", basis, basis))
    kept = values > _ROUNDING * np.maximum(values[:, -1:], np.finfo(float).tiny)
    inverse = np.where(kept, 1 / np.where(kept, values, 1.0), 0.0)
    products = np.einsum("dji,djt->dit", vectors, np.einsum("ndi,nt->dit", basis, targets))
    total = np.maximum(np.square(targets).sum(axis=0), np.finfo(float).tiny)
    explained = np.minimum(np.einsum("di,dit->td", inverse, np.square(products)) / total[:, None], 1.0)
    n_terms = kept.sum(axis=1)
    n_left = n - 1 - n_terms
    ratio = explained * n_left / (np.maximum(1 - explained, np.finfo(float).eps) * np.maximum(n_terms, 1))
    return np.where(n_terms > 0, stats.f.sf(ratio, np.maximum(n_terms, 1), n_left), 1.0)
