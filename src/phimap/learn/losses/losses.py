"""Losses of scores: their values, their slopes, and the curvature by which a solver scales its steps."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from scipy.special import expit, log_expit, log_softmax


class Loss(ABC):
    """A convex loss of the scores (r, t) of rows with targets.

    Targets of classification are signs: (r, 1) for two classes, else (r, t) with 1 for the class of the row and -1 for
    the other classes. Targets of regression are numbers (r, t).
    """

    #: Upper bound of the mean loss. The accuracy of a solution is relative to its mean loss or to this bound, whichever
    #: is smaller.
    typical: float = np.inf

    @abstractmethod
    def values(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Losses (r,)."""

    @abstractmethod
    def slopes(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Derivatives of the loss with respect to the scores (r, t)."""

    @abstractmethod
    def curvatures(self, slopes: np.ndarray) -> np.ndarray:
        """Second derivatives with respect to each score (r, t), computed from the first derivatives."""

    def held_out_values(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Losses (r,) of held-out rows, by which alpha is chosen."""
        return self.values(scores, targets)


class Logistic(Loss):
    """Negative log-likelihood of the class: binomial for one score, multinomial for several."""

    def values(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        if scores.shape[1] == 1:
            return -log_expit(targets[:, 0] * scores[:, 0])
        return -log_softmax(scores, axis=1)[targets > 0]

    def slopes(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        if scores.shape[1] == 1:
            return -targets * expit(-targets * scores)
        return np.exp(log_softmax(scores, axis=1)) - (targets > 0)

    def curvatures(self, slopes: np.ndarray) -> np.ndarray:
        # A slope is the probability of a class, or minus the probability of all other classes.
        return np.abs(slopes) * (1 - np.abs(slopes))


def log_probabilities(scores: np.ndarray) -> np.ndarray:
    """Logarithms of the class probabilities (r, classes) for scores (r, 1) or (r, classes)."""
    if scores.shape[1] == 1:
        return np.hstack([log_expit(-scores), log_expit(scores)])
    return log_softmax(scores, axis=1)


class Squared(Loss):
    """Half of the squared errors, summed over targets."""

    def values(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return 0.5 * np.square(scores - targets).sum(axis=1)

    def slopes(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return scores - targets

    def curvatures(self, slopes: np.ndarray) -> np.ndarray:
        return np.ones_like(slopes)


#: Width of the rounded corner. For margins below 1 - CORNER the loss is the hinge loss minus a constant.
CORNER = 0.5


class Hinge(Loss):
    """The hinge loss with a quadratic corner, summed over scores: each class against the rest.

    With q = max(1 - margin, 0) the loss is ``q^2 / (2 CORNER)`` up to q = CORNER, and ``q - CORNER / 2`` beyond.
    """

    def values(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        lack = np.maximum(1.0 - targets * scores, 0.0)
        rounded = np.minimum(lack, CORNER)
        return (rounded**2 / (2 * CORNER) + lack - rounded).sum(axis=1)

    def slopes(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return -targets * np.clip((1.0 - targets * scores) / CORNER, 0.0, 1.0)

    def curvatures(self, slopes: np.ndarray) -> np.ndarray:
        steepness = np.abs(slopes)
        return ((steepness > 0) & (steepness < 1)) / CORNER


class SquaredHinge(Loss):
    """``max(1 - margin, 0)^2``, summed over scores: each class against the rest."""

    def values(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return np.square(np.maximum(1.0 - targets * scores, 0.0)).sum(axis=1)

    def slopes(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return -2.0 * targets * np.maximum(1.0 - targets * scores, 0.0)

    def curvatures(self, slopes: np.ndarray) -> np.ndarray:
        return 2.0 * (slopes != 0)
