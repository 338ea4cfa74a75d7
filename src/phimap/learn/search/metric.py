"""Metrics that are learned: the average outer product of the gradients of a fitted model."""

from __future__ import annotations

import numpy as np

from phimap.learn.search.gradients import gradients
from phimap.learn.search.trial import FoldFit
from phimap.ops import Array, ops_for

# Rows at which gradients are taken, and what rows times columns times features may come to.
_ROWS = 2000
_LEAST_ROWS = 100
_PRODUCTS = 2**27
# The same of differences, for rows times columns: each is two outputs of the map.
_ROWS_OF_DIFFERENCES, _DIFFERENCES = 600, 10_000
# Eigenvalues of a metric below this share of the largest count as much: no direction is lost for good.
_FLOOR = 1e-6


def mean_outer_gradient(fit: FoldFit, X: Array, root: np.ndarray | None) -> np.ndarray:
    """``mean_i grad f(x_i) grad f(x_i)^T`` (d, d), summed over outputs, in the coordinates before the root.

    Parameters
    ----------
    fit : FoldFit
        What was learned on rows times `root`.
    X : ndarray or CSR matrix of shape (n, d)
        Rows before the root; the first of them are taken.
    root : ndarray of shape (d,) or (d, k), or None

    Returns
    -------
    ndarray of shape (d, d)

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
    R = np.eye(X.shape[1]) if root is None else np.diag(root) if root.ndim == 1 else root
    found = gradients(fit.record, rows @ R, fit.coefs)
    flat = np.moveaxis(found, 2, 1).reshape(-1, found.shape[1]) @ R.T
    return flat.T @ flat / len(rows)


def metric_of(root: np.ndarray | None, n_features: int) -> np.ndarray:
    """The metric of a root: weights (d,) of the columns, or a matrix (d, d); ones where there is none."""
    if root is None:
        return np.ones(n_features)
    return np.square(root) if root.ndim == 1 else root @ root.T


def inverse_root(metric: np.ndarray) -> np.ndarray | None:
    """What undoes the root of a metric (d,) or (d, d): factors or a matrix; None where there is nothing to undo."""
    if metric.ndim == 1:
        return None if np.all(metric == 1) else 1 / np.sqrt(metric)
    values, vectors = np.linalg.eigh(metric)
    return (vectors / np.sqrt(np.maximum(values, _FLOOR * values[-1]))) @ vectors.T


def root_of(metric: np.ndarray, kind: str, exponent: float = 1.0) -> np.ndarray:
    """Root of a power of a metric, of trace d: factors (d,) for ``"diagonal"``, symmetric (d, d) for ``"full"``.

    An exponent below 1 takes the metric closer to the identity: columns that matter little are seen more.
    """
    if kind == "diagonal":
        return np.sqrt(_scaled(np.diag(metric), exponent))
    values, vectors = np.linalg.eigh(metric)
    return (vectors * np.sqrt(_scaled(values, exponent))) @ vectors.T


def tied(metric: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """A metric (d, d) whose diagonal is the mean over columns with one number in `parts` (d,); the rest is 0."""
    means = np.bincount(parts, np.diag(metric)) / np.bincount(parts)
    return np.diag(means[parts])


def tempered_root(root: np.ndarray, exponent: float) -> np.ndarray:
    """Root of a power of the metric whose root (d,) or (d, d) is given."""
    if root.ndim == 1:
        return root_of(np.diag(np.square(root)), "diagonal", exponent)
    return root_of(root @ root.T, "full", exponent)


def _scaled(values: np.ndarray, exponent: float) -> np.ndarray:
    """Powers of eigenvalues with a mean of 1, none of them lost."""
    largest = values.max(initial=0.0)
    if not largest > 0:
        return np.ones_like(values)
    values = np.maximum(values / largest, _FLOOR) ** exponent
    return values / values.mean()
