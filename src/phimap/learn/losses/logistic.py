"""The logistic loss, binomial or multinomial, and its probabilities."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, log_expit, log_softmax

from phimap.learn.losses.base import Loss


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
