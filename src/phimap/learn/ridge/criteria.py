"""Criteria by which the regularisation of a linear system is chosen, as functions of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from phimap._random import RandomState, named_streams
from phimap.learn.ridge.cholesky import BlockTriangle
from phimap.learn.ridge.shifted_inverse import ExactShiftedInverse, Images, ShiftedInverse
from phimap.learn.ridge.statistics import RidgeStatistics
from phimap.ops import Array, ops_for
from phimap.packed import PackedArray

# Standard deviations of the estimated degrees of freedom that must be left to the residuals for GCV to mean anything:
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
        # With no degree of freedom left the residuals vanish and say nothing; with few, their number is not known.
        least = np.maximum(0.5, _TRUSTED * shifts * inverse.trace_deviation(shifts)) / n
        nothing = np.full(shifts.shape, np.inf)
        # Residuals below the rounding of what they are the difference of are not known either.
        rss = np.maximum(rss, statistics.eps * squares)
        return np.divide(rss / n, np.square(free), out=nothing, where=free > least)

    def coarse(columns: np.ndarray) -> System:
        return gcv_system(statistics.subset(columns))

    matrix, rhs = statistics.centred_gram(), statistics.centred_cross()
    return System(matrix, rhs, statistics.gram, statistics.eps, "gcv", score, coarse=coarse)


def held_out_system(
    statistics: RidgeStatistics,
    Z: Array | PackedArray,
    Y: np.ndarray,
    far: tuple[Array | PackedArray, np.ndarray] | None,
    n_jobs: int | None,
) -> System:
    """Give the primal system without the rows (Z, Y) of the statistics, judged by the squared error on them.

    Rows `far`, none of them among (Z, Y), stay, and are judged by their leave-one-out errors; (Z, Y) then stand for
    all rows but these.
    """
    rest = statistics.without(Z, Y, n_jobs)
    far_rows = None
    if far is not None:
        features = far[0].to_dense() if isinstance(far[0], PackedArray) else far[0]
        far_rows = np.asarray(ops_for(features).to_host(features), dtype=np.float64), far[1]
    return _system_without(rest, Z.to_dense() if isinstance(Z, PackedArray) else Z, Y, far_rows, n_jobs)


def _system_without(
    rest: RidgeStatistics, Z: Array, Y: np.ndarray, far: tuple[np.ndarray, np.ndarray] | None, n_jobs: int | None
) -> System:
    """The system of the rows that are left, judged on the rows (Z, Y), which are not, and on those `far`, which are."""
    ops = ops_for(Z)
    mean_z, mean_y = rest.sum_z / rest.n, rest.sum_y / rest.n
    n, n_held_out = rest.n + Y.shape[0], Y.shape[0]
    Z_far, Y_far = far if far is not None else (np.empty((0, rest.n_components)), np.empty((0, Y.shape[1])))
    n_far, targets = Y_far.shape[0], np.concatenate([Y, Y_far]) - mean_y

    def project(vectors: np.ndarray) -> np.ndarray:
        vectors = np.ascontiguousarray(vectors)
        products = ops.to_host(ops.matmul_rows(Z, ops.constant(vectors), n_jobs))
        of_far = ops_for(Z_far).matmul_rows(Z_far, vectors, n_jobs)
        return np.concatenate([products, of_far]) - mean_z @ vectors

    def score(inverse: ShiftedInverse, shifts: np.ndarray) -> np.ndarray:
        squares = np.square(inverse.images(shifts) - targets).sum(axis=2)
        of_others = squares[:, :n_held_out].mean(axis=1)
        if n_far == 0:
            return of_others
        # 1 less the leverage; 0 for a row that alone determines its own fit.
        free = np.maximum(1 - inverse.forms(shifts) - 1 / rest.n, _LEAST_FREE)
        return ((n - n_far) * of_others + (squares[:, n_held_out:] / np.square(free)).sum(axis=1)) / n

    def coarse(columns: np.ndarray) -> System:
        far_rows = None if far is None else (Z_far[:, columns], Y_far)
        return _system_without(rest.subset(columns), ops.contiguous(Z[:, columns]), Y, far_rows, n_jobs)

    matrix, rhs = rest.centred_gram(), rest.centred_cross()
    rows = (Z_far - mean_z).T if n_far else None
    return System(matrix, rhs, rest.gram, rest.eps, "held-out", score, project, rows=rows, coarse=coarse)


def held_out_rows(centred: np.ndarray, Y: np.ndarray, eps: float, rng: RandomState, n_jobs: int | None) -> System:
    """As `held_out_system`, in the dual form: a tenth of the rows held out of those given."""
    order = named_streams(rng, "held-out")["held-out"].permutation(centred.shape[0])
    tested, kept = np.split(order, [centred.shape[0] // 10])
    mean_z, mean_y = centred[kept].mean(axis=0), Y[kept].mean(axis=0)
    rows = centred[kept] - mean_z
    between = ops_for(rows).matmul_rows(centred[tested] - mean_z, np.ascontiguousarray(rows.T), n_jobs)
    return _held_out_dual(gram_of_rows(rows, n_jobs), between, Y[kept] - mean_y, Y[tested] - mean_y, eps, n_jobs)


def held_out_gram(products: np.ndarray, Y: np.ndarray, eps: float, rng: RandomState, n_jobs: int | None) -> System:
    """As `held_out_rows`, from the inner products (n, n) of the rows."""
    order = named_streams(rng, "held-out")["held-out"].permutation(products.shape[0])
    tested, kept = np.split(order, [products.shape[0] // 10])
    matrix, between = products[np.ix_(kept, kept)], products[np.ix_(tested, kept)]
    means, mean_y = matrix.mean(axis=0), Y[kept].mean(axis=0)
    matrix += means.mean() - means - means[:, None]
    between += means.mean() - means - between.mean(axis=1, keepdims=True)
    gram = BlockTriangle.from_dense(matrix)
    return _held_out_dual(gram, between, Y[kept] - mean_y, Y[tested] - mean_y, eps, n_jobs)


def _held_out_dual(
    matrix: BlockTriangle, between: np.ndarray, rhs: np.ndarray, wanted: np.ndarray, eps: float, n_jobs: int | None
) -> System:
    """The system of the kept rows; `between` (h, k) are products of held-out and kept ones, all centred."""
    ops = ops_for(between)

    def project(vectors: np.ndarray) -> np.ndarray:
        return ops.matmul_rows(between, np.ascontiguousarray(vectors), n_jobs)

    return System(matrix, rhs, matrix, eps, "held-out", _squared_error(wanted), project)


def _squared_error(targets: np.ndarray) -> Callable[[ShiftedInverse, np.ndarray], np.ndarray]:
    def score(inverse: ShiftedInverse, shifts: np.ndarray) -> np.ndarray:
        return np.square(inverse.images(shifts) - targets).sum(axis=2).mean(axis=1)

    return score


def leave_one_out(n: int) -> Callable[[ExactShiftedInverse, np.ndarray], np.ndarray]:
    """Give the score of the dual system of n rows by the exact leave-one-out error."""

    def score(inverse: ExactShiftedInverse, shifts: np.ndarray) -> np.ndarray:
        inverse_diagonals = inverse.diagonals(shifts) * shifts[:, None]
        # 1 - h_i; for a row that alone determines its own fit rounding could leave it below zero.
        free = np.maximum(inverse_diagonals - 1 / n, np.finfo(np.float64).eps)
        residuals = shifts[:, None, None] * inverse.images(shifts) / free[:, :, None]
        return np.square(residuals).sum(axis=2).mean(axis=1)

    return score


def gram_of_rows(rows: np.ndarray, n_jobs: int | None) -> BlockTriangle:
    """``rows rows^T`` (n, n): the sum over columns that `RidgeStatistics` forms over rows."""
    sums = RidgeStatistics.empty(rows.shape[0], 1)
    sums.update(rows.T, np.zeros((rows.shape[1], 1)), n_jobs)
    return sums.gram
