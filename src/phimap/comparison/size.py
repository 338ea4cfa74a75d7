"""Size of a fitted model in bytes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from phimap.io.model import save
from phimap.learn import KernelClassifier, KernelRegressor
from phimap.tables import TableEncoder


def model_bytes(model: Any) -> int:
    """Return the size of a fitted model in bytes.

    For phimap and CatBoost this is the size of the model file, for LightGBM the size of the model's text, and for other
    models the size of all arrays. The size of a pipeline is the sum over its steps.
    """
    if isinstance(model, Pipeline):
        return sum(model_bytes(step) for _, step in model.steps)
    model = getattr(model, "model_", model)
    if isinstance(model, KernelRegressor | KernelClassifier | TableEncoder):
        return _written(lambda path: save(model, path))
    if hasattr(model, "save_model"):
        return _written(model.save_model)
    booster = getattr(model, "booster_", None)
    if booster is not None:
        return len(booster.model_to_string())
    return _held(model, set())


def _written(write: Callable[[str], Any]) -> int:
    """Return the size in bytes of the file that `write` writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.phimap"
        write(str(path))
        return path.stat().st_size


def _held(value: Any, seen: set[int]) -> int:
    """Return the total bytes of the arrays that can be reached from `value`, each counted once."""
    if id(value) in seen:
        return 0
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        return value.nbytes
    if sparse.issparse(value):
        return value.data.nbytes + value.indices.nbytes + value.indptr.nbytes
    if isinstance(value, list | tuple):
        return sum(_held(item, seen) for item in value)
    if isinstance(value, dict):
        return sum(_held(item, seen) for item in value.values())
    # The trees of scikit-learn's boosting are not estimators, so other classes of scikit-learn are searched as well.
    own = isinstance(value, BaseEstimator) or type(value).__module__.startswith("sklearn")
    return _held(vars(value), seen) if own and hasattr(value, "__dict__") else 0
