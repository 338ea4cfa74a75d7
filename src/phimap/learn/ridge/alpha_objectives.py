"""Criteria by which the regularisation of a linear system is chosen, as functions of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from phimap._random import RandomState, named_streams
from phimap.learn.blocks.blocks import DenseBlock, FeatureRows
from phimap.learn.blocks.centred_rows import CentredRows, times_root, without_root
from phimap.learn.blocks.triangle import BlockTriangle
from phimap.learn.ridge.leave_one_out import left_out_errors, weight_shares
from phimap.learn.ridge.shifted_inverse import ExactShiftedInverse, Images, ShiftedInverse
from phimap.learn.ridge.statistics import RidgeStatistics
from phimap.learn.rows.weights import total_weight, weighted_mean, weighted_sum
from phimap.learn.solver import HeldOutScores

# Standard deviations of the estimated degrees of freedom that the fit must leave over for GCV to mean anything:
# the score divides by their square, which is then known within a fifth.
_TRUSTED = 10.0
# Leverages are known to this from a few Lanczos steps.
_LEAST_FREE = 1e-6


@dataclass(frozen=True)
class AlphaObjective:
    """``(A + lam I) W = B`` and a criterion by which lam is chosen from the functions of A."""

    matrix: BlockTriangle
    rhs: np.ndarray
    # The matrix that was rounded, and to what: `matrix` is less by the centring, which leaves the rounding.
    uncentred: BlockTriangle
    eps: float
    criterion: str
    score: Callable[[Any, np.ndarray], np.ndarray]
    # Predictions at one lam for the rows that judge, by models without them; their mean square error is the score.
    held_out: Callable[[Any, float], HeldOutScores] | None = None
    project: Images | None = None
    # Rows (as columns) whose leverages the score needs.
    rows: np.ndarray | None = None
    exact: bool = False
    # Eigenvalues up to this are the rounding of the features themselves.
    noise: float = 0.0
    # The same problem on some of the features, by which a large one finds where to look.
    coarse: Callable[[np.ndarray], AlphaObjective] | None = None


def gcv_system(statistics: RidgeStatistics) -> AlphaObjective:
    """Give the primal system, judged by generalised cross-validation from the statistics alone."""
    # Leaving a row out takes its whole weight away, so that there are as many errors as rows.
    n, squares = statistics.n, float(statistics.centred_squares().sum())

    def score(inverse: ShiftedInverse, shifts: np.ndarray) -> np.ndarray:
        rss = squares - inverse.quadratic(shifts) - shifts * inverse.quadratic_squared(shifts)
        dof = np.clip(statistics.n_components - shifts * inverse.trace(shifts), 0, None)
        free = 1 - (dof + 1) / n
        # The errors vanish and say nothing where no degree of freedom is left. Where few are left, their number is not
        # known.
        least = np.maximum(0.5, _TRUSTED * shifts * inverse.trace_standard_deviation(shifts)) / n
        nothing = np.full(shifts.shape, np.inf)
        # Errors below the rounding of what they are the difference of are not known either.
        rss = np.maximum(rss, statistics.eps * squares)
        return np.divide(rss / statistics.weight, np.square(free), out=nothing, where=free > least)

    def coarse(columns: np.ndarray) -> AlphaObjective:
        return gcv_system(statistics.subset(columns))

    matrix, rhs = statistics.centred_gram(), statistics.centred_cross()
    return AlphaObjective(matrix, rhs, statistics.gram, statistics.eps, "gcv", score, coarse=coarse)


def held_out_system(
    others: RidgeStatistics, held_out: FeatureRows, outlying: FeatureRows | None, n_jobs: int | None
) -> AlphaObjective:
    """Give the primal system of the statistics of `others`, judged by the squared error on the rows `held_out`.

    Rows `outlying`, some of the others, are judged by their leave-one-out errors; those held out then stand for all
    rows but these.
    """
    block, Y, weights = held_out
    if outlying is None:
        far_rows = FeatureRows(DenseBlock(np.empty((0, others.n_components))), np.empty((0, Y.shape[1])))
    else:
        Z_outlying = DenseBlock(np.asarray(outlying.block.to_host(), dtype=np.float64))
        far_rows = outlying._replace(block=Z_outlying)
    return _system_without(others, FeatureRows(block.to_dense(), Y, weights), far_rows, n_jobs)


def _system_without(
    others: RidgeStatistics, held_out: FeatureRows, outlying: FeatureRows, n_jobs: int | None
) -> AlphaObjective:
    """The system of the rows that were not `held_out`, judged on those that were and on those `outlying`."""
    (block, Y, weights), (outlying_block, Y_outlying, outlying_weights) = held_out, outlying
    mean_z, mean_y = others.sum_z / others.weight, others.sum_y / others.weight
    n_held_out, n_extreme = Y.shape[0], Y_outlying.shape[0]
    total = others.weight + total_weight(weights, n_held_out)
    outlying_weight = total_weight(outlying_weights, n_extreme)
    targets = np.concatenate([Y, Y_outlying]) - mean_y

    def project(vectors: np.ndarray) -> np.ndarray:
        vectors = np.ascontiguousarray(vectors)
        products = [rows.times(vectors, n_jobs) for rows in (block, outlying_block)]
        return np.concatenate(products) - mean_z @ vectors

    def free(inverse: ShiftedInverse, shifts: np.ndarray) -> np.ndarray:
        """1 less the leverages of the outlying rows; 0 for a row that alone determines its own fit."""
        own = 1 / others.weight if outlying_weights is None else outlying_weights / others.weight
        return np.maximum(1 - inverse.forms(shifts) - own, _LEAST_FREE)

    def score(inverse: ShiftedInverse, shifts: np.ndarray) -> np.ndarray:
        squares = np.square(inverse.images(shifts) - targets).sum(axis=2)
        of_most = weighted_mean(squares[:, :n_held_out], weights, axis=1)
        if n_extreme == 0:
            return of_most
        left = np.square(free(inverse, shifts))
        of_outlying = weighted_sum(squares[:, n_held_out:] / left, outlying_weights, axis=1)
        return ((total - outlying_weight) * of_most + of_outlying) / total

    def coarse(columns: np.ndarray) -> AlphaObjective:
        tested, far = (rows._replace(block=rows.block.columns(columns)) for rows in (held_out, outlying))
        return _system_without(others.subset(columns), tested, far, n_jobs)

    def predictions(inverse: ShiftedInverse, shift: float) -> HeldOutScores:
        images = inverse.images(np.array([shift]))[0]
        if n_extreme == 0:
            return HeldOutScores(mean_y + images, Y, weights)
        images[n_held_out:] -= targets[n_held_out:]
        images[n_held_out:] = targets[n_held_out:] + images[n_held_out:] / free(inverse, np.array([shift]))[0, :, None]
        counts = [np.ones(len(y)) if w is None else w for y, w in ((Y, weights), (Y_outlying, outlying_weights))]
        counts[0] = counts[0] * (total - outlying_weight) / counts[0].sum()
        return HeldOutScores(mean_y + images, mean_y + targets, np.concatenate(counts))

    matrix, rhs = others.centred_gram(), others.centred_cross()
    rows = times_root(outlying_block.to_host() - mean_z, outlying_weights).T if n_extreme else None
    return AlphaObjective(
        matrix, rhs, others.gram, others.eps, "held-out", score, predictions, project, rows=rows, coarse=coarse
    )


def held_out_dual_system(
    rows: CentredRows, Y: np.ndarray, weights: np.ndarray | None, eps: float, rng: RandomState, n_jobs: int | None
) -> AlphaObjective:
    """Give the dual system of all but a random tenth of the rows, judged by the squared error on that tenth."""
    order = named_streams(rng, "held-out")["held-out"].permutation(Y.shape[0])
    tested, kept = np.split(order, [Y.shape[0] // 10])
    matrix, between = rows.split(kept, tested)
    weights_kept, weights_tested = (None, None) if weights is None else (weights[kept], weights[tested])
    mean_y = weighted_mean(Y[kept], weights_kept)
    wanted = Y[tested] - mean_y

    def project(vectors: np.ndarray) -> np.ndarray:
        return DenseBlock(between).times(vectors, n_jobs)

    def score(inverse: ShiftedInverse, shifts: np.ndarray) -> np.ndarray:
        return weighted_mean(np.square(inverse.images(shifts) - wanted).sum(axis=2), weights_tested, axis=1)

    def predictions(inverse: ShiftedInverse, shift: float) -> HeldOutScores:
        return HeldOutScores(mean_y + inverse.images(np.array([shift]))[0], Y[tested], weights_tested)

    rhs = times_root(Y[kept] - mean_y, weights_kept)
    noise = rows.noise(eps, total_weight(weights_kept, kept.size))
    return AlphaObjective(matrix, rhs, matrix, eps, "held-out", score, predictions, project, noise=noise)


def leave_one_out_system(
    rows: CentredRows,
    matrix: BlockTriangle,
    rhs: np.ndarray,
    Y: np.ndarray,
    eps: float,
    weights: np.ndarray | None = None,
) -> AlphaObjective:
    """Give the dual system, judged by the exact leave-one-out error: see `solve_ridge_dual`."""
    shares = weight_shares(weights, Y.shape[0])

    def errors(inverse: ExactShiftedInverse, shifts: np.ndarray) -> Iterator[np.ndarray]:
        # One shift after the other: with many targets the errors at all of them would be the largest arrays of a fit.
        for shift, diagonal in zip(shifts, inverse.diagonals(shifts), strict=True):
            yield left_out_errors(shift, inverse.images(np.array([shift]))[0], diagonal, shares)

    def score(inverse: ExactShiftedInverse, shifts: np.ndarray) -> np.ndarray:
        squares = np.stack([np.square(one).sum(axis=1) for one in errors(inverse, shifts)])
        # The roots of the weights are in the right-hand side.
        return squares.mean(axis=1) if weights is None else squares.sum(axis=1) / weights.sum()

    def predictions(inverse: ExactShiftedInverse, shift: float) -> HeldOutScores:
        return HeldOutScores(Y - without_root(next(errors(inverse, np.array([shift]))), weights), Y, weights)

    noise = rows.noise(eps, total_weight(weights, Y.shape[0]))
    return AlphaObjective(matrix, rhs, matrix, eps, "leave-one-out", score, predictions, exact=True, noise=noise)
