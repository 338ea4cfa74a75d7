"""Rows and targets of a comparison, checked once for all methods."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from phimap._validation import check_finite, check_integer

# Whole numbers with at most this many distinct values are taken for classes, as by the command line.
_MOST_CODES = 20


def as_rows(X: Any) -> tuple[np.ndarray, list[str]]:
    """`X` in float32 if it is that already, else in float64, and the names of its columns."""
    names = [str(name) for name in getattr(X, "columns", ())]
    for name in names:
        kind = np.asarray(X[name]).dtype.kind
        if kind not in "biuf":
            raise ValueError(
                f"`X` must hold numbers, got column {name!r} with {np.asarray(X[name])[0]!r} in row 0. Encode it, or "
                "drop it."
            )
    rows = np.asarray(check_array(X, ensure_all_finite=False))
    rows = rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)
    check_finite(rows)
    return rows, names or [f"c{j}" for j in range(rows.shape[1])]


def as_targets(y: Any, n_rows: int) -> np.ndarray:
    """`y` as numbers or labels (n,), none of them missing."""
    y = np.asarray(y)
    if y.shape != (n_rows,):
        raise ValueError(f"`y` must have one target for each of the {n_rows} rows, got shape {y.shape}.")
    if y.dtype.kind == "O":
        missing = [row for row, label in enumerate(y) if label is None or label != label]
        if missing:
            raise ValueError(f"`y` must have no missing labels, got one in row {missing[0]}. Drop such rows.")
        y = y.astype(str)
    if y.dtype.kind == "f":
        check_finite(y, "y")
    return y


def task_of(y: np.ndarray) -> str:
    """``"classification"`` for text, booleans, and whole numbers with few distinct values; else ``"regression"``."""
    if y.dtype.kind not in "iuf":
        return "classification"
    whole = y.dtype.kind != "f" or bool((y == np.rint(y)).all())
    return "classification" if whole and np.unique(y).size <= _MOST_CODES else "regression"


def thinned(n_rows: int, most_rows: int | None, seed: int) -> np.ndarray:
    """Places of so many random rows, in their order; all where these are no more."""
    if most_rows is None or n_rows <= check_integer("most_rows", most_rows, least=1):
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(seed).choice(n_rows, most_rows, replace=False))
