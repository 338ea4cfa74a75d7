"""The regularisation of a loss, chosen by held-out rows of a sample."""

from __future__ import annotations

import numpy as np

from phimap.learn.losses.losses import Loss
from phimap.learn.losses.preparation import LossPreparation, Path
from phimap.learn.losses.quasi_newton import Model
from phimap.learn.losses.sample import FOLDS
from phimap.learn.ridge.alpha import ChosenAlpha
from phimap.learn.solver import HeldOutScores, LinearSolution
from phimap.learn.weights import weighted_mean

# Largest alpha that is tried, in units of the mean square of a centred row; ratio of successive alphas; largest number
# of alphas. The largest alpha shrinks all coefficients.
_LARGEST, _FACTOR, _MOST_ALPHAS = 100.0, 10.0**-0.5, 19
# Share by which a smaller alpha must lower the loss to be chosen, and number of alphas without such a gain after which
# the search ends. If classes are separable, the curve is flat, and small alphas cost passes.
_GAIN, _PATIENCE = 5e-3, 3
# Share above the least loss at which the search also ends: a loss that has risen so far does not fall again.
_RISE = 0.02


def alphas_from(scale: float, least: float = 0.0) -> np.ndarray:
    """The alphas to try, descending. If `least` is given: those more than half a decade above `least`, then `least`.

    `scale` is the mean square of a centred row. A set of similar rows gives the Gram matrix an eigenvalue of about
    `scale` times the number of these rows.
    """
    alphas = scale * _LARGEST * _FACTOR ** np.arange(_MOST_ALPHAS)
    return np.append(alphas[alphas > least / _FACTOR], least) if least else alphas


class HeldOutLoss:
    """Mean loss on held-out folds of a sample, for solutions on the other rows of the sample.

    Parameters
    ----------
    loss : Loss
    prepared : LossPreparation
    start : tuple of ndarrays (m, t) and (t,) or None
        Where the first solutions begin.
    """

    def __init__(self, loss: Loss, prepared: LossPreparation, start: Model | None = None):
        self._loss, self._n_jobs, sample = loss, prepared.problem.n_jobs, prepared.sample
        share = sample.share * (1 - 1 / FOLDS)
        self._paths = [Path(loss, prepared, sample.rows(fold), share, start) for fold in sample.folds]
        self._held_out = [sample.rows(fold, held_out=True) for fold in sample.folds]

    def solve(self, alpha: float) -> list[LinearSolution]:
        """Solve without each fold at the next alpha, which must be smaller than the last; empty without folds."""
        return [path.solve(alpha) for path in self._paths]

    def held_out_scores(self, solutions: list[LinearSolution]) -> HeldOutScores:
        """Predictions for the rows of each fold by the solution without this fold."""
        parts = [
            (block.times(solution.coef, self._n_jobs) + solution.intercept, targets, weights)
            for solution, rows in zip(solutions, self._held_out, strict=True)
            for block, targets, weights in rows
        ]
        return HeldOutScores(*map(np.concatenate, zip(*parts, strict=True)))

    def score(self, held_out: HeldOutScores) -> float:
        """The mean loss of predictions for held-out rows."""
        losses = self._loss.held_out_values(held_out.predictions, held_out.targets)
        return float(weighted_mean(losses, held_out.weights))


def choose_alpha(
    loss: Loss, prepared: LossPreparation, *, largest: float = np.inf, start: Model | None = None
) -> tuple[ChosenAlpha, Model | None]:
    """Return the alpha of least held-out loss, and a model near its solution; the model is None without held-out rows.

    The objective is a sum over rows and alpha is the inverse of a prior variance, so the alpha of the sample serves all
    rows. The search goes down from `largest`, or from an alpha that shrinks all coefficients if that is smaller.
    """
    objective, scale = HeldOutLoss(loss, prepared, start), prepared.scale
    alphas = alphas_from(scale)
    alphas = alphas[alphas <= max(largest, alphas[-1])]
    best, scores, model, held_out = 0, [], None, None
    for alpha in alphas:
        solutions = objective.solve(float(alpha))
        if not solutions:
            return ChosenAlpha(scale), None
        found = objective.held_out_scores(solutions)
        scores.append(objective.score(found))
        if len(scores) == 1 or scores[-1] < (1 - _GAIN) * scores[best]:
            best, held_out, model = len(scores) - 1, found, _mean(solutions)
        if len(scores) - 1 - best >= _PATIENCE or scores[-1] > (1 + _RISE) * min(scores):
            break
    tried = alphas[: len(scores)]
    return ChosenAlpha(float(alphas[best]), tried, np.array(scores), "held-out", held_out), model


def score_alpha(loss: Loss, prepared: LossPreparation, alpha: float) -> tuple[ChosenAlpha, Model | None]:
    """Return a given alpha with its held-out scores, and a model near its solution; None without held-out rows."""
    objective, solutions = HeldOutLoss(loss, prepared), []
    for value in alphas_from(prepared.scale, least=alpha):
        solutions = objective.solve(float(value))
    if not solutions:
        return ChosenAlpha(alpha), None
    return ChosenAlpha(alpha, held_out=objective.held_out_scores(solutions)), _mean(solutions)


def _mean(solutions: list[LinearSolution]) -> Model:
    coefs, intercepts = zip(*((solution.coef, solution.intercept) for solution in solutions), strict=True)
    return np.mean(coefs, axis=0), np.mean(intercepts, axis=0)
