"""Learned metrics: the average outer product of the gradients of a fitted model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.utils.extmath import randomized_svd

from phimap.learn.search.trial import FoldFit, rooted
from phimap.ops import Array, ops_for, run_tasks
from phimap.random_map import MapRecord

# Half the distance of the two points of a central difference, for standardised rows. A smaller distance would miss the
# jumps of maps that are not continuous.
_STEP = 1e-3
# Maximum number of feature values that a task holds for differences, and number of rows of a task.
_MOST_FLOATS = 2**22
_TASK_ROWS = 256


def gradients(record: MapRecord, X: np.ndarray, coefs: np.ndarray, n_jobs: int | None = None) -> np.ndarray:
    """Gradients (n, d, t) of ``phi(x)^T coefs`` at rows `X` (n, d), in float64.

    The map computes the gradients if it can. Otherwise they are central differences.

    Parameters
    ----------
    record : MapRecord
    X : ndarray of shape (n, d)
    coefs : ndarray of shape (m, t)
    n_jobs : int or None
        Threads; the result does not depend on them.

    Returns
    -------
    ndarray of shape (n, d, t)

    Notes
    -----
    At a kink the result is the mean of both slopes. The Laplacian kernel has a kink at every landmark.

    **Error.** Differences: about 2e-7 of the third derivative, and 1e-13 of the size of the function.

    **Cost.** Landmarks of a stationary kernel: about n m d t flops. Differences: the outputs at 2 n d rows.
    """
    X = np.asarray(X, dtype=np.float64)

    def of_rows(start: int) -> np.ndarray:
        rows = X[start : start + _TASK_ROWS]
        exact = record.output_gradients(rows, coefs)
        return _differences(record, rows, coefs) if exact is None else exact

    return np.concatenate(run_tasks(of_rows, range(0, len(X), _TASK_ROWS), n_jobs))


def _differences(record: MapRecord, X: np.ndarray, coefs: np.ndarray) -> np.ndarray:
    """Gradients (n, d, t) of the outputs at the rows of `X`, approximated by central differences."""
    ops = ops_for(X)
    record, coefs = record.unwhitened(coefs)
    bound = record.bind(ops)
    n, d = X.shape
    result = np.empty((n, d, coefs.shape[1]))
    height = max(1, _MOST_FLOATS // (record.n_components * 2 * d))
    steps = np.concatenate([np.eye(d), -np.eye(d)]) * _STEP
    for start in range(0, n, height):
        rows = X[start : start + height]
        moved = (rows[:, None, :] + steps).reshape(-1, d)
        outputs = bound.linear_outputs(ops, moved, coefs).reshape(len(rows), 2, d, -1)
        result[start : start + height] = (outputs[:, 0] - outputs[:, 1]) / (2 * _STEP)
    return result


# Gradients are computed at `_ROWS` rows, or at fewer if the product of rows, columns and features would exceed
# `_PRODUCTS`, but at `_LEAST_ROWS` at least.
_ROWS = 2000
_LEAST_ROWS = 100
_PRODUCTS = 2**27
# The limits if gradients are approximated by differences: maximum number of rows, and maximum of the product of rows
# and columns. The map is evaluated twice for each row and column.
_ROWS_OF_DIFFERENCES, _DIFFERENCES = 600, 10_000
# Least eigenvalue of a metric, as a share of the largest eigenvalue. It leaves every direction some weight.
_FLOOR = 1e-6
#: Maximum number of columns for which a full metric has full rank. With more columns its rank is `_RANK`.
MOST_COLUMNS_OF_FULL = 500
_RANK = 100


def gradient_factor(fit: FoldFit, X: Array, root: np.ndarray | None, n_jobs: int | None) -> np.ndarray:
    """A factor of the mean outer product of the gradients of a fit, in the coordinates before the root.

    Parameters
    ----------
    fit : FoldFit
        Fit to rows multiplied by `root`.
    X : ndarray or CSR matrix of shape (n, d)
        Rows not yet multiplied by `root`. The first of them are used.
    root : ndarray of shape (d,) or (d, k), or None
    n_jobs : int or None
        Threads; the result does not depend on them.

    Returns
    -------
    ndarray of shape (r, d)
        F with ``F^T F = mean_i grad f(x_i) grad f(x_i)^T``, summed over outputs.

    Notes
    -----
    With ``z = R^T x`` and g the gradient with respect to z, the gradient with respect to x is ``R g``.

    References
    ----------
    Radhakrishnan, Beaglehole, Pandit, Belkin (2024), *Mechanism for feature learning in neural networks and
    backpropagation-free machine learning models*, Equation 2.
    """
    ops, d = ops_for(X), X.shape[1]
    most, n_rows = _ROWS, _PRODUCTS // (d * fit.record.n_components)
    if fit.record.output_gradients(np.zeros((1, fit.record.n_features)), fit.coefs) is None:
        most, n_rows = _ROWS_OF_DIFFERENCES, _DIFFERENCES // d
    rows = ops.to_host(ops.dense(X[: int(np.clip(n_rows, _LEAST_ROWS, most))]))
    found = gradients(fit.record, np.asarray(rooted(rows, root)), fit.coefs, n_jobs)
    flat = np.moveaxis(found, 2, 1).reshape(-1, found.shape[1]) / np.sqrt(len(rows))
    return rooted(flat, None if root is None else root.T)


def metric_of(root: np.ndarray | None, n_features: int) -> np.ndarray:
    """The metric with this root: weights (d,) of the columns, or a matrix (d, d); ones if `root` is None."""
    if root is None:
        return np.ones(n_features)
    return np.square(root) if root.ndim == 1 else root @ root.T


def with_all_columns(root: np.ndarray | None, columns: np.ndarray, n_features: int) -> np.ndarray:
    """Extend the root of a metric on some `columns` to all columns: (d,) or (d, k), with 0 for the other columns."""
    root = np.ones(columns.size) if root is None else root
    whole = np.zeros((n_features, *root.shape[1:]))
    whole[columns] = root
    return whole


def inverse_root(metric: np.ndarray) -> np.ndarray | None:
    """The inverse of the root of a metric (d,) or (d, d): a factor for each column, or a matrix.

    None for the identity. None also for a metric without an inverse, which ignores columns or has low rank.
    """
    if not (metric if metric.ndim == 1 else np.diag(metric)).all():
        return None
    if metric.ndim == 1:
        return None if np.all(metric == 1) else 1 / np.sqrt(metric)
    if len(metric) > MOST_COLUMNS_OF_FULL:
        return None
    values, vectors = np.linalg.eigh(metric)
    return (vectors / np.sqrt(np.maximum(values, _FLOOR * values[-1]))) @ vectors.T


def root_of(factor: np.ndarray, kind: str, exponent: float = 1.0) -> np.ndarray:
    """Root of a power of the metric ``F^T F``, given the factor F (r, d). The power is scaled to eigenvalues of mean 1.

    Parameters
    ----------
    factor : ndarray of shape (r, d)
    kind : {"diagonal", "full"}
        A full metric of more than 500 columns keeps its leading 100 directions.
    exponent : float
        Power to which the metric is raised. Below 1 the result is closer to the identity.

    Returns
    -------
    ndarray of shape (d,), (d, d) or (d, k)
        Factors of the columns, a symmetric matrix, or k directions.
    """
    if kind == "diagonal":
        return np.sqrt(_scaled(np.square(factor).sum(axis=0), exponent))
    if factor.shape[1] > MOST_COLUMNS_OF_FULL:
        _, values, directions = randomized_svd(factor, min(_RANK, *factor.shape), random_state=0)
        return directions.T * np.sqrt(_scaled(np.square(values), exponent))
    values, vectors = np.linalg.eigh(factor.T @ factor)
    return (vectors * np.sqrt(_scaled(values, exponent))) @ vectors.T


def tied(factor: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """Average the diagonal metric of a factor (r, d) over groups `parts` (d,) of columns; return a factor (1, d)."""
    means = np.bincount(parts, np.square(factor).sum(axis=0)) / np.bincount(parts)
    return np.sqrt(means[parts])[None]


def power_of_root(root: np.ndarray, exponent: float) -> np.ndarray:
    """Root of a power of a metric, given the root (d,) or (d, k) of the metric."""
    return root_of(root[None], "diagonal", exponent) if root.ndim == 1 else root_of(root.T, "full", exponent)


def mean_root(roots: Sequence[np.ndarray]) -> np.ndarray:
    """Root of the mean of several metrics, given their roots (d,) or (d, k)."""
    if len(roots) == 1:
        return roots[0]
    if roots[0].ndim == 1:
        return np.sqrt(np.mean(np.square(roots), axis=0))
    return root_of(np.concatenate([root.T for root in roots]) / np.sqrt(len(roots)), "full")


def _scaled(values: np.ndarray, exponent: float) -> np.ndarray:
    """Raise eigenvalues to at least `_FLOOR` of the largest, then to a power, and scale them to mean 1."""
    largest = values.max(initial=0.0)
    if not largest > 0:
        return np.ones_like(values)
    values = np.maximum(values / largest, _FLOOR) ** exponent
    return values / values.mean()
