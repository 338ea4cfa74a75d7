"""Partial dependence: the mean prediction over rows in which one or two columns are set to given values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from phimap.learn.corrections.residuals import Outputs
from phimap.ops import ops_for
from phimap.report.axes import Axis

# Number of values of each column in the figure of a pair of columns.
_VALUES_OF_PAIR = 10
# Minimum and maximum number of rows over which predictions are averaged. Maximum number of feature values that are
# computed, which takes about a second.
_LEAST_ROWS, _MOST_ROWS = 30, 200
_MOST_FEATURES = 2**25
# Quantiles of the predictions of single rows between which the band lies.
_BAND = (0.1, 0.9)


@dataclass(frozen=True)
class Dependence:
    """Mean prediction as a function of the values of one or two columns.

    Attributes
    ----------
    axes : tuple of Axis
        Values of each column.
    mean : ndarray of shape (k,) or (k, l)
        Mean prediction at each value, or pair of values.
    band : ndarray of shape (2, k) or (2, k, l)
        Quantiles 0.1 and 0.9 of the predictions of single rows.
    """

    axes: tuple[Axis, ...]
    mean: np.ndarray
    band: np.ndarray

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(axis.name for axis in self.axes)

    @property
    def grids(self) -> tuple[np.ndarray, ...]:
        """Arrays of the values of each column."""
        return tuple(axis.values for axis in self.axes)


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
        Dependence on the first two columns of numbers or dates together; None without two such columns.
    n_rows : int
        Number of rows over which the mean is taken.
    """

    output: str | None
    singles: list[Dependence]
    pair: Dependence | None
    n_rows: int


def dependences(model: Any, X: np.ndarray, axes: Sequence[Axis]) -> Dependences:
    """Compute the partial dependence of a learner on each of some columns, and on two of them together.

    Parameters
    ----------
    model : KernelRegressor or KernelClassifier
        Fitted learner; the probabilities of a classifier come from its `calibration_`.
    X : ndarray of shape (n, d)
        Rows in random order; only the first rows enter the means.
    axes : sequence of Axis
        Values of the columns.

    Returns
    -------
    Dependences

    Notes
    -----
    If the model predicts several quantiles, the middle one is shown. With more than two classes, one class is shown:
    the class whose probability varies most along the columns. If the columns depend on each other, the mean includes
    combinations of values that do not occur in the data.

    **Error.** Means over a sample of rows have a standard error: the standard deviation between the curves of single
    rows, divided by the square root of the number of rows.

    **Differs from the source in** the values, which omit the tails.

    **Cost.** The cost of the outputs at up to some 200 points for each row of the sample; wider models use fewer rows.

    References
    ----------
    Friedman (2001), *Greedy function approximation: a gradient boosting machine*, Section 8.2.
    """
    ordered = [axis.thinned(_VALUES_OF_PAIR) for axis in axes if not axis.is_categories][:2]
    asked = [(axis,) for axis in axes] + [tuple(ordered)] * (len(ordered) == 2)
    n_points = sum(prod(len(axis.values) for axis in one) for one in asked)
    width = model.feature_map_.record_.n_components
    rows = X[: int(np.clip(_MOST_FEATURES // (width * n_points), _LEAST_ROWS, _MOST_ROWS))]
    found = _predictions(model, rows, asked)
    # Of several quantiles, the middle one is shown.
    output, shown = None, found[0].shape[2] // 2
    if is_classifier(model):
        shown = int(np.argmax(sum(np.ptp(one.mean(axis=1), axis=0) for one in found[: len(axes)])))
        # With two classes both probabilities vary equally, and the probability of the second class is shown.
        shown = 1 if len(model.classes_) == 2 else shown
        output = str(model.classes_[shown])
    drawn = []
    for one, outputs in zip(asked, found, strict=True):
        of_rows, shape = outputs[:, :, shown], [len(axis.values) for axis in one]
        band = np.quantile(of_rows, _BAND, axis=1).reshape(2, *shape)
        drawn.append(Dependence(one, of_rows.mean(axis=1).reshape(shape), band))
    return Dependences(output, drawn[: len(axes)], drawn[-1] if len(ordered) == 2 else None, len(rows))


def _predictions(model: Any, rows: np.ndarray, asked: Sequence[tuple[Axis, ...]]) -> list[np.ndarray]:
    """Return the outputs (k, r, t) of r rows at the k values, or pairs of values, of each of `asked`.

    One call is used, because binding a map takes time.
    """
    blocks = []
    for axes in asked:
        places = np.indices([len(axis.values) for axis in axes]).reshape(len(axes), -1)
        block = np.tile(rows, (places.shape[1], 1))
        for axis, chosen in zip(axes, places, strict=True):
            block[:, axis.columns] = np.repeat(axis.rows[chosen], len(rows), axis=0)
        blocks.append(block)
    outputs = _outputs(model, np.concatenate(blocks))
    outputs = outputs.reshape(-1, len(rows), outputs.shape[1])
    return np.split(outputs, np.cumsum([len(block) // len(rows) for block in blocks])[:-1])


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
