"""Losses of scores: their values, their slopes, and the curvatures that scale the steps of a solver."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, log_expit, log_softmax, logit

from phimap.learn.solver import LinearSolution


class Loss(ABC):
    """A convex loss of the scores (r, t) of rows with targets.

    Targets of classification are signs: (r, 1) for two classes, else (r, t) with 1 for the class of the row and -1 for
    the other classes. Targets of regression are numbers (r, t).
    """

    #: Upper bound of the mean loss. The accuracy of a solution is relative to its mean loss or to this bound, whichever
    #: is smaller.
    typical: float = np.inf
    #: Typical second derivative of the loss. Values of alpha are tried in this unit.
    stiffness: float = 1.0
    #: Mean loss that is negligible. The accuracy of a solution with a smaller mean loss is relative to this number.
    negligible: float = 0.0

    @abstractmethod
    def values(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Losses (r,)."""

    @abstractmethod
    def slopes(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Derivatives of the loss with respect to the scores (r, t)."""

    @abstractmethod
    def curvatures(self, scores: np.ndarray, targets: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        """Second derivatives with respect to each score (r, t), given the first derivatives `slopes`."""

    def first_intercept(self, targets: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """An intercept (t,) close to the intercept of least loss of a model without features."""
        return np.zeros(targets.shape[1])

    def held_out_values(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Losses (r,) of held-out rows, by which alpha is chosen."""
        return self.values(scores, targets)

    def restore(self, solution: LinearSolution) -> LinearSolution:
        """Convert a solution from the units of the scores to the units of the encoded targets."""
        return solution


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

    def first_intercept(self, targets: np.ndarray, weights: np.ndarray) -> np.ndarray:
        shares = weights @ (targets > 0) / weights.sum()
        # A class without rows is treated as a class with half a row.
        shares = np.clip(shares, 0.5 / len(targets), 1 - 0.5 / len(targets))
        # Adding a number to all scores does not change the loss. Their mean is set to 0, as in a minimisation that
        # starts at zero.
        return logit(shares) if len(shares) == 1 else np.log(shares) - np.log(shares).mean()

    def curvatures(self, scores: np.ndarray, targets: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        # A slope is the probability of a class, or minus the probability of all other classes.
        return np.abs(slopes) * (1 - np.abs(slopes))


def log_probabilities(scores: np.ndarray) -> np.ndarray:
    """Logarithms of the class probabilities (r, classes) for scores (r, 1) or (r, classes)."""
    if scores.shape[1] == 1:
        return np.hstack([log_expit(-scores), log_expit(scores)])
    return log_softmax(scores, axis=1)


class Squared(Loss):
    """Half of the squared errors, summed over targets."""

    def values(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return 0.5 * np.square(scores - targets).sum(axis=1)

    def slopes(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return scores - targets

    def curvatures(self, scores: np.ndarray, targets: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        return np.ones_like(slopes)


#: Width of the rounded corner. For margins below 1 - CORNER the loss is the hinge loss minus a constant.
CORNER = 0.5


class Hinge(Loss):
    """The hinge loss with a quadratic corner, summed over scores: each class against the rest.

    The margin is ``target * score``, with target -1 or 1. With q = max(1 - margin, 0) the loss is
    ``q^2 / (2 CORNER)`` up to q = CORNER, and ``q - CORNER / 2`` beyond.
    """

    def values(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        lack = np.maximum(1.0 - targets * scores, 0.0)
        rounded = np.minimum(lack, CORNER)
        return (rounded**2 / (2 * CORNER) + lack - rounded).sum(axis=1)

    def slopes(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return -targets * np.clip((1.0 - targets * scores) / CORNER, 0.0, 1.0)

    def curvatures(self, scores: np.ndarray, targets: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        steepness = np.abs(slopes)
        return ((steepness > 0) & (steepness < 1)) / CORNER


class SquaredHinge(Loss):
    """``max(1 - target * score, 0)^2`` with target -1 or 1, summed over scores: each class against the rest."""

    def values(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return np.square(np.maximum(1.0 - targets * scores, 0.0)).sum(axis=1)

    def slopes(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return -2.0 * targets * np.maximum(1.0 - targets * scores, 0.0)

    def curvatures(self, scores: np.ndarray, targets: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        return 2.0 * (slopes != 0)


#: Error, in units of the scale, beyond which its absolute value enters the loss. This is the default of scikit-learn's
#: `HuberRegressor`. For normal errors the estimate needs 5 % more rows than least squares.
EPSILON = 1.35
#: Held-out errors are cut off at this value. Otherwise a few very large errors would dominate the choice of alpha.
LARGEST = 10.0


@dataclass(frozen=True)
class ScaledErrors(Loss):
    """A loss of errors in the units ``(y - centre) / scale`` of the targets y, which are numbers.

    Attributes
    ----------
    centre, scale : ndarray of shape (t,) or float
        Number that is subtracted from a target, and number by which the difference is divided.
    """

    typical = 1.0

    centre: np.ndarray | float = 0.0
    scale: np.ndarray | float = 1.0

    def errors(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Errors (r, t) of the scores, in the units of the loss."""
        return scores - (targets - self.centre) / self.scale

    def restore(self, solution: LinearSolution) -> LinearSolution:
        """Convert a solution to the units of the targets."""
        assert solution.centre is not None
        coef, intercept = solution.coef * self.scale, solution.intercept * self.scale + self.centre
        centre, held_out = solution.centre * self.scale + self.centre, solution.held_out
        if held_out is not None:
            held_out = replace(held_out, predictions=held_out.predictions * self.scale + self.centre)
        return replace(solution, coef=coef, intercept=intercept, centre=centre, held_out=held_out, scale=self.scale)


class Huber(ScaledErrors):
    """Huber's loss, summed over targets: half the square of errors up to 1.35, and its tangents for larger errors."""

    def values(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return _values(np.abs(self.errors(scores, targets)))

    def slopes(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return np.clip(self.errors(scores, targets), -EPSILON, EPSILON)

    def curvatures(self, scores: np.ndarray, targets: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        return (np.abs(slopes) < EPSILON).astype(np.float64)

    def held_out_values(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return _values(np.minimum(np.abs(self.errors(scores, targets)), LARGEST))


def _values(errors: np.ndarray) -> np.ndarray:
    """Losses (r,) of absolute errors (r, t)."""
    small = np.minimum(errors, EPSILON)
    return (small * (errors - 0.5 * small)).sum(axis=1)


def scale_step(errors: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Sums (3, t) for `scale_ratio`: squares of small errors, the number of large errors, and the number of rows."""
    large = np.abs(errors) >= EPSILON
    return np.stack(
        [weights @ np.where(large, 0.0, np.square(errors)), weights @ large, np.full(large.shape[1], weights.sum())]
    )


def scale_ratio(sums: np.ndarray) -> np.ndarray:
    """Ratio (t,) of the next scale to the scale by which the errors were divided; 1 once the scale has converged.

    The scale makes the mean of min(r^2, 1.35^2) one, where r is an error over the scale, as in `HuberRegressor`.
    """
    squares, large, total = sums
    # The ratio is exact if no error crosses the threshold. It is bounded, because the scale may be far too small.
    small = np.maximum(total - EPSILON**2 * large, 0.05 * total)
    return np.clip(np.sqrt(squares / small), np.where(large > 0.5 * total, 2.0, 0.125), 8.0)
