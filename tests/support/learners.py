"""Settings and targets of learners for tests that are not about the search of kernel, width and metric."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

from phimap.learn.search.effort import EFFORTS
from phimap.learn.settings import Compute

#: A kernel of the median width as it is, whichever it may be.
FIXED: dict[str, Any] = {"length_scale": "median", "metric": None}
#: The Gaussian one.
GAUSSIAN: dict[str, Any] = {"kernel": "gaussian", **FIXED}


def brief_searches() -> AbstractContextManager[Any]:
    """Within it, every search of a kernel has few and small trials, whatever its `effort`."""
    brief = replace(EFFORTS["fast"], n_components=(64, 128), n_rows=(500, 1000), stages=2, steps=3, rounds=1)
    return patch.dict(EFFORTS, dict.fromkeys(EFFORTS, brief))


def features_of(model: Any, X: Any) -> np.ndarray:
    """The features (n, m) that a fitted learner makes of rows."""
    fitted = model._fitted
    return fitted.map.features(Compute(model.device, None))(fitted.inputs.rows(X)).to_host().copy()


def few_of_many(n_rows: int, rng: np.random.Generator, d: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Rows (n, d) of which two columns matter, in a product."""
    X = rng.uniform(-1, 1, (n_rows, d))
    return X, np.sin(3 * X[:, 2]) * np.cos(2 * X[:, 7]) + 0.05 * rng.standard_normal(n_rows)
