"""Targets of regression, checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from phimap._validation import check_finite
from phimap.learn.targets.target_units import refuse_labels

# Sums of squares of larger targets overflow, so that no error could be told.
_LARGEST = 1e150


def check_numbers(y: Any, n_rows: int) -> np.ndarray:
    """`y` as float64 numbers (n_rows,) or (n_rows, t)."""
    try:
        targets = check_array(
            y, ensure_2d=False, allow_nd=False, dtype="numeric", ensure_all_finite=False, input_name="y"
        )
        if targets.dtype.kind in "mM":
            refuse_labels(targets.astype(str), None)
        y = targets.astype(np.float64, copy=False)
    except (ValueError, TypeError) as error:
        refuse_labels(y, error)
        raise
    if y.ndim not in (1, 2) or y.shape[0] != n_rows:
        raise ValueError(
            f"`y` must have one row per sample, got shape {y.shape} for inconsistent numbers of samples: "
            f"X has {n_rows}."
        )
    check_finite(y, "y")
    if y.size and (largest := _largest(y)) > _LARGEST:
        raise ValueError(
            f"`y` must lie within {_LARGEST:g} of 0, whose squares float64 holds, got {largest:g}. Rescale y."
        )
    return y


def are_usable(y: np.ndarray) -> bool:
    """Whether `check_numbers` takes the numbers `y`."""
    return not y.size or bool(_largest(y) <= _LARGEST)


def _largest(y: np.ndarray) -> float:
    """The largest absolute value, without an array of them all."""
    return max(-float(y.min()), float(y.max()))


def check_width(n_targets: int, expected: int) -> None:
    """Raise unless there are as many targets as in the first rows."""
    if n_targets != expected:
        raise ValueError(
            f"`y` must have as many targets as in the first rows, {expected}, got {n_targets}. "
            "Give every batch the same targets."
        )
