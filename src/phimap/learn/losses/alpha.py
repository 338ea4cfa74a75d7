"""The regularisation of a loss, from held-out rows of a sample."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from phimap.learn.blocks.blocks import WeightedBlock
from phimap.learn.losses.base import Loss
from phimap.learn.losses.path import Model, Path
from phimap.learn.losses.sample import LossSample
from phimap.learn.rows.weights import weighted_mean
from phimap.learn.solver import HeldOutScores, LinearSolution

# Alphas, as multiples of the mean square of a centred row: from where all is shrunk, by half decades.
_LARGEST, _FACTOR, _MOST_ALPHAS = 100.0, 10.0**-0.5, 19
# The largest alpha is taken whose loss no smaller one betters by this share: the curve is flat where rows are told
# apart well, and small alphas cost passes. The search ends where so many alphas have not.
_GAIN, _PATIENCE = 5e-3, 3
# ... or where the loss has risen by this share, after which it falls no more.
_RISE = 0.02


@dataclass(frozen=True)
class LossAlpha:
    """The alpha of the least held-out loss, with the alphas tried and their losses, and a model to begin with.

    `held_out` are scores at that alpha for the rows that each fold left out; None where there are none.
    """

    alpha: float
    alphas: np.ndarray
    scores: np.ndarray
    start: Model | None
    held_out: HeldOutScores | None = None


def alphas_from(scale: float, least: float = 0.0) -> np.ndarray:
    """The alphas that are tried, descending; with `least` those above it, and it.

    `scale` is the mean square of a centred row: the sum over rows has as many of it as a row has neighbours.
    """
    alphas = scale * _LARGEST * _FACTOR ** np.arange(_MOST_ALPHAS)
    return np.append(alphas[alphas > least / _FACTOR], least) if least else alphas


def choose_alpha(
    loss: Loss,
    sample: LossSample,
    path: Callable[[list[WeightedBlock]], Path],
    scale: float,
    *,
    largest: float = np.inf,
) -> LossAlpha:
    """The alpha of the least held-out loss; `path` makes one of the rows that a fold leaves.

    The objective is a sum over rows, so that alpha is the inverse of a prior variance: the sample's serves all rows.
    The search goes down from `largest`, where that is below the alpha that shrinks all.
    """
    paths, judges = _folds(sample, path)
    if not paths:
        return LossAlpha(scale, np.empty(0), np.empty(0), None)
    alphas = alphas_from(scale)
    alphas = alphas[alphas <= max(largest, alphas[-1])]
    best, scores, start, held_out = 0, [], None, None
    for alpha in alphas:
        solutions = [path.solve(float(alpha)) for path in paths]
        judged = _judged(solutions, judges, paths[0].n_jobs)
        assert judged.weights is not None
        scores.append(float(weighted_mean(loss.judged(judged.predictions, judged.targets), judged.weights)))
        if len(scores) == 1 or scores[-1] < (1 - _GAIN) * scores[best]:
            best, held_out, start = len(scores) - 1, judged, _mean(solutions)
        if len(scores) - 1 - best >= _PATIENCE or scores[-1] > (1 + _RISE) * min(scores):
            break
    return LossAlpha(float(alphas[best]), alphas[: len(scores)], np.array(scores), start, held_out)


def score_alpha(
    sample: LossSample, path: Callable[[list[WeightedBlock]], Path], alpha: float, scale: float
) -> LossAlpha:
    """A given alpha, with held-out scores at it where the sample has rows enough."""
    paths, judges = _folds(sample, path)
    solutions: list[LinearSolution] = []
    for value in alphas_from(scale, least=alpha):
        solutions = [path.solve(float(value)) for path in paths]
    if not solutions:
        return LossAlpha(alpha, np.empty(0), np.empty(0), None)
    held_out = _judged(solutions, judges, paths[0].n_jobs)
    return LossAlpha(alpha, np.empty(0), np.empty(0), _mean(solutions), held_out)


def _folds(
    sample: LossSample, path: Callable[[list[WeightedBlock]], Path]
) -> tuple[list[Path], list[list[WeightedBlock]]]:
    """Paths of the rows that each fold leaves, and the rows of the folds."""
    folds = sample.folds
    paths = [path(sample.part(fold, held_out=False)) for fold in folds]
    return paths, [sample.part(fold, held_out=True) for fold in folds]


def _mean(solutions: list[LinearSolution]) -> Model:
    return (
        np.mean([solution.coef for solution in solutions], axis=0),
        np.mean([solution.intercept for solution in solutions], axis=0),
    )


def _judged(solutions: list[LinearSolution], judges: list[list[WeightedBlock]], n_jobs: int | None) -> HeldOutScores:
    """Scores of solutions for the rows that each of them left out."""
    parts = [
        (block.times(solution.coef, n_jobs) + solution.intercept, signs, counted)
        for solution, judging in zip(solutions, judges, strict=True)
        for block, signs, counted in judging
    ]
    return HeldOutScores(*map(np.concatenate, zip(*parts, strict=True)))
