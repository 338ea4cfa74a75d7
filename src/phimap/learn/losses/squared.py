"""Half of the squared error."""

from __future__ import annotations

import numpy as np

from phimap.learn.losses.base import Loss


class Squared(Loss):
    """Half of the squared errors, summed over targets."""

    def values(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return 0.5 * np.square(scores - targets).sum(axis=1)

    def slopes(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return scores - targets

    def curvatures(self, slopes: np.ndarray) -> np.ndarray:
        return np.ones_like(slopes)
