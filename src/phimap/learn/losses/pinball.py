"""The pinball loss, whose minimum is a quantile, and its minimisation with less and less smoothing."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from phimap.learn.blocks.blocks import FeatureBlock
from phimap.learn.losses.losses import LARGEST, ScaledErrors
from phimap.learn.losses.preparation import LossPreparation, least_memory
from phimap.learn.losses.quasi_newton import Model
from phimap.learn.losses.solver import choose_alpha, near
from phimap.learn.ridge.alpha import ChosenAlpha
from phimap.learn.solver import LinearSolution, PassesSolver, Problem, Sums, sums_of_pass
from phimap.learn.targets.base import RobustTargets
from phimap.learn.weights import weighted_mean, weighted_quantile
from phimap.ops import single_threaded_blas


@dataclass(frozen=True)
class Pinball(ScaledErrors):
    r"""The pinball loss, smoothed near zero and summed over outputs.

    The excess of a target y over its prediction f is :math:`u = y - f`, and its loss is :math:`\max(q u, (q - 1) u)`.
    The Moreau envelope of width h smooths this loss. It is :math:`u^2 / (2 h)` for u from (q - 1) h to q h, and the
    loss minus a constant elsewhere. The envelope lies below the loss, by at most :math:`\tfrac{h}{2} \max(q, 1 - q)^2`.

    Attributes
    ----------
    levels : ndarray of shape (t,) or float
        The q of each output, between 0 and 1.
    width : ndarray of shape (t,) or float
        The h of each output.
    bandwidth : ndarray of shape (t,) or float
        Width at which curvatures are computed, at least `width`. They estimate the density of the errors near zero. A
        small width would contain too few rows for this estimate.

    References
    ----------
    Koenker, Bassett (1978), *Regression quantiles*, Equation 3.2.
    """

    levels: np.ndarray | float = 0.5
    width: np.ndarray | float = 0.1
    bandwidth: np.ndarray | float = 0.1

    def values(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        errors = self.errors(scores, targets)
        slopes = self._slopes(errors)
        return (slopes * (errors - 0.5 * self.width * slopes)).sum(axis=1)

    def slopes(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return self._slopes(self.errors(scores, targets))

    def curvatures(self, scores: np.ndarray, targets: np.ndarray, slopes: np.ndarray) -> np.ndarray:
        errors = self.errors(scores, targets) / self.bandwidth
        return ((errors > -self.levels) & (errors < 1 - self.levels)) / self.bandwidth

    def held_out_values(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return self.unsmoothed(scores, targets).sum(axis=1)

    def unsmoothed(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """The pinball losses (r, t) without smoothing; errors above 10 robust standard deviations count as 10."""
        errors = np.clip(self.errors(scores, targets), -LARGEST, LARGEST)
        return np.maximum(-self.levels * errors, (1 - self.levels) * errors)

    def _slopes(self, errors: np.ndarray) -> np.ndarray:
        return np.clip(errors / self.width, -self.levels, 1 - self.levels)


# The loss is smoothed over a width, a share of the mean loss of each output. These are the share while alpha is chosen,
# and the shares of the last solutions. At the solution, the objective exceeds its minimum by at most half of the last
# share, relative to the mean loss.
_PATH_WIDTH, _WIDTHS = 0.5, (0.2, 0.02, 0.002)
# Least width, as a share of the mean loss of a constant prediction. Without it, the width would be zero for targets
# without noise.
_LEAST_WIDTH = 1e-4
# Tolerances of the last solutions if alpha is given, and if it is chosen.
_TOLERANCE, _CHOSEN_TOLERANCE = 1e-3, 3e-3
# Ratio of the largest alpha of the second search to the alpha that the first search chose.
_ABOVE = 10.0


class QuantileSolver(PassesSolver):
    r"""The solver in the registry for quantiles.

    Minimises :math:`\sum_i w_i \rho_q(y_i - f_i) / s + \tfrac{\alpha}{2} |W / s|^2` with :math:`\rho_q` the pinball
    loss and s the robust standard deviation of the targets in the sample, so that alpha does not depend on their unit.
    The quantiles of a target are outputs that share features, preconditioner and alpha.
    """

    def memory(self, n: int | None, m: int, t: int) -> int:
        return least_memory(m, t)

    def solve(self, problem: Problem) -> LinearSolution:
        """Solve a problem."""
        prepared = LossPreparation.of(problem)
        loss, most = _first_loss(prepared)
        if problem.alpha != "auto":
            alpha = float(problem.alpha)
            return _sharpened(loss, most, prepared, ChosenAlpha(alpha), near(loss, prepared, alpha), _TOLERANCE)
        chosen, start = choose_alpha(loss, prepared)
        if chosen.held_out is not None:
            # The first width is a share of the loss of a constant prediction. Held-out losses are smaller, so the width
            # is then reduced to the same share of the held-out losses.
            losses = loss.unsmoothed(chosen.held_out.predictions, chosen.held_out.targets)
            found = weighted_mean(losses, chosen.held_out.weights)
            loss = _smoothed(loss, _PATH_WIDTH, found, most)
            prepared.steps.forget()
            chosen, start = choose_alpha(loss, prepared, largest=chosen.alpha * _ABOVE, start=start)
        return _sharpened(loss, most, prepared, chosen, start, _CHOSEN_TOLERANCE)


def _first_loss(prepared: LossPreparation) -> tuple[Pinball, np.ndarray]:
    """The loss in units of the spread of the targets, and the mean losses (t,) of a constant prediction.

    The width of the smoothing is a share of these mean losses.
    """
    loss, rows = Pinball(**prepared.problem.loss_parameters), prepared.sample.rows()
    if not rows:
        return loss, np.ones(prepared.problem.t)
    targets, weights = (np.concatenate(part) for part in list(zip(*rows, strict=True))[1:])
    centre = np.array(
        [weighted_quantile(column, weights, q) for column, q in zip(targets.T, np.ravel(loss.levels), strict=True)]
    )
    loss = replace(loss, centre=centre, scale=RobustTargets.of_sample(targets, weights).spread)
    most = weighted_mean(loss.unsmoothed(np.zeros_like(targets), targets), weights)
    most = np.where(most > 0, most, 1.0)
    return _smoothed(loss, _PATH_WIDTH, most, most), most


def _smoothed(loss: Pinball, share: float, means: np.ndarray, most: np.ndarray) -> Pinball:
    """The loss with the width `share` times the mean losses `means` (t,).

    The width is bounded from below in units of `most` (t,), the mean losses of a constant.
    """
    width, bandwidth = (np.maximum(one * means, _LEAST_WIDTH * most) for one in (share, _PATH_WIDTH))
    return replace(loss, width=width, bandwidth=bandwidth)


def _sharpened(
    loss: Pinball,
    most: np.ndarray,
    prepared: LossPreparation,
    chosen: ChosenAlpha,
    start: Model | None,
    tolerance: float,
) -> LinearSolution:
    """Minimise on all rows with smaller and smaller widths. Each minimisation starts at the last solution."""
    n_passes, solution = 1, None
    for share in _WIDTHS:
        means = most if start is None else _mean_losses(loss, prepared, chosen.alpha, start)
        loss = _smoothed(loss, share, means, most)
        # Earlier steps describe the curvature of the previous loss, which differs from the curvature of this loss.
        prepared.steps.forget()
        solution = prepared.solve(loss, chosen.alpha, prepared.rows, start, tolerance)
        start, n_passes = (solution.coef, solution.intercept), n_passes + solution.n_passes + 1
    assert solution is not None
    return loss.restore(replace(solution, n_passes=n_passes, **chosen._asdict()))


def _mean_losses(loss: Pinball, prepared: LossPreparation, alpha: float, model: Model) -> np.ndarray:
    """Mean losses (t,) of a model, with its penalty, from one pass."""
    (coef, intercept), n_jobs = model, prepared.problem.n_jobs

    def summand(block: FeatureBlock, targets: np.ndarray, weights: np.ndarray) -> Sums:
        losses = loss.unsmoothed(block.times(coef, n_jobs) + intercept, targets)
        return weights @ losses, np.array([weights.sum()])

    with single_threaded_blas():
        losses, n = sums_of_pass(prepared.rows, summand)
    return (losses + 0.5 * alpha * np.square(coef).sum(axis=0)) / n
