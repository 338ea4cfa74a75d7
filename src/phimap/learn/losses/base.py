"""Losses of scores: values, slopes and curvatures."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np


class Loss(ABC):
    """A convex loss of the scores (r, t) of rows with targets.

    Targets of classification are signs: (r, 1) for two classes, else (r, t) with 1 for the class of the row and -1 for
    the other classes. Targets of regression are numbers (r, t).
    """

    #: Upper bound of the mean loss against which the accuracy of a solution is measured.
    typical: float = np.inf

    @abstractmethod
    def values(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Losses (r,)."""

    @abstractmethod
    def slopes(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Derivatives of the loss with respect to the scores (r, t)."""

    @abstractmethod
    def curvatures(self, slopes: np.ndarray) -> np.ndarray:
        """Second derivatives with respect to each score (r, t), from the first derivatives."""

    def held_out_values(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Losses (r,) of held-out rows, by which alpha is chosen."""
        return self.values(scores, targets)
