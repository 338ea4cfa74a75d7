"""Labels of classes as numbers, and scores as labels."""

from __future__ import annotations

from numbers import Number
from typing import Any

import numpy as np
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import column_or_1d

from phimap._validation import check_finite
from phimap.ops import to_host


def check_labels(y: Any, n_rows: int) -> np.ndarray:
    """`y` as an array of `n_rows` labels of classes."""
    y = column_or_1d(to_host(y), warn=True)
    if y.dtype.kind == "f":
        check_finite(y, "y")
    elif y.dtype.kind == "O":
        _check_objects(y)
    kind = type_of_target(y, input_name="y")
    if kind not in ("binary", "multiclass"):
        raise ValueError(f"Unknown label type: {kind}. `y` must hold classes; use KernelRegressor for other targets.")
    if y.shape[0] != n_rows:
        raise ValueError(
            f"`y` must have one label per sample, got {y.shape[0]} for inconsistent numbers of samples: X has {n_rows}."
        )
    return y


def encode_labels(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Labels as targets: -1 and 1 (r, 1) for two of the sorted `classes`, else one-hot (r, n_classes)."""
    index = np.searchsorted(classes, y)
    unknown = classes[np.minimum(index, classes.size - 1)] != y
    if unknown.any():
        raise ValueError(
            f"`y` must hold labels among classes_, got {y[unknown].tolist()[0]!r}. "
            "Name all labels in the first call: partial_fit(X, y, classes=...)."
        )
    if classes.size == 2:
        return np.where(index == 1, 1.0, -1.0)[:, None]
    return np.eye(classes.size)[index]


def decode_scores(scores: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The label (r,) of the largest of the scores (r, t)."""
    index = (scores[:, 0] > 0).astype(np.intp) if classes.size == 2 else scores.argmax(axis=1)
    return classes[index]


def _check_objects(y: np.ndarray) -> None:
    """Raise unless the objects `y` (n,) are text or numbers, none of them missing."""
    for row, label in enumerate(y):
        # Only NaN is unlike itself.
        if not isinstance(label, str | bytes | Number | np.generic) or label != label:
            raise ValueError(
                f"`y` must hold labels that are text or numbers, got {label!r} at row {row}. Fill it in, or drop such "
                "rows."
            )
