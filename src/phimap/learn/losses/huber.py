"""Huber's loss: squares of small errors, absolute values of large ones."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from phimap.learn.losses.losses import Loss
from phimap.learn.solver import LinearSolution

#: Error, in units of the scale, beyond which its absolute value enters the loss. This is the default of scikit-learn's
#: `HuberRegressor`. For normal errors the estimate needs 5 % more rows than least squares.
EPSILON = 1.35
# Value at which held-out errors are cut off. Otherwise a few very large errors would dominate the choice of alpha.
_LARGEST = 10.0


@dataclass(frozen=True)
class Huber(Loss):
    """Half the square of errors up to 1.35, continued by its tangents beyond, summed over targets.

    Scores and errors are in the units ``(y - centre) / scale`` of the targets y, which are numbers.

    Attributes
    ----------
    centre, scale : ndarray of shape (t,) or float
    """

    typical = 1.0

    centre: np.ndarray | float = 0.0
    scale: np.ndarray | float = 1.0

    def errors(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Errors (r, t) of the scores, in the units of the loss."""
        return scores - (targets - self.centre) / self.scale

    def values(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return _values(np.abs(self.errors(scores, targets)))

    def slopes(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return np.clip(self.errors(scores, targets), -EPSILON, EPSILON)

    def curvatures(self, slopes: np.ndarray) -> np.ndarray:
        return (np.abs(slopes) < EPSILON).astype(np.float64)

    def held_out_values(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return _values(np.minimum(np.abs(self.errors(scores, targets)), _LARGEST))

    def restore(self, solution: LinearSolution) -> LinearSolution:
        """Convert a solution to the units of the targets."""
        assert solution.centre is not None
        coef, intercept = solution.coef * self.scale, solution.intercept * self.scale + self.centre
        centre, held_out = solution.centre * self.scale + self.centre, solution.held_out
        if held_out is not None:
            held_out = replace(held_out, predictions=held_out.predictions * self.scale + self.centre)
        return replace(solution, coef=coef, intercept=intercept, centre=centre, held_out=held_out, scale=self.scale)


def _values(errors: np.ndarray) -> np.ndarray:
    """Losses (r,) of absolute errors (r, t)."""
    small = np.minimum(errors, EPSILON)
    return (small * (errors - 0.5 * small)).sum(axis=1)


def scale_step(errors: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Sums (3, t) over rows with errors (r, t), for `scale_ratio`: squares of small errors, large errors, rows."""
    large = np.abs(errors) >= EPSILON
    return np.stack(
        [weights @ np.where(large, 0.0, np.square(errors)), weights @ large, np.full(large.shape[1], weights.sum())]
    )


def scale_ratio(sums: np.ndarray) -> np.ndarray:
    """Ratio (t,) of the next scale to the scale by which the errors were divided; 1 once the scale has converged.

    The scale makes the mean of min(r^2, 1.35^2) one, where r is an error over the scale, as in `HuberRegressor`.
    """
    squares, large, total = sums
    # The result is exact if no error crosses the threshold. The bound applies if the scale is far too small.
    small = np.maximum(total - EPSILON**2 * large, 0.05 * total)
    return np.clip(np.sqrt(squares / small), np.where(large > 0.5 * total, 2.0, 0.125), 8.0)
