"""The hinge loss with a rounded corner."""

from __future__ import annotations

import numpy as np

from phimap.learn.losses.base import Loss

#: Width of the rounded corner: for margins below 1 - CORNER the loss is the hinge loss minus a constant.
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
