"""Linear models of the least Huber loss over a stream, with the scale of the errors found on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from phimap.learn.blocks.blocks import FeatureBlock
from phimap.learn.losses.alpha import LossAlpha, choose_alpha
from phimap.learn.losses.huber import Huber, scale_ratio, scale_step
from phimap.learn.losses.path import Model
from phimap.learn.losses.preparation import LossPreparation, least_memory
from phimap.learn.losses.quasi_newton import TOLERANCE
from phimap.learn.rows.accumulator import AnyAccumulator, WrappedAccumulator, accumulate
from phimap.learn.solver import HeldOutScores, LinearSolution, PassesSolver, PassSums, Problem, Stream, Sums
from phimap.learn.targets.robust_targets import RobustTargets
from phimap.ops import single_threaded_blas

# Where alpha is chosen: relative to the noise, the excess of the objective is half its square.
_CHOSEN_TOLERANCE = 1e-2
# The scale is settled when it moves by less; the solution then moves by a tenth of that or less.
_SETTLED, _MOST_ROUNDS = 1e-3, 20
# The second search for alpha begins at the alpha of the first times this: a decade above.
_ABOVE = 10.0
# Steps of the scale of errors that are in memory.
_MOST_STEPS = 50


@dataclass(frozen=True)
class RobustUnits:
    """``(y - centre) / scale``, target by target: the numbers whose Huber losses are formed.

    Attributes
    ----------
    centre, scale : ndarray of shape (t,)
    """

    centre: np.ndarray
    scale: np.ndarray

    def apply(self, targets: np.ndarray) -> np.ndarray:
        """Targets (r, t) in these units."""
        return (targets - self.centre) / self.scale

    def restore(self, solution: LinearSolution) -> LinearSolution:
        """A solution in these units as one of the targets."""
        held_out = solution.held_out
        if held_out is not None:
            predictions, targets = (
                part * self.scale + self.centre for part in (held_out.predictions, held_out.targets)
            )
            held_out = replace(held_out, predictions=predictions, targets=targets)
        coef, intercept = solution.coef * self.scale, solution.intercept * self.scale + self.centre
        centre = solution.centre * self.scale + self.centre
        return replace(solution, coef=coef, intercept=intercept, centre=centre, held_out=held_out, scale=self.scale)


@dataclass(frozen=True)
class RowsInUnits:
    """Rows whose targets are in other units, each time they are gone through."""

    rows: Stream
    units: RobustUnits

    def accumulate(self, start: Callable[[int], AnyAccumulator]) -> AnyAccumulator:
        """One pass over them."""
        # The rows themselves may be elsewhere, and see what starts a fold.
        units = self.units
        return accumulate(self.rows, lambda first_row: _AccumulatorInUnits(start(first_row), units)).inner


class _AccumulatorInUnits(WrappedAccumulator[Any]):
    """A fold that sees targets in other units."""

    def __init__(self, fold: Any, units: RobustUnits):
        super().__init__(fold)
        self._units = units

    def update(self, rows: FeatureBlock, targets: np.ndarray, weights: np.ndarray) -> None:
        super().update(rows, self._units.apply(targets), weights)


class HuberSolver(PassesSolver):
    r"""The member of the registry for Huber's loss.

    Minimises :math:`\sum_i w_i \sigma^2 \ell(e_i / \sigma) + \tfrac{\alpha}{2} |W|^2` with e the errors, l half the
    square up to 1.35 and its tangent beyond: ridge regression with the same alpha where no error is large.

    Notes
    -----
    The scale makes the mean of ``min(e^2, (1.35 scale)^2)`` the square of the scale, as that of scikit-learn's
    `HuberRegressor` does, whose alpha is this one over the scale. The errors are those of the rows in the fit where
    alpha is given. Where it is chosen they are those of rows left out: many features leave little of the others. The
    scale is found in turns with the solution.
    """

    takes_signs = False

    def __init__(self):
        self._loss = Huber()

    def memory(self, n: int, m: int, t: int) -> int:
        """Bytes held at the least, a block of features not counted."""
        return least_memory(m, t)

    def solve(self, problem: Problem) -> LinearSolution:
        """Solve a problem whose targets are numbers."""
        prepared = LossPreparation.of(problem)
        units = _first_units(prepared)
        if problem.alpha != "auto":
            return self._in_turns(prepared, float(problem.alpha), units)
        choice = self._choice(prepared, units)
        if choice.held_out is None:
            return self._in_turns(prepared, choice.alpha, units)
        ratio = _scale_of(choice.held_out)
        units = replace(units, scale=units.scale * ratio)
        # Beside a small scale nearly all rows look like outliers until a model fits: the search goes on from one that
        # does, and not from zero.
        choice = self._choice(prepared, units, largest=choice.alpha * _ABOVE, start=_over(choice.start, ratio))
        rows = RowsInUnits(prepared.rows, units)
        solution = prepared.solve(self._loss, choice.alpha, rows, choice.start, _CHOSEN_TOLERANCE)
        return units.restore(
            replace(
                solution,
                n_passes=solution.n_passes + 1,
                held_out=choice.held_out,
                alphas=choice.alphas,
                scores=choice.scores,
                criterion="held-out",
            )
        )

    def _choice(
        self, prepared: LossPreparation, units: RobustUnits, largest: float = np.inf, start: Model | None = None
    ) -> LossAlpha:
        """The alpha of the least held-out loss in these units, `largest` at the most; solutions begin at `start`."""
        sample = prepared.sample.with_targets(units.apply)
        path = partial(prepared.path_of_others, self._loss, start=start)
        return choose_alpha(self._loss, sample, path, prepared.scale, largest=largest)

    def _in_turns(self, prepared: LossPreparation, alpha: float, units: RobustUnits) -> LinearSolution:
        """The solution with a given alpha, on the sample first."""
        start, sample = None, prepared.sample
        if 0 < sample.share < 1:
            solution, units = self._settled(prepared, alpha, units, start, sample.rows(), sample.share)
            start = solution.coef, solution.intercept
        solution, units = self._settled(prepared, alpha, units, start, prepared.rows, 1.0)
        return units.restore(replace(solution, n_passes=solution.n_passes + 1))

    def _settled(
        self,
        prepared: LossPreparation,
        alpha: float,
        units: RobustUnits,
        start: Model | None,
        rows: Stream,
        share: float,
    ) -> tuple[LinearSolution, RobustUnits]:
        """Solution and units in turns, until the scale is that of the solution's errors."""
        # Targets that are rounding alone have no scale.
        least, n_passes = np.sqrt(prepared.problem.eps) * units.scale, 0
        for turn in range(_MOST_ROUNDS):
            there = RowsInUnits(rows, units)
            solution = prepared.solve(self._loss, alpha, there, start, TOLERANCE, share)
            n_passes += solution.n_passes + 1
            solution = replace(solution, n_passes=n_passes)
            scale = np.maximum(units.scale * _scale_step_on(there, solution, prepared.problem.n_jobs), least)
            ratio = scale / units.scale
            if (np.abs(ratio - 1) < _SETTLED).all():
                return solution, units
            if turn < _MOST_ROUNDS - 1:
                start, units = _over((solution.coef, solution.intercept), ratio), replace(units, scale=scale)
        return replace(solution, status="stopped"), units


def _over(model: Model | None, ratio: np.ndarray) -> Model | None:
    """A model in units whose scale is `ratio` (t,) times as large."""
    return None if model is None else (model[0] / ratio, model[1] / ratio)


def _first_units(prepared: LossPreparation) -> RobustUnits:
    """Units of the targets, whose spread is that of the errors at most."""
    rows = prepared.sample.rows()
    if not rows:
        t = prepared.problem.t
        return RobustUnits(np.zeros(t), np.ones(t))
    targets, weights = (np.concatenate(part) for part in list(zip(*rows, strict=True))[1:])
    found = RobustTargets.of_sample(targets, weights)
    return RobustUnits(found.centre, found.spread)


def _scale_of(held_out: HeldOutScores) -> np.ndarray:
    """Scale (t,) of the errors of rows left out."""
    assert held_out.weights is not None
    errors, scale = held_out.predictions - held_out.targets, np.ones(held_out.targets.shape[1])
    # Nothing is left to tell apart below the rounding of float32.
    for _ in range(_MOST_STEPS):
        ratio = scale_ratio(scale_step(errors / scale, held_out.weights))
        scale = np.maximum(scale * ratio, np.finfo(np.float32).eps)
        if (np.abs(ratio - 1) < _SETTLED).all():
            break
    return scale


def _scale_step_on(rows: Stream, solution: LinearSolution, n_jobs: int | None) -> np.ndarray:
    """The next scale (t,) of a solution's errors over the present one: one pass."""
    coef, intercept = solution.coef, solution.intercept

    def summand(block: FeatureBlock, targets: np.ndarray, weights: np.ndarray) -> Sums:
        return (scale_step(block.times(coef, n_jobs) + intercept - targets, weights),)

    with single_threaded_blas():
        sums = accumulate(rows, lambda first_row: PassSums(summand)).sums
    assert sums is not None
    return scale_ratio(sums[0])
