"""Functions of a large symmetric matrix for every shift at once, from one factorisation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from phimap.learn.cholesky import BlockedCholesky, BlockTriangle
from phimap.ops import single_threaded_blas

# Up to this order an eigendecomposition costs less than the Lanczos steps and their overhead.
EXACT_ORDER = 768
_MOST_STEPS = 96
# Steps between two looks at whether the curves still move.
_STEPS_BETWEEN_CHECKS = 4


class ShiftedInverse(ABC):
    """``b^T (A + lam I)^{-1} b``, ``b^T (A + lam I)^{-2} b`` and ``tr (A + lam I)^{-1}`` as functions of lam.

    A is symmetric positive semidefinite of order m, b runs over the columns of B (m, t).
    """

    @abstractmethod
    def quadratic(self, shifts: np.ndarray) -> np.ndarray:
        """Sum over the columns of ``b^T (A + lam I)^{-1} b``, one value a shift."""

    @abstractmethod
    def quadratic_squared(self, shifts: np.ndarray) -> np.ndarray:
        """Sum over the columns of ``b^T (A + lam I)^{-2} b``, one value a shift."""

    @abstractmethod
    def trace(self, shifts: np.ndarray) -> np.ndarray:
        """``tr (A + lam I)^{-1}``, one value a shift."""


class ExactShiftedInverse(ShiftedInverse):
    """By the eigendecomposition of A: the slow oracle, and the method for small orders.

    Parameters
    ----------
    matrix : BlockTriangle
        A of order m.
    B : ndarray of shape (m, t)

    Notes
    -----
    **Error.** Rounding. **Cost.** About 9 m^3 flops and two m x m arrays.
    **Differs from the source in** nothing.
    """

    def __init__(self, matrix: BlockTriangle, B: np.ndarray):
        with single_threaded_blas():
            eigenvalues, vectors = np.linalg.eigh(matrix.to_dense())
            self._weights = np.square(vectors.T @ B).sum(axis=1)
        # Rounding can leave the zero eigenvalues of a singular matrix slightly negative.
        self._eigenvalues = np.maximum(eigenvalues, 0)

    def quadratic(self, shifts: np.ndarray) -> np.ndarray:
        return (self._weights / (self._eigenvalues + shifts[:, None])).sum(axis=1)

    def quadratic_squared(self, shifts: np.ndarray) -> np.ndarray:
        return (self._weights / np.square(self._eigenvalues + shifts[:, None])).sum(axis=1)

    def trace(self, shifts: np.ndarray) -> np.ndarray:
        return (1 / (self._eigenvalues + shifts[:, None])).sum(axis=1)


class LanczosShiftedInverse(ShiftedInverse):
    """By Gauss quadrature from Lanczos recurrences with ``M = (A + shift I)^{-1}``, shift the least lam asked for.

    With theta an eigenvalue of M, ``1 / (a + lam) = theta / (1 + (lam - shift) theta)``: every function wanted is
    a function of M, smooth on its spectrum, and ``b^T f(M) b = |b|^2 sum_k omega_k f(theta_k)`` to rounding once
    the tridiagonal matrix of the recurrence started at b, with eigenvalues theta and squared first components
    omega, has enough rows. One recurrence runs for each column of B and for each random sign vector that
    estimates the trace (Hutchinson), all together: a step is one solve with many right-hand sides.

    Parameters
    ----------
    factor : BlockedCholesky
        Factor of ``A + shift I``.
    shift : float
    B : ndarray of shape (m, t)
    rng : numpy.random.Generator
        Draws the probes.
    n_probes : int, default=8
    settled : callable, optional
        Called with this object every few steps; the recurrences end when it returns True. By default, when the
        trace and the quadratic forms at the shift itself, which converge last, are steady to 1e-4.

    Attributes
    ----------
    n_steps : int
        Steps taken.

    Notes
    -----
    **Error.** The quadrature converges geometrically in the number of steps. The trace has a relative standard
    deviation of at most ``sqrt(2 / (n_probes r))``, with r = ``(sum theta)^2 / sum theta^2`` the effective rank of
    M: below 1 % for orders above 2,500 with half of the spectrum below lam. The same probes serve every lam, so the
    error hardly moves the minimum of a curve.

    **Cost.** A step reads the factor twice, whatever the number of columns.

    **Differs from the source in** the shifted and inverted matrix in place of A, which the source uses: Lanczos
    converges first where the functions vary most.

    References
    ----------
    Golub, Meurant (2010), *Matrices, moments and quadrature with applications*, Chapters 6, 7 and 11;
    Hutchinson (1990), *A stochastic estimator of the trace of the influence matrix*.
    """

    def __init__(
        self,
        factor: BlockedCholesky,
        shift: float,
        B: np.ndarray,
        rng: np.random.Generator,
        *,
        n_probes: int = 8,
        settled: Callable[[LanczosShiftedInverse], bool] | None = None,
    ):
        probes = 2.0 * rng.integers(2, size=(factor.size, n_probes)) - 1.0
        start = np.concatenate([B, probes], axis=1)
        self._shift = shift
        self._order = factor.size
        self._n_probes = n_probes
        self._norms = np.square(start).sum(axis=0)
        self._settled = settled or _Steady()
        self._run(factor, start)

    def quadratic(self, shifts: np.ndarray) -> np.ndarray:
        return self._sum_over(self._targets, self._resolvent(shifts))

    def quadratic_squared(self, shifts: np.ndarray) -> np.ndarray:
        return self._sum_over(self._targets, np.square(self._resolvent(shifts)))

    def trace(self, shifts: np.ndarray) -> np.ndarray:
        return self._sum_over(self._probes, self._resolvent(shifts)) / self._n_probes

    @property
    def _targets(self) -> slice:
        return slice(0, self._norms.size - self._n_probes)

    @property
    def _probes(self) -> slice:
        return slice(self._norms.size - self._n_probes, None)

    def _resolvent(self, shifts: np.ndarray) -> np.ndarray:
        """``theta / (1 + (lam - shift) theta)``: (n_shifts, n_columns, n_steps)."""
        return self._nodes / (1 + (np.asarray(shifts)[:, None, None] - self._shift) * self._nodes)

    def _sum_over(self, columns: slice, values: np.ndarray) -> np.ndarray:
        weighted = values[:, columns] * self._weights[columns]
        return weighted.sum(axis=2) @ self._norms[columns]

    def _run(self, factor: BlockedCholesky, start: np.ndarray) -> None:
        """Extend all recurrences until the functions are settled."""
        n_columns = start.shape[1]
        norms = np.sqrt(self._norms)
        # A zero column (a constant target) has a zero quadratic form whatever its recurrence gives.
        current = np.divide(start, norms, out=np.zeros_like(start), where=norms > 0)
        previous = np.zeros_like(current)
        diagonal = np.zeros((0, n_columns))
        beside = np.zeros((0, n_columns))
        beta = np.zeros(n_columns)
        for step in range(1, min(_MOST_STEPS, factor.size) + 1):
            image = factor.solve(current) - beta * previous
            alpha = np.einsum("ij,ij->j", image, current)
            image -= alpha * current
            beta = np.sqrt(np.einsum("ij,ij->j", image, image))
            diagonal = np.vstack([diagonal, alpha])
            # A recurrence that has spanned its space goes on from zero: its later nodes have weight zero.
            beta[beta <= 64 * np.finfo(np.float64).eps * np.abs(diagonal).max(axis=0)] = 0
            previous, current = current, np.divide(image, beta, out=np.zeros_like(image), where=beta > 0)
            self.n_steps = step
            if step % _STEPS_BETWEEN_CHECKS == 0 or not beta.any() or step == factor.size:
                self._set_quadrature(diagonal, beside)
                if not beta.any() or self._settled(self):
                    return
            beside = np.vstack([beside, beta])
        self._set_quadrature(diagonal, beside[: diagonal.shape[0] - 1])

    def _set_quadrature(self, diagonal: np.ndarray, beside: np.ndarray) -> None:
        """Nodes and weights (n_columns, n_steps) from the tridiagonal matrices."""
        n_steps, n_columns = diagonal.shape
        tridiagonal = np.zeros((n_columns, n_steps, n_steps))
        index = np.arange(n_steps)
        tridiagonal[:, index, index] = diagonal.T
        tridiagonal[:, index[1:], index[:-1]] = beside.T
        with single_threaded_blas():
            nodes, vectors = np.linalg.eigh(tridiagonal)
        self._nodes = np.maximum(nodes, 0)
        self._weights = np.square(vectors[:, 0, :])


class _Steady:
    """Whether trace and quadratic forms at the shift have stopped moving."""

    def __init__(self):
        self._last = np.full(2, np.inf)

    def __call__(self, inverse: LanczosShiftedInverse) -> bool:
        at = np.array([inverse._shift])
        now = np.concatenate([inverse.quadratic(at), inverse.trace(at)])
        steady = np.allclose(now, self._last, rtol=1e-4, atol=0)
        self._last = now
        return steady
