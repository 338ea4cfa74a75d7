"""The regularisation of a loss, from held-out rows of a sample."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from phimap._random import row_uniforms
from phimap.learn.data.blocks import FeatureBlock
from phimap.learn.margin.losses.base import Loss
from phimap.learn.margin.preconditioner import Preconditioner, SharedPreconditioner
from phimap.learn.margin.quasi_newton import QuasiNewton
from phimap.learn.solver import HeldOutScores, LinearSolution, Problem, Stream, solve

# Rows of the sample: enough that the held-out loss tells alphas apart whose losses differ by a percent.
_MOST_ROWS = 16384
# The sample is held out a fifth at a time: every fifth where the rows are few, else one of them.
_FOLDS, _FEW_ROWS = 5, 2048
# Alphas, as multiples of the mean square of a centred row: from where all is shrunk, by half decades.
_LARGEST, _FACTOR, _MOST_ALPHAS = 10.0, 10.0**-0.5, 17
# The largest alpha is taken whose loss no smaller one betters by this share: the curve is flat where rows are told
# apart well, and small alphas cost passes. The search ends where so many alphas have not.
_GAIN, _PATIENCE = 5e-3, 3
# Held-out losses are known far more coarsely than this tolerance lets them move.
_TOLERANCE, _MOST_PASSES = 1e-2, 30


class PathSample:
    """A random sample of the rows of a stream, cut into folds, in memory.

    Parameters
    ----------
    n : int
        Rows of the stream.
    memory : int
        Bytes that the sample's features may take.
    seed : int
    """

    def __init__(self, n: int, memory: int, seed: int):
        self._n, self._memory, self._seed = n, memory, seed
        self._n_seen = self.n_rows = 0
        self._blocks: list[tuple[FeatureBlock, np.ndarray, np.ndarray, np.ndarray]] = []

    def visit(self, block: FeatureBlock, targets: np.ndarray, weights: np.ndarray) -> None:
        """Take a random share of some rows."""
        row_bytes = block.shape[1] * block.dtype.itemsize
        share = min(_MOST_ROWS, self._memory // row_bytes) / self._n
        # The sample is decided by the index in the stream, and so is the fold.
        uniforms = row_uniforms(self._n_seen, block.shape[0], self._seed)
        index = np.flatnonzero(uniforms < share)
        self._n_seen += block.shape[0]
        self.n_rows += index.size
        if index.size:
            folds = (np.floor(uniforms[index] / share * _FOLDS * 1024) % _FOLDS).astype(np.intp)
            self._blocks.append((block.rows(index), targets[index], weights[index], folds))

    @property
    def share(self) -> float:
        """Share of the stream's rows."""
        return self.n_rows / self._n

    @property
    def folds(self) -> list[int]:
        """Folds by which to judge: those that have rows, and leave some to the others."""
        counts = np.bincount(np.concatenate([np.empty(0, np.intp), *(part[3] for part in self._blocks)]))
        usable = [fold for fold, count in enumerate(counts) if 0 < count < self.n_rows]
        return usable if self.n_rows <= _FEW_ROWS else usable[:1]

    def part(self, fold: int, *, held_out: bool) -> Stream:
        """The rows of a fold, or the others."""
        return list(self._part(fold, held_out))

    def _part(self, fold: int, held_out: bool) -> Iterator[tuple[FeatureBlock, np.ndarray, np.ndarray]]:
        for block, targets, weights, folds in self._blocks:
            index = np.flatnonzero((folds == fold) == held_out)
            if index.size:
                yield block.rows(index), targets[index], weights[index]


def choose_alpha(
    loss: Loss, problem: Problem, sample: PathSample, preconditioner: Preconditioner, mean: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray, LinearSolution | None, HeldOutScores | None]:
    """The alpha of the least held-out loss, the alphas and their losses, a solution to begin with, held-out scores.

    The objective is a sum over rows, so that alpha is the inverse of a prior variance: the sample's serves all rows.
    """
    # As many times the mean square of a row as it has neighbours: an alpha for sums over rows, like that of ridge.
    scale = preconditioner.trace / problem.n or 1.0
    folds = sample.folds
    if not folds:
        return scale, np.empty(0), np.empty(0), None, None
    alphas = scale * _LARGEST * _FACTOR ** np.arange(_MOST_ALPHAS)
    parts = [(sample.part(fold, held_out=False), sample.part(fold, held_out=True)) for fold in folds]
    share = SharedPreconditioner(preconditioner, sample.share * (1 - 1 / _FOLDS))
    found: list[LinearSolution | None] = [None] * len(parts)
    best, scores, first, held_out = 0, [], None, None
    for alpha in alphas:
        total = weight = 0.0
        judged: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        for i, (training, judging) in enumerate(parts):
            last = found[i]
            solver = QuasiNewton(
                loss,
                float(alpha),
                share,
                mean,
                start=None if last is None else (last.coef, last.intercept),
                tolerance=_TOLERANCE,
                passes=_MOST_PASSES,
                n_jobs=problem.n_jobs,
            )
            solution = found[i] = solve(solver, training, problem.m, problem.t, problem.eps)
            for block, targets, weights in judging:
                outputs = block.times(solution.coef, problem.n_jobs) + solution.intercept
                values = loss.values(outputs, targets)
                judged.append((outputs, targets, weights))
                total, weight = total + weights @ values, weight + weights.sum()
        scores.append(total / weight)
        if len(scores) == 1 or scores[-1] < (1 - _GAIN) * scores[best]:
            best, first = len(scores) - 1, found[0]
            held_out = HeldOutScores(*map(np.concatenate, zip(*judged, strict=True)))
        if len(scores) - 1 - best >= _PATIENCE:
            break
    return float(alphas[best]), alphas[: len(scores)], np.array(scores), first, held_out
