"""The uncertainty of predictions for held-out rows: intervals, standard deviations and probabilities."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.base import is_classifier

from phimap.learn.extrapolation import OutsideWarning

# Coverages of the intervals for which the share of true values is measured. The drawn intervals have the coverage
# `_DRAWN`.
_COVERAGES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
_DRAWN = 0.9
# Largest number of rows whose intervals are shown, and largest number of rows whose probabilities are shown. A share of
# 1,000 rows has a standard error of at most 1.6 percentage points. Rare classes need more rows.
_MOST_ROWS, _MOST_LABELLED = 1000, 20_000
# Largest number of features for which standard deviations are computed. They need a factorisation of this order.
_MOST_FEATURES = 4096


@dataclass(frozen=True)
class HeldOutIntervals:
    """Predictions of r held-out rows with their intervals.

    Attributes
    ----------
    true, predicted : ndarray of shape (r,)
        Targets and predictions.
    bounds : ndarray of shape (r, 2)
        Lower and upper bounds of the intervals of the coverage `drawn`.
    drawn : float
        Coverage of the intervals in `bounds`.
    coverages, shares : ndarray of shape (k,)
        Coverages, and the shares of the true values that lie within the intervals of each coverage.
    deviations : ndarray of shape (r,) or None
        Standard deviations; None if the model does not provide them, or if they would take too long.
    """

    true: np.ndarray
    predicted: np.ndarray
    bounds: np.ndarray
    drawn: float
    coverages: np.ndarray
    shares: np.ndarray
    deviations: np.ndarray | None

    def shares_of_deviations(self) -> np.ndarray | None:
        """Shares (k,) of the true values within normal intervals of the coverages; None without deviations."""
        if self.deviations is None:
            return None
        reach = self.deviations[:, None] * ndtri((1 + self.coverages) / 2)
        return (np.abs(self.true - self.predicted)[:, None] <= reach).mean(axis=0)


@dataclass(frozen=True)
class HeldOutProbabilities:
    """Classes of r held-out rows with their probabilities.

    Attributes
    ----------
    true : ndarray of shape (r,)
        Labels. Rows of classes that the model cannot predict are left out.
    classes : ndarray of shape (c,)
        Labels of the classes that the model predicts.
    probabilities : ndarray of shape (r, c)
        Probability of each class for each row.
    """

    true: np.ndarray
    classes: np.ndarray
    probabilities: np.ndarray

    def shown_class(self) -> tuple[Any, np.ndarray, np.ndarray] | None:
        """The rarer of two classes, a mask of its rows, and its probabilities; None unless two classes have rows."""
        if len(self.classes) != 2:
            return None
        counts = [int((self.true == label).sum()) for label in self.classes]
        place = int(counts[1] <= counts[0])
        if min(counts) == 0:
            return None
        return self.classes[place], self.true == self.classes[place], self.probabilities[:, place]

    def named_class(self) -> tuple[np.ndarray, np.ndarray]:
        """Whether the most probable class of each row (r,) is right, and the probability (r,) of this class."""
        named = self.probabilities.argmax(axis=1)
        return self.classes[named] == self.true, self.probabilities.max(axis=1)


def certainty(
    model: Any, held_out: Iterable[tuple[np.ndarray, np.ndarray]]
) -> HeldOutIntervals | HeldOutProbabilities | None:
    """Return the intervals or the probabilities of held-out rows.

    Parameters
    ----------
    model : KernelRegressor or KernelClassifier
        Fitted learner of one target.
    held_out : iterable of (X, y)
        Batches of held-out rows (r, d), encoded if the model encodes frames, and targets. Only the first rows are used:
        1,000 for intervals, 20,000 for probabilities.

    Returns
    -------
    HeldOutIntervals or HeldOutProbabilities or None
        None if the model has neither.

    Notes
    -----
    **Cost.** For intervals, seven predictions of 1,000 rows; for probabilities, one prediction of 20,000 rows. The
    intervals come with standard deviations if the model has at most 4,096 features, was not solved in passes, and the
    byte budget suffices. The notes of `KernelRegressor.predict` state what standard deviations cost.
    """
    with warnings.catch_warnings():
        # The scores of the same rows have already caused this warning.
        warnings.simplefilter("ignore", OutsideWarning)
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        return _probabilities(model, held_out) if is_classifier(model) else _intervals(model, held_out)


def _intervals(model: Any, held_out: Iterable[tuple[np.ndarray, np.ndarray]]) -> HeldOutIntervals | None:
    if model.conformal_ is None:
        return None
    # With few conformal rows, intervals of large coverage are infinite.
    coverages = np.array([one for one in _COVERAGES if model.conformal_.reaches(one)])
    if not coverages.size:
        return None
    parts, with_deviations = [], model.coef_.size <= _MOST_FEATURES
    for X, y in first_rows(held_out, _MOST_ROWS):
        with_deviations = with_deviations and _has_deviations(model, X[:1])
        bounds = np.stack([model.predict_interval(X, one).reshape(-1, 2) for one in coverages])
        predicted, deviations = model.predict(X, return_std=True) if with_deviations else (model.predict(X), y)
        parts.append((y, predicted.reshape(-1), deviations.reshape(-1), bounds))
    if not parts:
        return None
    true, predicted, deviations = (np.concatenate([part[k] for part in parts]) for k in range(3))
    bounds = np.concatenate([part[3] for part in parts], axis=1)
    within = (bounds[:, :, 0] <= true) & (true <= bounds[:, :, 1])
    place = int(np.abs(coverages - _DRAWN).argmin())
    return HeldOutIntervals(
        true,
        predicted,
        bounds[place],
        float(coverages[place]),
        coverages,
        within.mean(axis=1),
        deviations if with_deviations else None,
    )


def _has_deviations(model: Any, X: np.ndarray) -> bool:
    """Whether the model gives standard deviations for the rows `X`.

    It does not if it was solved without sums (ValueError), or if the byte budget is too small (MemoryError).
    """
    try:
        model.predict(X, return_std=True)
    except (MemoryError, ValueError):
        return False
    return True


def _probabilities(model: Any, held_out: Iterable[tuple[np.ndarray, np.ndarray]]) -> HeldOutProbabilities | None:
    # The probabilities of the logistic loss need no calibration.
    if model.calibration_ is None and model.loss_ != "logistic":
        return None
    parts = []
    for X, y in first_rows(held_out, _MOST_LABELLED):
        known = np.isin(y, model.classes_)
        parts.append((y[known], model.predict_proba(X)[known]))
    true = np.concatenate([labels for labels, _ in parts]) if parts else np.empty(0)
    if not true.size:
        return None
    return HeldOutProbabilities(true, model.classes_, np.concatenate([shares for _, shares in parts]))


def first_rows(held_out: Iterable[tuple[np.ndarray, np.ndarray]], most: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield batches of the first `most` rows."""
    for X, y in held_out:
        yield X[:most], y[:most]
        most -= len(y)
        if most <= 0:
            return
