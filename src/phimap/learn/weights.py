"""Weights of rows: a row of weight w counts like w equal rows. Weights that are None are all one."""

from __future__ import annotations

from typing import Any

import numpy as np

from phimap._validation import check_finite, check_unmasked
from phimap.ops import to_host
from phimap.tables.frames import rows_at

#: `MOST_WEIGHT` bounds row weights, `LEAST_WEIGHT` bounds their mean, and both bound class weights. Outside of these
#: bounds, the product of a squared float32 feature, a row weight and a class weight might overflow or underflow.
LEAST_WEIGHT, MOST_WEIGHT = 1e-15, 1e15


def check_weights(sample_weight: Any, n_rows: int) -> np.ndarray | None:
    """Return `sample_weight` as float64 weights of `n_rows` rows; None if all are one. Weights may be zero."""
    if sample_weight is None:
        return None
    check_unmasked(sample_weight, "sample_weight")
    weights = np.asarray(to_host(sample_weight))
    if weights.dtype.kind not in "biufO":
        raise TypeError(f"`sample_weight` must hold numbers, got {weights.dtype}. Give one number for each row.")
    weights = np.full(n_rows, weights, np.float64) if weights.ndim == 0 else np.array(weights, np.float64)
    if weights.shape != (n_rows,):
        raise ValueError(
            f"`sample_weight` must have shape ({n_rows},), one weight for each row, got {weights.shape}. "
            "Give one number for each row."
        )
    check_finite(weights, "sample_weight")
    outside = (weights < 0) | (weights > MOST_WEIGHT)
    if outside.any():
        row = int(np.argmax(outside))
        rule = "not be negative" if weights[row] < 0 else f"be at most {MOST_WEIGHT:g}"
        remedy = "Use 0 to leave a row out" if weights[row] < 0 else "Divide all by a constant"
        raise ValueError(f"`sample_weight` must {rule}, got {weights[row]:g} at row {row}. {remedy}.")
    return None if (weights == 1).all() else weights


def check_mean_weight(total: float, n_rows: int) -> None:
    """Raise if the mean weight of `n_rows` rows is so small that products in float32 would underflow."""
    if total < LEAST_WEIGHT * n_rows:
        raise ValueError(
            f"`sample_weight` must be {LEAST_WEIGHT:g} or more on average, got {total / n_rows:g}. "
            "Multiply all by a constant."
        )


def rows_that_count(
    X: Any, y: np.ndarray, weights: np.ndarray | None, *, wanted: bool
) -> tuple[Any, np.ndarray, np.ndarray | None]:
    """Return the rows of positive weight, their targets and weights; raise if `wanted` and there are no such rows."""
    if weights is None or weights.all():
        return X, y, weights
    positive = np.flatnonzero(weights)
    if wanted and not positive.size:
        raise ValueError("`sample_weight` must not be zero at all rows. Give one row a positive weight.")
    kept = weights[positive]
    return rows_at(X, positive), y[positive], None if (kept == 1).all() else kept


def joined_weights(weights: list[np.ndarray | None], sizes: list[int]) -> np.ndarray | None:
    """Concatenate the weights of parts with `sizes` rows; None if no part has weights."""
    if all(part is None for part in weights):
        return None
    return np.concatenate([np.ones(n) if part is None else part for part, n in zip(weights, sizes, strict=True)])


def total_weight(weights: np.ndarray | None, n_rows: int) -> float:
    """Total weight of `n_rows` rows."""
    return n_rows if weights is None else float(weights.sum())


def weighted_mean(values: np.ndarray, weights: np.ndarray | None, axis: int = 0) -> np.ndarray:
    """Return the mean of `values` along an axis, weighted by `weights`. The terms are added in a fixed order."""
    if weights is None:
        return values.mean(axis=axis)
    return weighted_sum(values, weights, axis) / weights.sum()


def weighted_sum(values: np.ndarray, weights: np.ndarray | None, axis: int = 0) -> np.ndarray:
    """Return the sum of `values` along an axis, weighted by `weights`."""
    if weights is None:
        return values.sum(axis=axis)
    shape = [1] * values.ndim
    shape[axis] = -1
    return (values * weights.reshape(shape)).sum(axis=axis)


def weighted_quantile(values: np.ndarray, weights: np.ndarray, level: float) -> float:
    """Return the smallest of `values` (r,) at which the cumulative weight reaches the share `level` of the total."""
    order = np.argsort(values, kind="stable")
    sums = np.cumsum(weights[order])
    return float(values[order[np.searchsorted(sums, level * sums[-1])]])
