"""What a solver asks of a loss of scores: values, slopes and the curvature that scales its steps."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np


class Loss(ABC):
    """A convex loss of the scores (r, t) of rows whose classes are known.

    Targets are signs: (r, 1) for two classes, else (r, t) with 1 for the class of the row and -1 for the others.
    """

    @abstractmethod
    def values(self, scores: np.ndarray, signs: np.ndarray) -> np.ndarray:
        """Losses (r,)."""

    @abstractmethod
    def slopes(self, scores: np.ndarray, signs: np.ndarray) -> np.ndarray:
        """Derivatives of the loss by the scores (r, t)."""

    @abstractmethod
    def curvatures(self, slopes: np.ndarray) -> np.ndarray:
        """Second derivatives by each of the scores (r, t), from the first."""
