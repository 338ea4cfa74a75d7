"""Scores of a model on held-out rows, beside the scores of a linear model."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from phimap.cli.scoring import Scores
from phimap.comparison.methods import LINEAR

# A linear model of more columns, such as pixels, takes too long for a comparison.
_MOST_COLUMNS = 500


def outcomes(model: Any, X: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Predictions (r,) for rows with the columns of the model, and the scores (r,) if there are two classes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names", category=UserWarning)
        if len(getattr(model, "classes_", ())) != 2:
            # A model that was fitted to one target in a column predicts a column.
            return model.predict(X).reshape(X.shape[0]), None
        scores = model.decision_function(X)
    return model.classes_[(scores > 0).astype(np.intp)], scores


def score(
    model: Any,
    task: str,
    rows: Iterable[tuple[np.ndarray, np.ndarray]],
    advance: Callable[[int], None],
    sample: Any = None,
) -> Scores:
    """Scores of a model on held-out rows, beside those of a linear model of a `sample` of the training rows, if any."""
    linear = None if sample is None else _linear(sample, task)
    scores = Scores(task, getattr(model, "classes_", None), linear=None if linear is None else Scores(task))
    for X, y in rows:
        scores.update(y, *outcomes(model, X))
        if linear is not None and scores.linear is not None:
            scores.linear.update(y, linear.predict(X.reshape(len(X), -1)))
        advance(X.shape[0])
    return scores


def _linear(sample: Any, task: str) -> Any:
    """A linear model of the sampled rows, up to 4,096; None for wide rows and CSR rows."""
    X, y, _ = sample.first(None)
    if sparse.issparse(X) or X.shape[1] > _MOST_COLUMNS or (task == "classification" and np.unique(y).size < 2):
        return None
    with warnings.catch_warnings():
        # The linear model is for comparison only and need not have converged.
        warnings.simplefilter("ignore", ConvergenceWarning)
        # With float32 rows scikit-learn would round the targets, too.
        return LINEAR.make(task, None, 0).fit(X.astype(np.float64), y)
