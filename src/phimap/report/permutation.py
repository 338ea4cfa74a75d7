"""Permutation importance: how much the held-out error rises if the values of one column are shuffled."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from phimap.learn.extrapolation import OutsideWarning
from phimap.report.certainty import first_rows

# Largest number of held-out rows that are shuffled, and least number of rows whose errors can rank columns.
_MOST_ROWS, _LEAST_ROWS = 1000, 20
# Number of shuffles of each column, and largest number of rows that are predicted for all columns together.
_SHUFFLES, _PREDICTED = 3, 200_000


@dataclass(frozen=True)
class Permutations:
    """Result of `permutation_importances`.

    Attributes
    ----------
    error : float
        Error of the held-out rows without shuffling: root mean squared error, or share of wrong labels.
    rises : ndarray of shape (p,)
        Rise of the error if the values of a column are shuffled, mean over the shuffles. It may be slightly negative.
    n_rows : int
        Number of held-out rows.
    """

    error: float
    rises: np.ndarray
    n_rows: int


def permutation_importances(
    model: Any, held_out: Iterable[tuple[np.ndarray, np.ndarray]], columns: np.ndarray
) -> Permutations | None:
    """Shuffle each column of held-out rows, and predict them.

    Parameters
    ----------
    model : KernelRegressor or KernelClassifier
        Fitted learner.
    held_out : iterable of (X, y)
        Batches of held-out rows (r, d), encoded if the model encodes frames, and targets. Only the first rows are used.
    columns : ndarray of shape (d,)
        Index of the column of the table from which each column of the rows was made. Columns with the same index are
        shuffled together.

    Returns
    -------
    Permutations or None
        None with too few rows, or with so many columns that predictions would take too long.

    Notes
    -----
    If columns depend on each other, shuffling one of them makes combinations that do not occur in the data. Two columns
    with the same information may both have a small rise, because the model can still use the column that is not
    shuffled.

    **Error.** The mean of three shuffles of the same rows.

    **Cost.** Three predictions of at most 1,000 rows for each column, 200,000 rows in all.

    **Differs from the source in** the rows, which the model has not seen, and in shuffling all columns of one origin
    together.

    References
    ----------
    Breiman (2001), *Random forests*, Section 10.
    """
    p = int(columns.max()) + 1
    parts = list(first_rows(held_out, min(_MOST_ROWS, _PREDICTED // (_SHUFFLES * p))))
    if sum(len(y) for _, y in parts) < _LEAST_ROWS or not isinstance(parts[0][0], np.ndarray):
        return None
    X, y = (np.concatenate(part) for part in zip(*parts, strict=True))
    rng = np.random.default_rng(0)
    orders = [rng.permutation(len(X)) for _ in range(_SHUFFLES)]
    with warnings.catch_warnings():
        # Shuffled rows may lie far from all training rows.
        warnings.simplefilter("ignore", OutsideWarning)
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        error = _error(model, X, y)
        rises = np.zeros(p)
        for column in np.unique(columns):
            for order in orders:
                shuffled = X.copy()
                shuffled[:, columns == column] = X[order][:, columns == column]
                rises[column] += (_error(model, shuffled, y) - error) / _SHUFFLES
    return Permutations(error, rises, len(X))


def _error(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    predicted = model.predict(X).reshape(len(X))
    if is_classifier(model):
        return float(np.mean(predicted != y))
    return float(np.sqrt(np.mean(np.square(predicted - y))))
