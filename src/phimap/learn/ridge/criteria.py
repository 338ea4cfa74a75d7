"""Criteria by which the regularisation of a linear system is chosen, as functions of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from phimap._random import RandomState, named_streams
from phimap.learn.data.blocks import DenseBlock, FeatureBlock
from phimap.learn.data.centred_rows import CentredRows
from phimap.learn.data.triangle import BlockTriangle
from phimap.learn.ridge.shifted_inverse import ExactShiftedInverse, Images, ShiftedInverse
from phimap.learn.ridge.statistics import RidgeStatistics

#: Features of some rows and their targets (r, t).
Rows = tuple[FeatureBlock, np.ndarray]

# Standard deviations of the estimated degrees of freedom that the fit must leave over for GCV to mean anything:
# the score divides by their square, which is then known within a fifth.
_TRUSTED = 10.0
# Leverages are known to this from a few Lanczos steps.
_LEAST_FREE = 1e-6


@dataclass(frozen=True)
class System:
    """``(A + lam I) W = B`` and a criterion by which lam is chosen from the functions of A."""

    matrix: BlockTriangle
    rhs: np.ndarray
    # The matrix that was rounded, and to what: `matrix` is less by the centring, which leaves the rounding.
    uncentred: BlockTriangle
    eps: float
    criterion: str
    score: Callable[[Any, np.ndarray], np.ndarray]
    project: Images | None = None
    # Rows (as columns) whose leverages the score needs.
    rows: np.ndarray | None = None
    exact: bool = False
    # The same problem on some of the features, by which a large one finds where to look.
    coarse: Callable[[np.ndarray], System] | None = None


def gcv_system(statistics: RidgeStatistics) -> System:
    """Give the primal system, judged by generalised cross-validation from the statistics alone."""
    n, squares = statistics.n, float(statistics.centred_squares().sum())

    def score(inverse: ShiftedInverse, shifts: np.ndarray) -> np.ndarray:
        rss = squares - inverse.quadratic(shifts) - shifts * inverse.quadratic_squared(shifts)
        dof = np.clip(statistics.n_components - shifts * inverse.trace(shifts), 0, None)
        free = 1 - (dof + 1) / n
        # With no degree of freedom over the errors vanish and say nothing; with few, their number is not known.
        least = np.maximum(0.5, _TRUSTED * shifts * inverse.trace_standard_deviation(shifts)) / n
        nothing = np.full(shifts.shape, np.inf)
        # Errors below the rounding of what they are the difference of are not known either.
        rss = np.maximum(rss, statistics.eps * squares)
        return np.divide(rss / n, np.square(free), out=nothing, where=free > least)

    def coarse(columns: np.ndarray) -> System:
        return gcv_system(statistics.subset(columns))

    matrix, rhs = statistics.centred_gram(), statistics.centred_cross()
    return System(matrix, rhs, statistics.gram, statistics.eps, "gcv", score, coarse=coarse)


def held_out_system(statistics: RidgeStatistics, held_out: Rows, outlying: Rows | None, n_jobs: int | None) -> System:
    """Give the primal system without the rows `held_out` of the statistics, judged by the squared error on them.

    Rows `outlying`, none of them held out, stay, and are judged by their leave-one-out errors; those held out then
    stand for all rows but these.
    """
    block, Y = held_out
    others = statistics.without(block, Y, n_jobs)
    if outlying is None:
        outlying_rows = np.empty((0, statistics.n_components)), np.empty((0, Y.shape[1]))
    else:
        outlying_rows = np.asarray(outlying[0].to_host(), dtype=np.float64), outlying[1]
    return _system_without(others, (block.to_dense(), Y), outlying_rows, n_jobs)


def _system_without(
    others: RidgeStatistics, held_out: Rows, outlying: tuple[np.ndarray, np.ndarray], n_jobs: int | None
) -> System:
    """The system of the rows that were not `held_out`, judged on those that were and on those `outlying`."""
    (block, Y), (Z_outlying, Y_outlying) = held_out, outlying
    mean_z, mean_y = others.sum_z / others.n, others.sum_y / others.n
    n, n_held_out, n_outlying = others.n + Y.shape[0], Y.shape[0], Y_outlying.shape[0]
    targets = np.concatenate([Y, Y_outlying]) - mean_y

    def project(vectors: np.ndarray) -> np.ndarray:
        vectors = np.ascontiguousarray(vectors)
        products = [rows.times(vectors, n_jobs) for rows in (block, DenseBlock(Z_outlying))]
        return np.concatenate(products) - mean_z @ vectors

    def score(inverse: ShiftedInverse, shifts: np.ndarray) -> np.ndarray:
        squares = np.square(inverse.images(shifts) - targets).sum(axis=2)
        of_most = squares[:, :n_held_out].mean(axis=1)
        if n_outlying == 0:
            return of_most
        # 1 less the leverage; 0 for a row that alone determines its own fit.
        free = np.maximum(1 - inverse.forms(shifts) - 1 / others.n, _LEAST_FREE)
        return ((n - n_outlying) * of_most + (squares[:, n_held_out:] / np.square(free)).sum(axis=1)) / n

    def coarse(columns: np.ndarray) -> System:
        narrow = Z_outlying[:, columns], Y_outlying
        return _system_without(others.subset(columns), (block.columns(columns), Y), narrow, n_jobs)

    matrix, rhs = others.centred_gram(), others.centred_cross()
    rows = (Z_outlying - mean_z).T if n_outlying else None
    return System(matrix, rhs, others.gram, others.eps, "held-out", score, project, rows=rows, coarse=coarse)


def held_out_dual_system(rows: CentredRows, Y: np.ndarray, eps: float, rng: RandomState, n_jobs: int | None) -> System:
    """Give the dual system of all but a random tenth of the rows, judged by the squared error on that tenth."""
    order = named_streams(rng, "held-out")["held-out"].permutation(Y.shape[0])
    tested, kept = np.split(order, [Y.shape[0] // 10])
    matrix, between = rows.split(kept, tested)
    mean_y = Y[kept].mean(axis=0)
    wanted = Y[tested] - mean_y

    def project(vectors: np.ndarray) -> np.ndarray:
        return DenseBlock(between).times(vectors, n_jobs)

    def score(inverse: ShiftedInverse, shifts: np.ndarray) -> np.ndarray:
        return np.square(inverse.images(shifts) - wanted).sum(axis=2).mean(axis=1)

    return System(matrix, Y[kept] - mean_y, matrix, eps, "held-out", score, project)


def leave_one_out_system(matrix: BlockTriangle, rhs: np.ndarray, eps: float) -> System:
    """Give the dual system, judged by the exact leave-one-out error."""
    n = rhs.shape[0]

    def score(inverse: ExactShiftedInverse, shifts: np.ndarray) -> np.ndarray:
        inverse_diagonals = inverse.diagonals(shifts) * shifts[:, None]
        # 1 - h_i; for a row that alone determines its own fit rounding could leave it below zero.
        free = np.maximum(inverse_diagonals - 1 / n, np.finfo(np.float64).eps)
        errors = shifts[:, None, None] * inverse.images(shifts) / free[:, :, None]
        return np.square(errors).sum(axis=2).mean(axis=1)

    return System(matrix, rhs, matrix, eps, "leave-one-out", score, exact=True)
