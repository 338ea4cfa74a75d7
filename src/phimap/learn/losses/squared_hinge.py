"""The squared hinge loss."""

from __future__ import annotations

import numpy as np

from phimap.learn.losses.base import Loss


class SquaredHinge(Loss):
    """``max(1 - margin, 0)^2``, summed over scores: each class against the rest."""

    def values(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return np.square(np.maximum(1.0 - targets * scores, 0.0)).sum(axis=1)

    def slopes(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return -2.0 * targets * np.maximum(1.0 - targets * scores, 0.0)

    def curvatures(self, slopes: np.ndarray) -> np.ndarray:
        return 2.0 * (slopes != 0)
