"""Losses of scores: values, slopes and the curvature that scales a solver's first step."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from scipy.special import expit, log_softmax


class Loss(ABC):
    """A convex loss of the scores (r, t) of rows whose classes are known.

    Targets are signs: (r, 1) for two classes, else (r, t) with 1 for the class of the row and -1 for the others.
    """

    #: The name under which learners take it.
    name: str

    @abstractmethod
    def values(self, scores: np.ndarray, signs: np.ndarray) -> np.ndarray:
        """Losses (r,)."""

    @abstractmethod
    def slopes(self, scores: np.ndarray, signs: np.ndarray) -> np.ndarray:
        """Derivatives of the loss by the scores (r, t)."""

    @abstractmethod
    def curvature(self, n_scores: int) -> float:
        """The mean second derivative by a score where all scores are 0."""


class Logistic(Loss):
    """Minus the logarithm of the probability of the class: binomial for one score, multinomial for several."""

    name = "logistic"

    def values(self, scores: np.ndarray, signs: np.ndarray) -> np.ndarray:
        if scores.shape[1] == 1:
            return np.logaddexp(0.0, -signs[:, 0] * scores[:, 0])
        return -log_softmax(scores, axis=1)[signs > 0]

    def slopes(self, scores: np.ndarray, signs: np.ndarray) -> np.ndarray:
        if scores.shape[1] == 1:
            return -signs * expit(-signs * scores)
        return np.exp(log_softmax(scores, axis=1)) - (signs > 0)

    def curvature(self, n_scores: int) -> float:
        return 0.25 if n_scores == 1 else (n_scores - 1) / n_scores**2


class SquaredHinge(Loss):
    """Squares of what the margins lack of 1: for several scores each class against the others."""

    name = "squared_hinge"

    def values(self, scores: np.ndarray, signs: np.ndarray) -> np.ndarray:
        return np.square(np.maximum(1.0 - signs * scores, 0.0)).sum(axis=1)

    def slopes(self, scores: np.ndarray, signs: np.ndarray) -> np.ndarray:
        return -2.0 * signs * np.maximum(1.0 - signs * scores, 0.0)

    def curvature(self, n_scores: int) -> float:
        return 2.0


#: The losses by name.
LOSSES: dict[str, Loss] = {loss.name: loss for loss in (Logistic(), SquaredHinge())}
