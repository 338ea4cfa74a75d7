"""The solution of a system by conjugate gradients with the factor of a similar system."""

from __future__ import annotations

import math

import numpy as np

from phimap.learn.blocks.triangle import BlockTriangle
from phimap.learn.ridge.cholesky import BlockedCholesky
from phimap.learn.ridge.conjugate_gradient_steps import ConjugateGradientState, relative_size

_TOLERANCE = 1e-12
# Largest accepted residual of the solution: rounding can keep it above the residual of the recurrence.
_TRUSTED = 1e-10
# A step reads the factor twice and the matrix once. This number of steps per feature takes half the time of a
# factorisation, as measured for orders of 4,096 and 8,192 and up to eight columns; more columns take longer.
_STEPS_PER_FEATURE = 1 / 200
_COLUMNS_PER_READING = 8
# Factor by which the held-out rows, at most a tenth of all rows, widen the range of the eigenvalues.
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

    **Error.** A residual of 1e-12 of the right-hand side by the recurrence.
    **Cost.** A step reads the factor twice and A once; there are at most m / 100 steps.

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
    """Expected number of steps for a ratio of the shifts: see `solve_from_nearby`."""
    root = math.sqrt(_ADDED * max(ratio, 1 / ratio))
    return math.log(_TOLERANCE) / math.log((root - 1) / (root + 1))
