"""The criterion of held-out predictions that the parameter `scoring` names."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import get_scorer, get_scorer_names

from phimap.learn.calibration import Calibration
from phimap.learn.losses.losses import log_probabilities
from phimap.learn.solver import HeldOutScores
from phimap.learn.targets.base import Targets

# Numbers and predictions at which every score of numbers exists, and no score of classes.
_NUMBERS, _NEAR = np.array([0.5, 1.5, 2.25]), np.array([0.75, 1.5, 2.0])
# Scorers that messages offer, for numbers and for classes.
_COMMON = {False: ("neg_mean_absolute_error", "neg_root_mean_squared_log_error"), True: ("roc_auc", "accuracy")}
# The largest score of scorers whose name does not begin with "neg_". Scorers without a largest score are refused.
_BEST, _UNBOUNDED = 1.0, ("positive_likelihood_ratio",)


@dataclass(frozen=True)
class Criterion:
    """The error of held-out predictions by a scorer of scikit-learn: the smaller, the better.

    Attributes
    ----------
    scoring : str
        Name of the scorer.
    targets : Targets
        Targets that decode the predictions.

    Notes
    -----
    The error is minus the score if the name begins with ``neg_``, and 1 minus the score otherwise. Errors of numbers on
    a log scale, and deviances, are not defined for predictions of 0 or less, so predictions are raised to the smallest
    target.
    """

    scoring: str
    targets: Targets

    @classmethod
    def of(cls, scoring: str | None, targets: Targets) -> Criterion | None:
        """Return the criterion; None without a scorer."""
        return None if scoring is None else cls(scoring, targets)

    def error(self, held_out: HeldOutScores, *, loss: str = "squared") -> float:
        """Return the error of predictions in encoded form; `loss` is the loss of their model."""
        known, y = self._known(held_out, loss)
        return _error(self.scoring, known, y, held_out.weights)

    def _known(self, held_out: HeldOutScores, loss: str) -> tuple[Any, np.ndarray]:
        """Return an estimator that makes these predictions, and the targets."""
        outputs, Y = held_out.predictions.astype(np.float64), held_out.targets
        if not self.targets.has_labels:
            units = self.targets.units
            outputs, Y = (one if units is None else units.undo(one) for one in (outputs, Y))
            if "log" in self.scoring or "deviance" in self.scoring:
                outputs = np.maximum(outputs, Y.min(axis=0))
            return _KnownNumbers(self.targets.decode(outputs)), self.targets.decode(Y)
        places = (Y[:, 0] > 0).astype(np.intp) if Y.shape[1] == 1 else Y.argmax(axis=1)
        if loss == "logistic":
            logarithms = log_probabilities(outputs)
        else:
            calibrated = HeldOutScores(outputs, Y, held_out.weights)
            logarithms = Calibration.of(calibrated).log_probabilities(outputs)
        labels = self.targets.known  # pyright: ignore[reportAttributeAccessIssue]
        return _KnownClasses(labels, outputs, np.exp(logarithms)), labels[places]


class _KnownNumbers(RegressorMixin, BaseEstimator):
    """An estimator of known predictions."""

    def __init__(self, predictions: np.ndarray):
        self.predictions = predictions

    def predict(self, X: Any) -> np.ndarray:
        return self.predictions


class _KnownClasses(ClassifierMixin, BaseEstimator):
    """A classifier of known scores (n, t) and probabilities (n, n_classes)."""

    def __init__(self, classes: np.ndarray, scores: np.ndarray, probabilities: np.ndarray):
        self.classes_, self.scores, self.probabilities = classes, scores, probabilities

    def predict(self, X: Any) -> np.ndarray:
        return self.classes_[self.probabilities.argmax(axis=1)]

    def decision_function(self, X: Any) -> np.ndarray:
        return self.scores[:, 0] if self.scores.shape[1] == 1 else self.scores

    def predict_proba(self, X: Any) -> np.ndarray:
        return self.probabilities


def _error(scoring: str, known: Any, y: np.ndarray, weights: np.ndarray | None) -> float:
    counted = {} if weights is None or (weights == weights[0]).all() else {"sample_weight": weights}
    with warnings.catch_warnings():
        # A constant prediction has no precision, for example; scikit-learn then warns and takes 0.
        warnings.simplefilter("ignore")
        try:
            score = float(get_scorer(scoring)(known, np.zeros((len(y), 1)), y, **counted))
        except (AttributeError, TypeError, ValueError) as error:
            raise ValueError(
                f"`scoring` must be a scorer of these targets, got {scoring!r}, which fails: {str(error).strip()[:200]}"
            ) from error
    if not np.isfinite(score):
        return np.inf
    return -score if scoring.startswith("neg_") else max(_BEST - score, 0.0)


def check_scoring(scoring: Any, *, labels: bool) -> str | None:
    """Return the name of a scorer of classes or of numbers, or None; raise ValueError for another value."""
    if scoring is None:
        return None
    kind = "classes" if labels else "numbers"
    names = _names_of(labels)
    if not isinstance(scoring, str) or scoring not in names:
        some = ", ".join(map(repr, _COMMON[labels]))
        raise ValueError(
            f"`scoring` must be None or the name of a scikit-learn scorer of {kind}, got {scoring!r}. Use for "
            f"example {some}."
        )
    return scoring


@cache
def _names_of(labels: bool) -> list[str]:
    """Names of the scorers of classes, or of numbers."""

    def scores_numbers(name: str) -> bool:
        try:
            return np.isfinite(_error(name, _KnownNumbers(_NEAR), _NUMBERS, None))
        except ValueError:
            return False

    # Scorers of clusters compare partitions of the rows.
    of_clusters = [name for name in get_scorer_names() if name.endswith("_score") and not name.startswith("d2_")]
    others = (name for name in get_scorer_names() if name not in (*of_clusters, *_UNBOUNDED))
    return [name for name in others if scores_numbers(name) != labels]
