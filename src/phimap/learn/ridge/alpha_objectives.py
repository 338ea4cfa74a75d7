"""Objectives by which the regularisation is chosen, and leave-one-out predictions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy import linalg

from phimap._random import RandomState, named_streams
from phimap.learn.blocks.blocks import DenseBlock, FeatureRows
from phimap.learn.blocks.centred_rows import CentredRows, times_root, without_root
from phimap.learn.blocks.triangle import BlockTriangle
from phimap.learn.ridge.cholesky import BlockedCholesky
from phimap.learn.ridge.shifted_inverse import Projection, ShiftedInverse
from phimap.learn.ridge.statistics import RidgeStatistics
from phimap.learn.rows.units import RowUnits
from phimap.learn.solver import HeldOutScores
from phimap.learn.weights import total_weight, weighted_mean, weighted_sum
from phimap.ops import single_threaded_blas

# Least value of 1 minus a leverage. Rounding could make this difference negative for a row with a leverage of almost 1.
_LEAST_FREE = float(np.finfo(np.float64).eps)

# Number of rows whose leave-one-out predictions are computed at a time. The factor is read once for these rows. Four
# arrays (rows, m) are held meanwhile.
_ROWS = 256


def leave_one_out_primal(
    factor: BlockedCholesky,
    statistics: RidgeStatistics,
    W: np.ndarray,
    some: FeatureRows,
) -> HeldOutScores:
    """Leave-one-out predictions for some of the training rows, from the primal solution.

    Parameters
    ----------
    factor : BlockedCholesky
        Factor of ``A + alpha I``, with A the centred Gram matrix of all training rows, of order m.
    statistics : RidgeStatistics
        Sums over all training rows.
    W : ndarray of shape (m, t)
        The solution.
    some : FeatureRows
        The rows to predict.

    Notes
    -----
    With ``e_i`` the residual and ``h_i = w_i (z_i^T (A + alpha I)^{-1} z_i + 1 / sum w)`` the leverage of a centred
    row, the residual without it is ``e_i / (1 - h_i)``. **Error.** Rounding. **Cost.** r m^2 flops.
    """
    Z, Y, predictions = np.asarray(some.block.to_host(), dtype=np.float64), some.targets, np.empty(some.targets.shape)
    for first in range(0, len(Y), _ROWS):
        rows = slice(first, first + _ROWS)
        weights = None if some.weights is None else some.weights[rows]
        centred = Z[rows] - statistics.sum_z / statistics.weight
        errors = Y[rows] - statistics.sum_y / statistics.weight - centred @ W
        forms = np.square(factor.solve_lower(times_root(centred, weights).T)).sum(axis=0)
        free = 1 - forms - (1.0 if weights is None else weights) / statistics.weight
        predictions[rows] = Y[rows] - errors / np.maximum(free, _LEAST_FREE)[:, None]
    return HeldOutScores(predictions, Y, some.weights)


def leave_one_out_dual(
    factor: BlockedCholesky,
    alpha: float,
    A: np.ndarray,
    rows: np.ndarray,
    Y: np.ndarray,
    weights: np.ndarray | None,
) -> HeldOutScores:
    """Leave-one-out predictions for some of the training rows, from the dual solution.

    Parameters
    ----------
    factor : BlockedCholesky
        Factor of ``K + alpha I``, of order n: see `solve_ridge_dual`.
    alpha : float
    A : ndarray of shape (n, t)
        ``(K + alpha I)^{-1} Y_c``.
    rows : ndarray of shape (r,)
        Indices of the rows to predict.
    Y : ndarray of shape (n, t)
    weights : ndarray of shape (n,) or None

    Notes
    -----
    **Error.** Rounding. **Cost.** r n^2 flops.
    """
    unit = np.zeros((factor.size, rows.size))
    unit[rows, np.arange(rows.size)] = 1.0
    diagonal = np.square(factor.solve_lower(unit)).sum(axis=0)
    shares, kept = weight_shares(weights, factor.size)[rows], None if weights is None else weights[rows]
    errors = without_root(dual_leave_one_out_errors(alpha, A[rows], diagonal, shares), kept)
    return HeldOutScores(Y[rows] - errors, Y[rows], kept)


def dual_leave_one_out_errors(alpha: float, duals: np.ndarray, diagonal: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Leave-one-out errors times the roots of the weights (r, t): see `solve_ridge_dual`.

    `duals` (r, t) are rows of ``(K + alpha I)^{-1} Y_c``, `diagonal` (r,) is the diagonal of ``(K + alpha I)^{-1}`` at
    these rows, and `shares` (r,) are their shares of the total weight.
    """
    free = np.maximum(alpha * diagonal - shares, _LEAST_FREE)
    return alpha * duals / free[:, None]


def weight_shares(weights: np.ndarray | None, n_rows: int) -> np.ndarray:
    """Weights (n_rows,) of the rows, divided by their total."""
    return (np.ones(n_rows) if weights is None else weights) / total_weight(weights, n_rows)


# Generalised cross-validation is trusted if the residual degrees of freedom are more than this factor times the
# standard deviation of their estimate. The estimate then has a relative error of at most a tenth. The score divides by
# the square of the estimate, so the relative error of the score is at most a fifth.
_TRUSTED = 10.0
# Least value of 1 minus a leverage that a few Lanczos steps estimate. It is the accuracy of such an estimate.
_LEAST_ESTIMATED = 1e-6


def validation_weights(random: FeatureRows, extreme: FeatureRows | None, n: float) -> np.ndarray:
    """Weights (r + k,) with which validation rows represent all rows; their sum is `n`.

    Each extreme row represents itself. The random rows represent all rows that are not extreme.
    """
    weights, of_extreme = random.weights_or_ones, np.empty(0) if extreme is None else extreme.weights_or_ones
    return np.concatenate([weights * (n - of_extreme.sum()) / weights.sum(), of_extreme])


class AlphaObjective(ABC):
    """The system ``(A + lam I) W = B``, and a score by which lam is chosen: lam minimises the score.

    Parameters
    ----------
    matrix : BlockTriangle
        A, of order m.
    rhs : ndarray of shape (m, t)
        B.
    eps : float
        Machine epsilon of the features.
    uncentred : BlockTriangle, optional
        The matrix before centring, which determines the rounding errors of A; by default A itself.
    noise : float, default=0.0
        Largest eigenvalue of A that may be due to rounding errors of the features.
    project : callable, optional
        Projection P of solutions that the score needs, see `ShiftedInverse`.
    vectors : ndarray of shape (m, k), optional
        Vectors whose quadratic forms the score needs.
    factor : ndarray of shape (m, p), optional
        F with ``A = F F^T`` and fewer columns than rows, see `ExactShiftedInverse`.
    """

    #: Value of `LinearSolution.criterion`.
    criterion: str
    #: Whether the score needs an eigendecomposition for any order of A.
    exact = False

    def __init__(
        self,
        matrix: BlockTriangle,
        rhs: np.ndarray,
        eps: float,
        *,
        uncentred: BlockTriangle | None = None,
        noise: float = 0.0,
        project: Projection | None = None,
        vectors: np.ndarray | None = None,
        factor: np.ndarray | None = None,
    ):
        self.matrix, self.rhs, self.eps, self.noise, self.factor = matrix, rhs, eps, noise, factor
        self.uncentred = matrix if uncentred is None else uncentred
        self.project, self.vectors = project, vectors

    @abstractmethod
    def score(self, inverse: Any, shifts: np.ndarray) -> np.ndarray:
        """Scores (g,) at values (g,) of lam; infinite if the score is not defined."""

    @abstractmethod
    def held_out_scores(self, inverse: Any, shift: float) -> HeldOutScores | None:
        """Predictions for each validation row by a model without it. Their weighted mean squared error is the score.

        None if the objective has no validation rows.
        """

    def coarse(self, columns: np.ndarray) -> AlphaObjective | None:
        """Return the objective for some of the features, whose alpha is a first guess.

        None if there is no such objective.
        """
        return None


class GeneralisedCrossValidation(AlphaObjective):
    """Generalised cross-validation of the primal system, from the sums over rows alone: see `solve_ridge`."""

    criterion = "gcv"

    def __init__(self, statistics: RidgeStatistics):
        self._statistics, self._squares = statistics, float(statistics.centred_squares().sum())
        matrix, rhs = statistics.centred_gram(), statistics.centred_cross()
        super().__init__(matrix, rhs, statistics.eps, uncentred=statistics.gram)

    def score(self, inverse: ShiftedInverse, shifts: np.ndarray) -> np.ndarray:
        # A row is left out with its whole weight, so n is the number of rows, not their weight.
        sums, squares, n = self._statistics, self._squares, self._statistics.n
        rss = squares - inverse.rhs_form(shifts) - shifts * inverse.rhs_form(shifts, power=2)
        dof = np.clip(sums.n_components - shifts * inverse.trace(shifts), 0, None)
        free = 1 - (dof + 1) / n
        # A fit without residual degrees of freedom has residuals of zero. If few degrees of freedom remain, their
        # estimate is uncertain.
        least = np.maximum(0.5, _TRUSTED * shifts * inverse.trace_standard_deviation(shifts)) / n
        # The residual sum of squares is a difference of two terms, so it has the rounding error of both terms.
        rss = np.maximum(rss, sums.eps * squares)
        undefined = np.full(shifts.shape, np.inf)
        return np.divide(rss / sums.weight, np.square(free), out=undefined, where=free > least)

    def held_out_scores(self, inverse: ShiftedInverse, shift: float) -> None:
        return None

    def coarse(self, columns: np.ndarray) -> GeneralisedCrossValidation:
        return GeneralisedCrossValidation(self._statistics.subset(columns))


class HeldOutError(AlphaObjective):
    """Squared error of the primal system on held-out rows, and on extreme rows that are left out one by one.

    Parameters
    ----------
    statistics : RidgeStatistics
        Sums over all rows but the held-out ones.
    random : FeatureRows
        The held-out rows. They represent all rows that are not extreme.
    extreme : FeatureRows or None
        Some of the rows of `statistics`.
    n_jobs : int or None
    """

    criterion = "held-out"

    def __init__(
        self, statistics: RidgeStatistics, random: FeatureRows, extreme: FeatureRows | None, n_jobs: int | None
    ):
        if extreme is None:
            shape = (0, statistics.n_components)
            extreme = FeatureRows(DenseBlock(np.empty(shape)), np.empty((0, random.targets.shape[1])))
        features = np.asarray(extreme.block.to_host(), dtype=np.float64)
        self._random = random = random._replace(block=random.block.to_dense())
        self._extreme = extreme = extreme._replace(block=DenseBlock(features))
        self._statistics, self._n_jobs = statistics, n_jobs
        self._mean_z, self._mean_y = statistics.sum_z / statistics.weight, statistics.sum_y / statistics.weight
        self._n_random, self._n_extreme = len(random.targets), len(extreme.targets)
        self._extreme_weight = total_weight(extreme.weights, self._n_extreme)
        self._weight = statistics.weight + total_weight(random.weights, self._n_random)
        self._targets = np.concatenate([random.targets, extreme.targets]) - self._mean_y
        super().__init__(
            statistics.centred_gram(),
            statistics.centred_cross(),
            statistics.eps,
            uncentred=statistics.gram,
            # A bound method would form a reference cycle and keep the arrays until the garbage collector runs.
            project=partial(_centred_products, (random, extreme), self._mean_z, n_jobs),
            vectors=times_root(features - self._mean_z, extreme.weights).T if self._n_extreme else None,
        )

    def score(self, inverse: ShiftedInverse, shifts: np.ndarray) -> np.ndarray:
        n = self._n_random
        squares = np.square(inverse.projected_solutions(shifts) - self._targets).sum(axis=2)
        error = weighted_mean(squares[:, :n], self._random.weights, axis=1)
        if not self._n_extreme:
            return error
        left_out = squares[:, n:] / np.square(self._free(inverse, shifts))
        of_extreme = weighted_sum(left_out, self._extreme.weights, axis=1)
        return ((self._weight - self._extreme_weight) * error + of_extreme) / self._weight

    def held_out_scores(self, inverse: ShiftedInverse, shift: float) -> HeldOutScores:
        shifts, n, targets = np.array([shift]), self._n_random, self._targets
        predictions = inverse.projected_solutions(shifts)[0]
        if not self._n_extreme:
            return HeldOutScores(self._mean_y + predictions, self._random.targets, self._random.weights)
        errors = predictions[n:] - targets[n:]
        predictions[n:] = targets[n:] + errors / self._free(inverse, shifts)[0, :, None]
        weights = validation_weights(self._random, self._extreme, self._weight)
        return HeldOutScores(self._mean_y + predictions, self._mean_y + targets, weights)

    def coarse(self, columns: np.ndarray) -> HeldOutError:
        random, extreme = (rows._replace(block=rows.block.columns(columns)) for rows in (self._random, self._extreme))
        return HeldOutError(self._statistics.subset(columns), random, extreme, self._n_jobs)

    def _free(self, inverse: ShiftedInverse, shifts: np.ndarray) -> np.ndarray:
        """1 minus the leverages of the extreme rows (g, k); nearly 0 for a row that the fit almost interpolates."""
        weights = 1 if self._extreme.weights is None else self._extreme.weights
        return np.maximum(1 - inverse.quadratic_forms(shifts) - weights / self._statistics.weight, _LEAST_ESTIMATED)


def _centred_products(
    parts: Sequence[FeatureRows], mean: np.ndarray, n_jobs: int | None, vectors: np.ndarray
) -> np.ndarray:
    """Return the products (r, k) of the rows of all parts, less their mean (m,), with `vectors` (m, k)."""
    vectors = np.ascontiguousarray(vectors)
    return np.concatenate([rows.block.times(vectors, n_jobs) for rows in parts]) - mean @ vectors


class DualHeldOutError(AlphaObjective):
    """Squared error of the dual system on a random tenth of the rows, with the other rows as training rows.

    If `units` are given, the rows of the first units are held out. Only the rows of the mask `chooses` (n,) are scored,
    by default all held-out rows.
    """

    criterion = "held-out"

    def __init__(
        self,
        rows: CentredRows,
        Y: np.ndarray,
        weights: np.ndarray | None,
        eps: float,
        rng: RandomState,
        n_jobs: int | None,
        units: RowUnits | None = None,
        chooses: np.ndarray | None = None,
    ):
        if units is None:
            order = named_streams(rng, "held-out")["held-out"].permutation(Y.shape[0])
            held_out, kept = np.split(order, [Y.shape[0] // 10])
        else:
            held_out, kept = units.held_out(Y.shape[0] // 10)
        if chooses is not None and (left := held_out[chooses[held_out]]).size:
            held_out = left
        matrix, between = rows.split(kept, held_out)
        kept_weights, self._weights = (None, None) if weights is None else (weights[kept], weights[held_out])
        self._mean_y, self._targets = weighted_mean(Y[kept], kept_weights), Y[held_out]
        super().__init__(
            matrix,
            times_root(Y[kept] - self._mean_y, kept_weights),
            eps,
            noise=rows.noise(eps, total_weight(kept_weights, kept.size)),
            project=lambda vectors: DenseBlock(between).times(vectors, n_jobs),
        )

    def score(self, inverse: ShiftedInverse, shifts: np.ndarray) -> np.ndarray:
        errors = inverse.projected_solutions(shifts) - (self._targets - self._mean_y)
        return weighted_mean(np.square(errors).sum(axis=2), self._weights, axis=1)

    def held_out_scores(self, inverse: ShiftedInverse, shift: float) -> HeldOutScores:
        predictions = self._mean_y + inverse.projected_solutions(np.array([shift]))[0]
        return HeldOutScores(predictions, self._targets, self._weights)


class LeaveOneOutError(AlphaObjective):
    """Exact leave-one-out error of the dual system ``(matrix + lam I) A = rhs``: see `solve_ridge_dual`.

    Only the rows of the mask `chooses` (n,) are scored, by default all rows.
    """

    criterion = "leave-one-out"
    exact = True

    def __init__(
        self,
        rows: CentredRows,
        matrix: BlockTriangle,
        rhs: np.ndarray,
        Y: np.ndarray,
        weights: np.ndarray | None,
        eps: float,
        chooses: np.ndarray | None = None,
    ):
        self._Y, self._weights, self._shares = Y, weights, weight_shares(weights, Y.shape[0])
        self._chooses = slice(None) if chooses is None else chooses
        noise = rows.noise(eps, total_weight(weights, Y.shape[0]))
        super().__init__(matrix, rhs, eps, noise=noise, factor=rows.thin_factor())

    def score(self, inverse: Any, shifts: np.ndarray) -> np.ndarray:
        some = self._chooses
        squares = np.stack([np.square(errors[some]).sum(axis=1) for errors in self._errors(inverse, shifts)])
        # The errors include the roots of the weights.
        return squares.mean(axis=1) if self._weights is None else squares.sum(axis=1) / self._weights[some].sum()

    def held_out_scores(self, inverse: Any, shift: float) -> HeldOutScores:
        errors = without_root(next(self._errors(inverse, np.array([shift]))), self._weights)
        some, Y = self._chooses, self._Y
        return HeldOutScores((Y - errors)[some], Y[some], None if self._weights is None else self._weights[some])

    def _errors(self, inverse: Any, shifts: np.ndarray) -> Iterator[np.ndarray]:
        """Leave-one-out errors times the roots of the weights (n, t), for one shift after another."""
        # With many targets, errors at all shifts would be the largest arrays of a fit. The shifts are therefore
        # processed one by one.
        for shift, diagonal in zip(shifts, inverse.diagonals(shifts), strict=True):
            duals = inverse.projected_solutions(np.array([shift]))[0]
            yield dual_leave_one_out_errors(shift, duals, diagonal, self._shares)


class LeaveUnitsOutError(LeaveOneOutError):
    """The score of `LeaveOneOutError`, for units of rows that are left out together.

    Notes
    -----
    Let ``M = (K + lam I)^{-1} - s s^T / (lam |s|^2)`` with s the roots of the weights. For the rows G of a unit, the
    errors of a fit without them, times the roots of their weights, are ``M_GG^{-1} a_G`` with ``a = (K + lam I)^{-1}
    Y_c``. For a single row this is `dual_leave_one_out_errors`. **Cost.** ``n sum_G |G|^2`` flops for each shift.
    """

    criterion = "leave-one-out"

    def __init__(self, units: RowUnits, *args: Any):
        super().__init__(*args)
        self._units = units.members()

    def _errors(self, inverse: Any, shifts: np.ndarray) -> Iterator[np.ndarray]:
        roots = np.sqrt(self._shares)
        for shift in shifts:
            duals = inverse.projected_solutions(np.array([shift]))[0]
            errors = np.empty_like(duals)
            for rows in self._units:
                block = shift * inverse.block(shift, rows) - np.outer(roots[rows], roots[rows])
                errors[rows] = shift * solve_positive(block, duals[rows])
            yield errors


def solve_positive(matrix: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return ``matrix^-1 B`` (r, t) for a positive semidefinite matrix (r, r).

    Eigenvalues that rounding has made negative are replaced by a small positive number.
    """
    with single_threaded_blas():
        try:
            return linalg.cho_solve(linalg.cho_factor(matrix, lower=True), B)
        except linalg.LinAlgError:
            values, vectors = np.linalg.eigh(matrix)
            return vectors @ ((vectors.T @ B) / np.maximum(values, _LEAST_FREE)[:, None])
