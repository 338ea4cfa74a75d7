"""Linear models of least Huber loss over a stream. The scale of the errors is found during the fit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from phimap.learn.blocks.blocks import FeatureBlock
from phimap.learn.losses.alpha import choose_alpha
from phimap.learn.losses.huber import Huber, scale_ratio, scale_step
from phimap.learn.losses.preparation import LossPreparation, least_memory
from phimap.learn.losses.quasi_newton import TOLERANCE, Model
from phimap.learn.solver import HeldOutScores, LinearSolution, PassesSolver, Problem, Stream, Sums, sums_of_pass
from phimap.learn.targets.units import RobustTargets
from phimap.ops import single_threaded_blas

# Tolerance if alpha is chosen. The relative excess of the objective over its minimum is half the square of the
# tolerance.
_CHOSEN_TOLERANCE = 1e-2
# Relative change of the scale below which it has converged, and largest number of changes. The solution then changes by
# a tenth of that change or less.
_SETTLED, _MOST_ROUNDS = 1e-3, 20
# Ratio of the largest alpha of the second search to the alpha that the first search chose.
_ABOVE = 10.0
# Largest number of steps by which the scale is found from errors in memory.
_MOST_STEPS = 50


class HuberSolver(PassesSolver):
    r"""The solver for Huber's loss in the registry.

    Minimises :math:`\sum_i w_i \sigma^2 \ell(e_i / \sigma) + \tfrac{\alpha}{2} |W|^2` with e the errors, l half the
    square up to 1.35 and its tangent beyond. If all errors are small, this is ridge regression with the same alpha.

    Notes
    -----
    The scale makes the mean of ``min(e^2, (1.35 scale)^2)`` the square of the scale, as in scikit-learn's
    `HuberRegressor`, whose alpha is this alpha divided by the scale. If alpha is given, e are the errors on the
    training rows, and scale and solution are found in turns. If alpha is chosen, e are the errors on held-out rows,
    because errors on training rows are far too small with many features.
    """

    def memory(self, n: int | None, m: int, t: int) -> int:
        return least_memory(m, t)

    def solve(self, problem: Problem) -> LinearSolution:
        """Solve a problem whose targets are numbers."""
        prepared = LossPreparation.of(problem)
        loss = _first_loss(prepared)
        if problem.alpha != "auto":
            return _solution_in_turns(prepared, float(problem.alpha), loss)
        chosen, start = choose_alpha(loss, prepared)
        if chosen.held_out is None:
            return _solution_in_turns(prepared, chosen.alpha, loss)
        ratio = _held_out_scale(loss, chosen.held_out)
        loss = replace(loss, scale=loss.scale * ratio)
        # With a small scale nearly all rows look like outliers at first, so the search starts at the fitted model.
        start = _rescaled(start, ratio)
        chosen, start = choose_alpha(loss, prepared, largest=chosen.alpha * _ABOVE, start=start)
        solution = prepared.solve(loss, chosen.alpha, prepared.rows, start, _CHOSEN_TOLERANCE)
        return loss.restore(replace(solution, n_passes=solution.n_passes + 1, **chosen._asdict()))


def _first_loss(prepared: LossPreparation) -> Huber:
    """The loss in units of the spread of the targets, which is at least that of the errors."""
    rows = prepared.sample.rows()
    if not rows:
        t = prepared.problem.t
        return Huber(np.zeros(t), np.ones(t))
    targets, weights = (np.concatenate(part) for part in list(zip(*rows, strict=True))[1:])
    found = RobustTargets.of_sample(targets, weights)
    return Huber(found.centre, found.spread)


def _solution_in_turns(prepared: LossPreparation, alpha: float, loss: Huber) -> LinearSolution:
    """Find the solution for a given alpha together with its scale, first on the sample, then on all rows."""
    start, sample = None, prepared.sample
    if 0 < sample.share < 1:
        solution, loss = _turns(prepared, alpha, loss, start, sample.rows(), sample.share)
        start = solution.coef, solution.intercept
    solution, loss = _turns(prepared, alpha, loss, start, prepared.rows, 1.0)
    return loss.restore(replace(solution, n_passes=solution.n_passes + 1))


def _turns(
    prepared: LossPreparation, alpha: float, loss: Huber, start: Model | None, rows: Stream, share: float
) -> tuple[LinearSolution, Huber]:
    """Minimise over coefficients and scale in turns, until the scale agrees with the errors."""
    # Least scale: targets that differ by less differ only by rounding.
    least, n_passes = np.sqrt(prepared.problem.eps) * loss.scale, 0
    for turn in range(_MOST_ROUNDS):
        solution = prepared.solve(loss, alpha, rows, start, TOLERANCE, share)
        n_passes += solution.n_passes + 1
        solution = replace(solution, n_passes=n_passes)
        step = _scale_step_of_pass(loss, rows, solution, prepared.problem.n_jobs)
        scale = np.maximum(loss.scale * step, least)
        ratio = scale / loss.scale
        if (np.abs(ratio - 1) < _SETTLED).all():
            return solution, loss
        if turn < _MOST_ROUNDS - 1:
            start, loss = _rescaled((solution.coef, solution.intercept), ratio), replace(loss, scale=scale)
    return replace(solution, status="stopped"), loss


def _rescaled(model: Model | None, ratio: np.ndarray) -> Model | None:
    """Convert a model to units whose scale is `ratio` (t,) times the old scale."""
    return None if model is None else (model[0] / ratio, model[1] / ratio)


def _held_out_scale(loss: Huber, held_out: HeldOutScores) -> np.ndarray:
    """Scale (t,) of the errors on held-out rows, in the units of the loss."""
    assert held_out.weights is not None
    errors, scale = loss.errors(held_out.predictions, held_out.targets), np.ones(held_out.targets.shape[1])
    for _ in range(_MOST_STEPS):
        ratio = scale_ratio(scale_step(errors / scale, held_out.weights))
        # Smaller scales would be rounding errors of float32.
        scale = np.maximum(scale * ratio, np.finfo(np.float32).eps)
        if (np.abs(ratio - 1) < _SETTLED).all():
            break
    return scale


def _scale_step_of_pass(loss: Huber, rows: Stream, solution: LinearSolution, n_jobs: int | None) -> np.ndarray:
    """Ratio (t,) of the next scale of a solution's errors to the present scale, from one pass."""
    coef, intercept = solution.coef, solution.intercept

    def summand(block: FeatureBlock, targets: np.ndarray, weights: np.ndarray) -> Sums:
        return (scale_step(loss.errors(block.times(coef, n_jobs) + intercept, targets), weights),)

    with single_threaded_blas():
        return scale_ratio(sums_of_pass(rows, summand)[0])
