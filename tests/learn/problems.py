"""Rows with a target that no linear model explains."""

from __future__ import annotations

import numpy as np


def problem(n: int, d: int = 4, dtype: type = np.float64) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (n, d) in `dtype` and targets (n,)."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, d))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(n)
    return X.astype(dtype), y
