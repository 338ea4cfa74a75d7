"""Partial dependence on one or two columns: the mean prediction over rows in which the columns are set to a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from phimap.learn.corrections.residuals import Outputs
from phimap.ops import ops_for

# Number of grid values of a column, for a single column and for a pair of columns.
_VALUES, _VALUES_OF_PAIR = 20, 10
# Quantiles between which the grid lies. The tails are omitted because they contain few rows.
_TAILS = (0.05, 0.95)
# Minimum and maximum number of rows in the mean, and maximum total number of feature values. This number of values
# takes about a second.
_LEAST_ROWS, _MOST_ROWS = 30, 200
_MOST_FEATURES = 2**25
# Indices of one or two columns, and a grid of values for each column.
_Asked = tuple[tuple[int, ...], tuple[np.ndarray, ...]]


@dataclass(frozen=True)
class Dependence:
    """Mean prediction as a function of the values of one or two columns.

    Attributes
    ----------
    names : tuple of str
        Names of the columns.
    grids : tuple of ndarray
        Increasing values of each column.
    mean : ndarray of shape (k,) or (k, l)
        Mean prediction at each point of the grid.
    """

    names: tuple[str, ...]
    grids: tuple[np.ndarray, ...]
    mean: np.ndarray


@dataclass(frozen=True)
class Dependences:
    """Result of `dependences`.

    Attributes
    ----------
    output : str or None
        The class whose probability is shown; None for regression.
    singles : list of Dependence
        Dependence on each column alone.
    pair : Dependence or None
        Dependence on both columns together; None if there is only one column.
    n_rows : int
        Number of rows over which the mean is taken.
    """

    output: str | None
    singles: list[Dependence]
    pair: Dependence | None
    n_rows: int


def dependences(model: Any, X: np.ndarray, places: Sequence[int], names: Sequence[str]) -> Dependences:
    """Compute the partial dependence of a learner on each of one or two columns, and on both together.

    Parameters
    ----------
    model : KernelRegressor or KernelClassifier
        Fitted learner; the probabilities of a classifier come from its `calibration_`.
    X : ndarray of shape (n, d)
        Rows in random order; only the first rows enter the means.
    places : sequence of int
        Indices of one or two columns.
    names : sequence of str
        Names of these columns.

    Returns
    -------
    Dependences

    Notes
    -----
    Of several quantiles, the middle one is shown. With more than two classes, the probability of one class is shown:
    the class whose probability varies most along the columns. If the columns depend on each other, the mean includes
    combinations of values that do not occur in the data.

    **Error.** Means over a sample of rows have a standard error: the standard deviation between the curves of single
    rows, divided by the square root of the number of rows.

    **Differs from the source in** the grid, which omits the tails.

    **Cost.** The cost of the outputs at 140 points for each row of the sample; wider models use fewer rows.

    References
    ----------
    Friedman (2001), *Greedy function approximation: a gradient boosting machine*, Section 8.2.
    """
    n_points = len(places) * _VALUES + (_VALUES_OF_PAIR**2 if len(places) == 2 else 0)
    width = model.feature_map_.record_.n_components
    rows = X[: int(np.clip(_MOST_FEATURES // (width * n_points), _LEAST_ROWS, _MOST_ROWS))]
    asked: list[_Asked] = [((place,), (_grid(X[:, place], _VALUES),)) for place in places]
    if len(places) == 2:
        asked.append((tuple(places), tuple(_grid(X[:, place], _VALUES_OF_PAIR) for place in places)))
    means = _means(model, rows, asked)
    # Of several quantiles, the middle one is shown.
    output, shown = None, means[0].shape[1] // 2
    if is_classifier(model):
        shown = int(np.argmax(sum(np.ptp(mean, axis=0) for mean in means[: len(places)])))
        # With two classes both probabilities vary equally, and the probability of the second class is shown.
        shown = 1 if len(model.classes_) == 2 else shown
        output = str(model.classes_[shown])
    singles = [
        Dependence((name,), grids, mean[:, shown]) for name, (_, grids), mean in zip(names, asked, means, strict=False)
    ]
    pair = None
    if len(places) == 2:
        grids = asked[-1][1]
        pair = Dependence(tuple(names), grids, means[-1][:, shown].reshape(len(grids[0]), len(grids[1])))
    return Dependences(output, singles, pair, len(rows))


def _grid(values: np.ndarray, most: int) -> np.ndarray:
    """Return the distinct values of a column if there are at most `most`, else `most` equally spaced values."""
    distinct = np.unique(values)
    if distinct.size <= most:
        return distinct
    low, high = np.quantile(values, _TAILS)
    return np.linspace(low, high, most, dtype=values.dtype)


def _means(model: Any, rows: np.ndarray, asked: Sequence[_Asked]) -> list[np.ndarray]:
    """Return the mean outputs (k, t) at the k points of each grid.

    One call is used, because binding a map takes time.
    """
    blocks = []
    for columns, grids in asked:
        points = np.stack([axis.ravel() for axis in np.meshgrid(*grids, indexing="ij")], axis=1)
        block = np.tile(rows, (len(points), 1))
        block[:, columns] = np.repeat(points, len(rows), axis=0)
        blocks.append(block)
    outputs = _outputs(model, np.concatenate(blocks))
    means = outputs.reshape(-1, len(rows), outputs.shape[1]).mean(axis=1)
    return np.split(means, np.cumsum([len(block) // len(rows) for block in blocks])[:-1])


def _outputs(model: Any, X: np.ndarray) -> np.ndarray:
    """Return predictions (n, t) or probabilities (n, c) in float64, without forming features if the map allows this."""
    X = X.astype(np.float64)
    ops = ops_for(X)
    rows = model.scaling_.bind(ops).apply(ops, X)
    outputs = Outputs(model.feature_map_.record_, model.n_jobs)
    (scores,) = outputs.of_solutions(rows, [model.solution_])
    if model.corrections_ is not None:
        scores += model.corrections_.outputs(rows, model.n_jobs)
    scores = model._fitted.averaged(scores, X, model.n_jobs)
    if is_classifier(model):
        return np.exp(model.calibration_.log_probabilities(scores))
    return np.asarray(model._fitted.targets.decode(scores)).reshape(len(scores), -1)
