"""How the predictions depend on one column or on two: the mean over rows in which these are set to a value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from phimap.learn.corrections.residuals import Outputs
from phimap.ops import ops_for

# Values of a column, alone and in a pair.
_VALUES, _VALUES_OF_PAIR = 20, 10
# The tails, in which there are few rows, are left out.
_TAILS = (0.05, 0.95)
# Rows over which the mean is taken, at least and at most, and features formed in all: about a second of work.
_LEAST_ROWS, _MOST_ROWS = 30, 200
_MOST_FEATURES = 2**25
# Columns, and the grid of each.
_Asked = tuple[tuple[int, ...], tuple[np.ndarray, ...]]


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
        A classifier has probabilities from its `calibration_`.
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

    **Differs from the source in** the grid, which leaves out the tails.

    **Cost.** The outputs at 140 rows for each row of the sample, whose size falls with the width of the model.

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
    output, shown = None, 0
    if is_classifier(model):
        shown = int(np.argmax(sum(np.ptp(mean, axis=0) for mean in means[: len(places)])))
        # The probabilities of two classes move alike, and of these the second is told.
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
    """The distinct values of a column, or so many between its tails."""
    distinct = np.unique(values)
    if distinct.size <= most:
        return distinct
    low, high = np.quantile(values, _TAILS)
    return np.linspace(low, high, most, dtype=values.dtype)


def _means(model: Any, rows: np.ndarray, asked: Sequence[_Asked]) -> list[np.ndarray]:
    """Mean outputs (k, t) at the k points of each grid. The map is bound once: that has costs of its own."""
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
    """Predictions (n, 1), or probabilities (n, c), in float64 and without the features where the map knows how."""
    X = X.astype(np.float64)
    ops = ops_for(X)
    rows = model.scaling_.bind(ops).apply(ops, X)
    scores = Outputs((model.solution_,), model.feature_map_.record_, model.n_jobs)(rows)[0]
    if model.corrections_ is not None:
        scores += model.corrections_.outputs(rows, model.n_jobs)
    return np.exp(model.calibration_.log_probabilities(scores)) if is_classifier(model) else scores
