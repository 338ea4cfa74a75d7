"""The hinge loss, its corner rounded."""

from __future__ import annotations

import numpy as np

from phimap.learn.losses.base import Loss

#: Margins over which the corner is rounded: below 1 minus it the loss is the hinge's but for a constant.
CORNER = 0.5


class Hinge(Loss):
    """What the margins lack of 1, squared within the corner: for several scores each class against the others.

    ``q^2 / (2 CORNER)`` of the lack q up to the corner, ``q - CORNER / 2`` beyond.
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
