"""What a solver asks of a loss of scores: values, slopes and the curvature that scales its steps."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np


class Loss(ABC):
    """A convex loss of the scores (r, t) of rows whose targets are known.

    Targets of classification are signs: (r, 1) for two classes, else (r, t) with 1 for the class of the row and -1 for
    the others. Those of regression are numbers (r, t).
    """

    #: The mean loss of a row, at the most, against which the accuracy of a solution is measured.
    typical: float = np.inf

    @abstractmethod
    def values(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Losses (r,)."""

    @abstractmethod
    def slopes(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Derivatives of the loss by the scores (r, t)."""

    @abstractmethod
    def curvatures(self, slopes: np.ndarray) -> np.ndarray:
        """Second derivatives by each of the scores (r, t), from the first."""

    def judged(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """What rows (r,) that took no part in a solution say against it."""
        return self.values(scores, targets)
