"""Deviances of counts and of other positive numbers, whose mean is the exponential of the score."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import xlogy

from phimap.learn.losses.losses import Loss
from phimap.learn.losses.preparation import LossPreparation
from phimap.learn.losses.solver import LossSolver
from phimap.learn.solver import LinearSolution
from phimap.learn.weights import weighted_mean

# The exponential is replaced by its tangent beyond this exponent, so that no trial point of a line search overflows. No
# solution has means that differ from the mean target by a factor of 1e13.
_LARGEST_EXPONENT = 30.0
# A mean loss below this multiple of `stiffness` is negligible. If all targets are 0, the loss has no minimum, because
# it falls towards 0.
_NEGLIGIBLE = 1e-3


@dataclass(frozen=True)
class Deviance(Loss):
    r"""Half of the Tweedie deviance of targets y with mean :math:`\mu = e^{s + c}`, summed over targets.

    For a power p between 1 and 2 half of the deviance is

    .. math:: \frac{y^{2-p}}{(1-p)(2-p)} - \frac{y \mu^{1-p}}{1-p} + \frac{\mu^{2-p}}{2-p},

    with the limits :math:`y \log(y / \mu) - y + \mu` (Poisson, p = 1) and
    :math:`y / \mu - \log(y / \mu) - 1` (gamma, p = 2). It is convex in s.

    Attributes
    ----------
    power : float
        From 1 to 2.
    centre : ndarray of shape (t,) or float
        The c that is added to the scores s.

    References
    ----------
    Jorgensen (1987), *Exponential dispersion models*, Section 4.
    """

    power: float
    centre: np.ndarray | float = 0.0

    def values(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        p, y = self.power, targets
        if p == 1:
            found = xlogy(y, y) - y - y * (scores + self.centre) + self._means_to(1.0, scores)
        elif p == 2:
            found = y * self._means_to(-1.0, scores) + scores + self.centre - np.log(y) - 1
        else:
            at_target = y ** (2 - p) / ((1 - p) * (2 - p))
            found = at_target - y * self._means_to(1 - p, scores) / (1 - p) + self._means_to(2 - p, scores) / (2 - p)
        return found.sum(axis=1)

    def slopes(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        p = self.power
        return self._rates_of(2 - p, scores) - targets * self._rates_of(1 - p, scores)

    def curvatures(self, scores: np.ndarray, targets: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        p = self.power
        return (2 - p) * self._rates_of(2 - p, scores) + (p - 1) * targets * self._rates_of(1 - p, scores)

    @property
    def stiffness(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        return float(np.mean(np.exp((2 - self.power) * np.asarray(self.centre))))

    @property
    def negligible(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride]
        return _NEGLIGIBLE * self.stiffness

    def restore(self, solution: LinearSolution) -> LinearSolution:
        """Convert scores to logarithms of means."""
        assert solution.centre is not None
        held_out = solution.held_out
        if held_out is not None:
            held_out = replace(held_out, predictions=held_out.predictions + self.centre)
        intercept, centre = solution.intercept + self.centre, solution.centre + self.centre
        return replace(solution, intercept=intercept, centre=centre, held_out=held_out)

    def _means_to(self, power: float, scores: np.ndarray) -> np.ndarray:
        """The means, raised to `power`. Beyond the largest exponent, the tangent replaces the exponential."""
        beyond = np.maximum(power * scores - _LARGEST_EXPONENT, 0.0)
        return self._rates_of(power, scores) * (1 + beyond)

    def _rates_of(self, power: float, scores: np.ndarray) -> np.ndarray:
        """Derivative of `_means_to` with respect to the scores, divided by `power`."""
        return np.exp(power * np.asarray(self.centre)) * np.exp(np.minimum(power * scores, _LARGEST_EXPONENT))


class DevianceSolver(LossSolver):
    r"""The solver in the registry for the deviances.

    Minimises :math:`\sum_i w_i d_i / 2 + \tfrac{\alpha}{2} |W|^2`, where d is the deviance. Scikit-learn's generalised
    linear models divide the sum by the total weight, so their alpha is this alpha divided by the total weight.
    """

    takes_signs = False
    # Tolerances of the solution if alpha is given and if it is chosen. The relative excess of the objective over its
    # minimum is about half the square of the tolerance.
    tolerance, chosen_tolerance = 1e-5, 1e-2

    def __init__(self):
        pass

    def _loss_for(self, prepared: LossPreparation) -> Loss:
        loss, rows = Deviance(**prepared.problem.loss_parameters), prepared.sample.rows()
        if not rows:
            return loss
        targets, weights = (np.concatenate(part) for part in list(zip(*rows, strict=True))[1:])
        means = weighted_mean(targets, weights)
        # If all targets of the sample are 0, any centre is correct. The mean is then set to one event in these rows.
        return replace(loss, centre=np.log(np.where(means > 0, means, 1 / len(targets))))
