"""How the predictions depend on one column or on two: the mean over rows in which these are set to a value."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.inspection import partial_dependence

# Values of a column, alone and in a pair.
_VALUES, _VALUES_OF_PAIR = 20, 10
# The tails, in which there are few rows, are left out.
_PERCENTILES = (0.05, 0.95)
# Rows over which the mean is taken, at least and at most, and features formed in all: about a second of work.
_LEAST_ROWS, _MOST_ROWS = 30, 200
_MOST_FEATURES = 2**27


@dataclass(frozen=True)
class Dependence:
    """Mean prediction by the values of one column or of two.

    Attributes
    ----------
    names : tuple of str
        The columns.
    grids : tuple of ndarray
        Increasing values of each column.
    mean : ndarray of shape (k,) or (k, l)
    """

    names: tuple[str, ...]
    grids: tuple[np.ndarray, ...]
    mean: np.ndarray


@dataclass(frozen=True)
class Dependences:
    """What `dependences` finds.

    Attributes
    ----------
    output : str or None
        The class whose probability is meant; None for numbers.
    singles : list of Dependence
    pair : Dependence or None
        None for a single column.
    n_rows : int
        Rows over which the mean is taken.
    """

    output: str | None
    singles: list[Dependence]
    pair: Dependence | None
    n_rows: int


def dependences(model: Any, X: np.ndarray, places: Sequence[int], names: Sequence[str]) -> Dependences:
    """Partial dependence of a learner on one or two columns and on the pair of them.

    Parameters
    ----------
    model : KernelRegressor or KernelClassifier
    X : ndarray of shape (n, d)
        Rows in random order, of which the first are taken.
    places : sequence of int
        One column or two.
    names : sequence of str
        Their names.

    Returns
    -------
    Dependences

    Notes
    -----
    Of several classes the one is shown whose probability these columns move most. Where columns depend on each other
    the mean is also over rows that the data do not have.

    **Error.** That of a mean over a sample of rows: the spread of the curves of single rows, over the root of their
    number.

    **Cost.** The outputs at 140 rows for each row of the sample, whose size falls with the width of the model.

    References
    ----------
    Friedman (2001), *Greedy function approximation: a gradient boosting machine*, Section 8.2.
    """
    width = model.feature_map_.record_.n_components
    n_points = len(places) * _VALUES + _VALUES_OF_PAIR**2
    rows = X[: int(np.clip(_MOST_FEATURES // (width * n_points), _LEAST_ROWS, _MOST_ROWS))]

    def mean_by(columns: Sequence[int], n_values: int) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="X does not have valid feature names", category=UserWarning)
            found = partial_dependence(
                model, rows, columns, percentiles=_PERCENTILES, grid_resolution=n_values, method="brute", kind="average"
            )
        return tuple(found["grid_values"]), found["average"]

    singles = [mean_by([place], _VALUES) for place in places]
    output, shown = None, 0
    if is_classifier(model):
        shown = int(np.argmax(sum(np.ptp(mean, axis=1) for _, mean in singles)))
        # Of two classes only the second is told.
        output = str(model.classes_[1 if len(model.classes_) == 2 else shown])
    drawn = [Dependence((name,), grids, mean[shown]) for name, (grids, mean) in zip(names, singles, strict=True)]
    pair = None
    if len(places) == 2:
        grids, mean = mean_by(places, _VALUES_OF_PAIR)
        pair = Dependence(tuple(names), grids, mean[shown])
    return Dependences(output, drawn, pair, len(rows))
