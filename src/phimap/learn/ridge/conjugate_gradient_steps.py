"""Preconditioned conjugate gradients for several right-hand sides, and solutions by the factor of a nearby matrix."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from phimap.learn.blocks.triangle import BlockTriangle
from phimap.learn.ridge.cholesky import BlockedCholesky


class ConjugateGradientState:
    """Approximate solutions (m, t) of ``(A + shift I) W = B``, improved step by step.

    Each column has its own step length.

    Parameters
    ----------
    rhs : ndarray of shape (m, t)
        B.
    shift : float
        Number that is added to the diagonal of A, such as alpha.
    precondition : callable
        Applies an approximate inverse of ``A + shift I`` to an array (m, t).

    Attributes
    ----------
    shift : float
    solution, directions : ndarray of shape (m, t)
        Current solutions, and the directions of the next step. This step needs the product of A with the directions.
    n_steps : int
        Steps since the last start.
    started : float
        Norm of the residuals over the norm of B, at the last start.
    """

    def __init__(self, rhs: np.ndarray, shift: float, precondition: Callable[[np.ndarray], np.ndarray]):
        self._rhs, self.shift, self._precondition = rhs, shift, precondition
        self.restart(np.zeros_like(rhs), np.zeros_like(rhs))

    def restart(self, solution: np.ndarray, image: np.ndarray) -> None:
        """Begin at `solution`, whose product with A is `image`."""
        self.solution, self.n_steps = solution.copy(), 0
        self._residuals = self._rhs - image - self.shift * solution
        z = self._precondition(self._residuals)
        self.directions, self._energies = z, (self._residuals * z).sum(axis=0)
        self.started: float = self.residual

    def step(self, image: np.ndarray) -> None:
        """Take one step along the directions, whose product with A is `image`."""
        image = image + self.shift * self.directions
        curvature = (self.directions * image).sum(axis=0)
        # The directions of a solved column are zero.
        lengths = np.divide(self._energies, curvature, out=np.zeros_like(curvature), where=curvature > 0)
        self.solution += lengths * self.directions
        self._residuals -= lengths * image
        z = self._precondition(self._residuals)
        energies = (self._residuals * z).sum(axis=0)
        self.directions *= np.divide(energies, self._energies, out=np.zeros_like(energies), where=self._energies > 0)
        self.directions += z
        self._energies = energies
        self.n_steps += 1

    @property
    def image(self) -> np.ndarray:
        """The product of A with the solution, by the recurrence."""
        return self._rhs - self._residuals - self.shift * self.solution

    @property
    def residual(self) -> float:
        """Norm of the residuals of the recurrence, divided by the norm of the right-hand sides."""
        return relative_size(self._residuals, self._rhs)

    @property
    def energy(self) -> float:
        """Squared norm of the residuals in the metric of the preconditioner, summed over columns.

        This estimates the remaining change of the sum of squared errors of the fit.
        """
        return float(self._energies.sum())


def relative_size(residuals: np.ndarray, rhs: np.ndarray) -> float:
    """Norm of the residuals, divided by the norm of the right-hand sides; 0 if the right-hand sides are zero."""
    size = np.linalg.norm(rhs)
    return float(np.linalg.norm(residuals) / size) if size > 0 else 0.0


# Relative residual of the recurrence at which the steps end.
_TOLERANCE = 1e-12
# Largest relative residual of a solution that is accepted. Rounding can make it larger than the residual that the
# recurrence of conjugate gradients computes.
_TRUSTED = 1e-10
# This number times the number of features is the number of steps that take half the time of a factorisation. It was
# measured for orders of 4,096 and 8,192, and for up to `_COLUMNS_PER_READING` columns. Steps on more columns take
# longer. A step reads the factor twice and the matrix once.
_STEPS_PER_FEATURE = 1 / 200
_COLUMNS_PER_READING = 8
# Assumed factor by which held-out rows, at most a tenth of all rows, widen the range of the eigenvalues.
_ADDED = 1.2


def solve_from_nearby(
    matrix: BlockTriangle, rhs: np.ndarray, shift: float, factor: BlockedCholesky, n_jobs: int | None = None
) -> np.ndarray | None:
    """Solve ``(A + shift I) W = B`` with the factor of ``A' + shift' I``, where A' is A without a few rows.

    Parameters
    ----------
    matrix : BlockTriangle
        A of order m.
    rhs : ndarray of shape (m, t)
        B.
    shift : float
    factor : BlockedCholesky
        Factor of ``A' + shift' I``.
    n_jobs : int, optional
        Threads; the result does not depend on them.

    Returns
    -------
    ndarray of shape (m, t) or None
        None if a factorisation of ``A + shift I`` would be cheaper, or if rounding leaves a residual above 1e-10.

    Notes
    -----
    Preconditioned conjugate gradients. The eigenvalues of ``(A' + shift' I)^{-1} (A + shift I)`` lie between
    ``min(1, shift / shift')`` and about ``1.2 max(1, shift / shift')``. If some rows of A are unlike all rows of A', a
    few eigenvalues lie far above; each takes one further step. With the ratio q of the bounds a step multiplies the
    error by ``(sqrt(q) - 1) / (sqrt(q) + 1)``.

    **Error.** The residual of the recurrence is 1e-12 of the right-hand side. **Cost.** A step reads the factor twice
    and A once; there are at most m / 100 steps.

    References
    ----------
    Hestenes, Stiefel (1952), *Methods of conjugate gradients for solving linear systems*.
    """
    most = matrix.size * _STEPS_PER_FEATURE * min(1.0, _COLUMNS_PER_READING / rhs.shape[1])
    if expected_steps(shift / factor.shift) > most:
        return None
    state = ConjugateGradientState(rhs, shift, factor.solve)
    while state.residual > _TOLERANCE:
        if state.n_steps >= 2 * most:
            return None
        state.step(matrix.matmul(state.directions, n_jobs))
    W = state.solution
    left = relative_size(rhs - matrix.matmul(W, n_jobs) - shift * W, rhs)
    return W if left <= _TRUSTED else None


def expected_steps(ratio: float) -> float:
    """Expected number of steps of `solve_from_nearby`, given the ratio of the shift to the shift of the factor."""
    root = math.sqrt(_ADDED * max(ratio, 1 / ratio))
    return math.log(_TOLERANCE) / math.log((root - 1) / (root + 1))
