"""Scores of a model and of a linear model on held-out rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from phimap.cli.loss_scores import LossScores, scores_of
from phimap.cli.scoring import Scores
from phimap.comparison.methods import LINEAR

# Largest number of columns for which a linear model is fitted. With more columns, such as pixels, the fit would take
# too long.
_MOST_COLUMNS = 500


def outcomes(model: Any, X: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Return predictions for the rows `X`, and the decision scores (r,) if there are two classes, else None.

    Predictions have the shape (r,), or (r, q) for q quantiles.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names", category=UserWarning)
        if len(getattr(model, "classes_", ())) != 2:
            # If a model was fitted to a target of shape (n, 1), its predictions have the shape (r, 1), or (r, 1, q) for
            # q quantiles.
            predicted = model.predict(X).reshape(X.shape[0], -1)
            return predicted[:, 0] if predicted.shape[1] == 1 else predicted, None
        scores = model.decision_function(X)
    return model.classes_[(scores > 0).astype(np.intp)], scores


def score(
    model: Any,
    task: str,
    rows: Iterable[tuple[np.ndarray, np.ndarray]],
    advance: Callable[[int], None],
    sample: Any = None,
    mean: float | None = None,
) -> Scores:
    """Score a model on held-out rows.

    A linear model of least squares, or of classes, is fitted to a `sample` of training rows and scored as well. It is
    omitted for the losses of quantiles and for deviances. `mean` is the mean training target, see `scores_of`.
    """
    scores = scores_of(model, task, mean)
    linear = None if sample is None or isinstance(scores, LossScores) else _linear(sample, task)
    scores.linear = None if linear is None else Scores(task)
    for X, y in rows:
        scores.update(y, *outcomes(model, X))
        if linear is not None and scores.linear is not None:
            scores.linear.update(y, linear.predict(X.reshape(len(X), -1)))
        advance(X.shape[0])
    return scores


def _linear(sample: Any, task: str) -> Any:
    """Fit a linear model to the sampled rows, up to 4,096; None for wide rows, CSR rows and a single class."""
    X, y, _ = sample.first(None)
    if sparse.issparse(X) or X.shape[1] > _MOST_COLUMNS or (task == "classification" and np.unique(y).size < 2):
        return None
    with warnings.catch_warnings():
        # The linear model is only used for comparison, so it need not have converged.
        warnings.simplefilter("ignore", ConvergenceWarning)
        # If the rows were float32, scikit-learn would also round the targets to float32.
        return LINEAR.make(task, None, 0).fit(X.astype(np.float64), y)
