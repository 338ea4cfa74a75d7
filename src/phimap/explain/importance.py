"""Mean absolute Shapley values of the columns over a few rows, for the report of a fit."""

from __future__ import annotations

from typing import Any

import numpy as np

from phimap.explain.sampling import sampled_values
from phimap.explain.subject import subject_of
from phimap.ops import ops_for

# Largest number of explained rows, and least number of explained rows over whose values a mean is taken.
_MOST_ROWS, _LEAST_ROWS = 64, 8
# Number of background rows if the model has an exact form, and number of background rows for sampling.
_BACKGROUND, _SAMPLED = 32, 16
# Largest product of four numbers: explained rows, terms, background rows, and squared columns. Values with this product
# take about two seconds on one core.
_WORK = 1e10
# Largest number of rows, mixed from explained and background rows, that are evaluated in sampling.
_MIXED = 50_000


def mean_absolute_values(model: Any, X: np.ndarray) -> np.ndarray | None:
    """Return the mean absolute Shapley values (p,) of the columns that users give; None if they take too long.

    Parameters
    ----------
    model : KernelRegressor or KernelClassifier
    X : ndarray or CSR matrix of shape (n, w)
        Random training rows, encoded if the model encodes frames.
    """
    subject = subject_of(model, X, by_column=True)
    # These rows come from the first pass, so they are checked and encoded already.
    ops, p = ops_for(X), len(subject.players)
    rows = np.asarray(ops.to_host(ops.dense(X)), dtype=np.float64)
    trees = model._fitted.trees
    # Classification trees have no exact form, and may have a large weight in the outputs.
    if subject.forms and (trees is None or not trees.has_labels):
        # Other parts without an exact form are left out: corrections change the outputs only slightly.
        work = sum(form.n_terms for form in subject.forms) * _BACKGROUND * p * p
        n_rows = min(_MOST_ROWS, int(_WORK // work), len(rows) // 2)
        if n_rows < _LEAST_ROWS:
            return None
        background = rows[n_rows : n_rows + _BACKGROUND]
        values = sum(form.shapley(rows[:n_rows], background, subject.players, subject.n_jobs) for form in subject.forms)
    else:
        n_rows = min(_MOST_ROWS, _MIXED // (4 * _SAMPLED * p), len(rows) // 2)
        if n_rows < _LEAST_ROWS:
            return None
        background = rows[n_rows : n_rows + _SAMPLED]
        values, _ = sampled_values(subject.outputs, rows[:n_rows], background, subject.players, 0)
    return np.abs(values).mean(axis=(0, 2))
