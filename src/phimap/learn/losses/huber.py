"""Huber's loss: squares of small errors, absolute values of large ones."""

from __future__ import annotations

import numpy as np

from phimap.learn.losses.base import Loss

#: The error, in units of the scale, from which on it counts by its absolute value: the default of scikit-learn's
#: `HuberRegressor`. For normal errors the estimate needs 5 % more rows than least squares do.
EPSILON = 1.35
# Errors beyond this judge no solution worse: a few targets far away would drown what others tell.
_FAR = 10.0


class Huber(Loss):
    """Half the square of an error up to 1.35, and its tangent beyond, summed over targets: numbers, no signs."""

    typical = 1.0

    def values(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return _losses(np.abs(scores - targets))

    def slopes(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return np.clip(scores - targets, -EPSILON, EPSILON)

    def curvatures(self, slopes: np.ndarray) -> np.ndarray:
        return (np.abs(slopes) < EPSILON).astype(np.float64)

    def judged(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return _losses(np.minimum(np.abs(scores - targets), _FAR))


def _losses(errors: np.ndarray) -> np.ndarray:
    """Losses (r,) of absolute errors (r, t)."""
    small = np.minimum(errors, EPSILON)
    return (small * (errors - 0.5 * small)).sum(axis=1)


def scale_step(errors: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """What each of some rows (r, t) adds to the sums (3, t) by which `scale_ratio` goes on: squares, far rows, rows."""
    far = np.abs(errors) >= EPSILON
    return np.stack(
        [weights @ np.where(far, 0.0, np.square(errors)), weights @ far, np.full(far.shape[1], weights.sum())]
    )


def scale_ratio(sums: np.ndarray) -> np.ndarray:
    """The next scale (t,) over that in whose units the errors were; 1 where they have the scale 1.

    The scale makes the mean of min(r^2, 1.35^2) one, r being errors over it, as that of `HuberRegressor` does.
    """
    squares, far, total = sums
    # Exact where no row crosses the threshold. More far rows than this are those of a scale that is far too small.
    left = np.maximum(total - EPSILON**2 * far, 0.05 * total)
    return np.clip(np.sqrt(squares / left), np.where(far > 0.5 * total, 2.0, 0.125), 8.0)
