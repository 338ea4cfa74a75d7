"""Functions of a large symmetric matrix plus a multiple of the identity, for all multiples from one factorisation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from phimap.learn.blocks.triangle import BlockTriangle
from phimap.learn.ridge.cholesky import BlockedCholesky
from phimap.ops import single_threaded_blas

#: Largest number of Lanczos steps.
MOST_STEPS = 96
# Number of steps between two checks whether the functions have converged.
_STEPS_BETWEEN_CHECKS = 4

#: A linear map of the columns of an array (m, k) to the columns of an array (r, k).
Projection = Callable[[np.ndarray], np.ndarray]


class ShiftedInverse(ABC):
    """``(A + lam I)^{-1} B``, its projections, quadratic forms and traces, as functions of lam.

    A is symmetric positive semidefinite of order m, B is (m, t), R is (m, k), P is a linear map from R^m to R^r.

    Attributes
    ----------
    least_eigenvalue : float
        Least eigenvalue of the stored A, or an upper bound of it. If it is negative, rounding has made A indefinite.
    """

    least_eigenvalue: float

    @abstractmethod
    def projected_solutions(self, shifts: np.ndarray) -> np.ndarray:
        """``P (A + lam I)^{-1} B`` (g, r, t) at each of g shifts."""

    @abstractmethod
    def rhs_form(self, shifts: np.ndarray, power: int = 1) -> np.ndarray:
        """``tr B^T (A + lam I)^{-power} B`` (g,), for power 1 or 2."""

    @abstractmethod
    def quadratic_forms(self, shifts: np.ndarray) -> np.ndarray:
        """``r^T (A + lam I)^{-1} r`` (g, k) for each of k columns r of R."""

    @abstractmethod
    def trace(self, shifts: np.ndarray) -> np.ndarray:
        """``tr (A + lam I)^{-1}`` (g,)."""

    @abstractmethod
    def trace_standard_deviation(self, shifts: np.ndarray) -> np.ndarray:
        """Estimated standard deviation of `trace` (g,)."""


class ExactShiftedInverse(ShiftedInverse):
    """Functions of lam from the eigendecomposition of A, for small orders and as the reference in tests.

    Parameters
    ----------
    matrix : BlockTriangle
        A of order m.
    B : ndarray of shape (m, t)
    project : callable or None
        P; None for the identity.
    R : ndarray of shape (m, k) or None
        None if `quadratic_forms` is not needed.
    factor : ndarray of shape (m, p) or None
        F with ``A = F F^T``, if there is one with fewer columns than rows.

    Notes
    -----
    With ``F = Q T``, where Q has orthonormal columns, and with the eigenvectors S of ``T T^T``, the columns of ``V = Q
    S`` are eigenvectors of A. All others have the eigenvalue 0, so with the diagonal matrix D of the ``1 / (a + lam)``
    the inverse is ``V D V^T + (I - V V^T) / lam``.

    **Error.** Rounding. **Cost.** About 9 m^3 flops and two m x m arrays. With a factor, about ``6 m p^2 + 9 p^3``
    flops and two m x p arrays. **Differs from the source in** nothing.
    """

    def __init__(
        self,
        matrix: BlockTriangle,
        B: np.ndarray,
        project: Projection | None = None,
        R: np.ndarray | None = None,
        factor: np.ndarray | None = None,
    ):
        with single_threaded_blas():
            if factor is None:
                eigenvalues, self._vectors = np.linalg.eigh(matrix.to_dense())
            else:
                Q, triangle = np.linalg.qr(factor)
                eigenvalues, vectors = np.linalg.eigh(triangle @ triangle.T)
                self._vectors = Q @ vectors
            self._coordinates = self._vectors.T @ B
            self._projected = self._vectors if project is None else project(self._vectors)
            self._squares = None if R is None else np.square(self._vectors.T @ R)
            # The parts of B, of R and of the identity outside of the span of the vectors; 0 if the vectors are a basis.
            self._outside, self._outside_form, self._outside_squares, self._outside_diagonal = 0.0, 0.0, 0.0, 0.0
            if factor is not None:
                outside = B - self._vectors @ self._coordinates
                self._outside = outside if project is None else project(outside)
                self._outside_form = np.square(outside).sum()
                self._outside_diagonal = np.maximum(1 - np.square(self._vectors).sum(axis=1), 0)
                if R is not None and self._squares is not None:
                    self._outside_squares = np.maximum(np.square(R).sum(axis=0) - self._squares.sum(axis=0), 0)
        self.least_eigenvalue = float(eigenvalues[0]) if factor is None else 0.0
        # Rounding can leave the zero eigenvalues of a singular matrix slightly negative.
        self._eigenvalues = np.maximum(eigenvalues, 0)

    def projected_solutions(self, shifts: np.ndarray) -> np.ndarray:
        with single_threaded_blas():
            return np.stack(
                [
                    self._projected @ (self._coordinates * inverse[:, None]) + self._outside / shift
                    for shift, inverse in zip(shifts, self._inverses(shifts), strict=True)
                ]
            )

    def rhs_form(self, shifts: np.ndarray, power: int = 1) -> np.ndarray:
        inside = (self._inverses(shifts) ** power * np.square(self._coordinates).sum(axis=1)).sum(axis=1)
        return inside + self._outside_form / np.asarray(shifts) ** power

    def quadratic_forms(self, shifts: np.ndarray) -> np.ndarray:
        with single_threaded_blas():
            return self._inverses(shifts) @ self._squares + self._outside_squares / np.asarray(shifts)[:, None]

    def trace(self, shifts: np.ndarray) -> np.ndarray:
        return self._inverses(shifts).sum(axis=1) + self._n_outside / np.asarray(shifts)

    def trace_standard_deviation(self, shifts: np.ndarray) -> np.ndarray:
        return np.zeros(np.shape(shifts))

    def diagonals(self, shifts: np.ndarray) -> np.ndarray:
        """Diagonals of ``(A + lam I)^{-1}`` (g, m)."""
        with single_threaded_blas():
            inside = self._inverses(shifts) @ np.square(self._vectors).T
        return inside + self._outside_diagonal / np.asarray(shifts)[:, None]

    def block(self, shift: float, rows: np.ndarray) -> np.ndarray:
        """The entries (r, r) of ``(A + lam I)^{-1}`` at some rows and columns."""
        vectors, inverses = self._vectors[rows], self._inverses(np.array([shift]))
        with single_threaded_blas():
            if not self._n_outside:
                return (vectors * inverses) @ vectors.T
            return (vectors * (inverses - 1 / shift)) @ vectors.T + np.eye(rows.size) / shift

    @property
    def _n_outside(self) -> int:
        """Number of eigenvectors, all with the eigenvalue 0, that are not stored."""
        return self._vectors.shape[0] - self._vectors.shape[1]

    def _inverses(self, shifts: np.ndarray) -> np.ndarray:
        """``1 / (a + lam)`` (g, m)."""
        return 1 / (self._eigenvalues + np.asarray(shifts)[:, None])


class LanczosShiftedInverse(ShiftedInverse):
    """Functions of lam by Lanczos recurrences with ``M = (A + shift I)^{-1}``.

    With a an eigenvalue of A and theta the corresponding eigenvalue of M,
    ``1 / (a + lam) = theta / (1 + (lam - shift) theta)``: each function of lam is a function f of M that is smooth on
    its spectrum. A recurrence from b gives orthonormal vectors V and a tridiagonal matrix T. Once T has enough rows,
    ``f(M) b = |b| V f(T) e_1`` and ``b^T f(M) b = |b|^2 e_1^T f(T) e_1`` up to rounding. One recurrence runs for each
    column of B and for each random sign vector that estimates the trace (Hutchinson). They run together: a step is one
    solve with many right-hand sides. Only the projections P V are kept, not V.

    Parameters
    ----------
    factor : BlockedCholesky
        Factor of ``A + shift I``.
    shift : float
    B : ndarray of shape (m, t)
    settled : callable
        Called with this object every few steps. The recurrences end when it returns True.
    project : callable or None, default=None
        P; None if `projected_solutions` is not needed.
    probes : ndarray of shape (m, n_probes) or None, default=None
        Random signs, two columns or more; None if `trace` is not needed.
    R : ndarray of shape (m, k) or None, default=None
        None if `quadratic_forms` is not needed. The recurrences of R always take four steps.

    Attributes
    ----------
    n_steps : int
        Steps taken.

    Notes
    -----
    **Error.** Convergence is geometric in the number of steps. The trace has a relative standard deviation of at most
    ``sqrt(2 / (n_probes r))``, with r = ``(sum theta)^2 / sum theta^2`` the effective rank of M: below 1 % for eight
    probes and r above 2,500. All values of lam share the probes, so this error hardly moves the minimum of a curve.

    **Cost.** A step reads the factor twice for any number of columns.

    **Differs from the source in** the use of M in place of A. For M, Lanczos converges first at the small eigenvalues
    of A, where the functions vary most.

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
        settled: Callable[[LanczosShiftedInverse], bool],
        *,
        project: Projection | None = None,
        probes: np.ndarray | None = None,
        R: np.ndarray | None = None,
    ):
        if R is not None:
            # The recurrences of R end at the first check.
            self._of_R = LanczosShiftedInverse(factor, shift, R, lambda _: True)
        self._shift = shift
        self._project = project
        self._n_targets = B.shape[1]
        start = B if probes is None else np.concatenate([B, probes], axis=1)
        self._norms = np.sqrt(np.square(start).sum(axis=0))
        self._projections: list[np.ndarray] = []
        self.n_steps = 0
        self._run(factor, start, settled)

    def projected_solutions(self, shifts: np.ndarray) -> np.ndarray:
        t = self._n_targets
        # Coefficients ``|b| f(T) e_1`` (g, t, n_steps) of the vectors V.
        first = self._vectors[:t, 0, :]
        coefficients = np.einsum("tsk,gtk->gts", self._vectors[:t], self._resolvent(shifts)[:, :t] * first)
        coefficients *= self._norms[:t, None]
        stacked = np.stack(self._projections[: self.n_steps], axis=2)
        with single_threaded_blas():
            return np.stack([coefficients[:, j] @ stacked[:, j].T for j in range(t)], axis=2)

    def rhs_form(self, shifts: np.ndarray, power: int = 1) -> np.ndarray:
        t = self._n_targets
        values = self._resolvent(shifts)[:, :t] ** power * np.square(self._vectors[:t, 0, :])
        return values.sum(axis=2) @ np.square(self._norms[:t])

    def quadratic_forms(self, shifts: np.ndarray) -> np.ndarray:
        return self._of_R._forms_of(slice(None), shifts)

    def trace(self, shifts: np.ndarray) -> np.ndarray:
        return self._traces(shifts).mean(axis=1)

    def trace_standard_deviation(self, shifts: np.ndarray) -> np.ndarray:
        traces = self._traces(shifts)
        return traces.std(axis=1, ddof=1) / np.sqrt(traces.shape[1])

    def _traces(self, shifts: np.ndarray) -> np.ndarray:
        """Estimates (g, n_probes) of the trace, one for each probe."""
        return self._forms_of(slice(self._n_targets, None), shifts)

    def _forms_of(self, columns: slice, shifts: np.ndarray) -> np.ndarray:
        """``b^T (A + lam I)^{-1} b`` (g, n_columns) for start vectors b of the recurrences."""
        weights = np.square(self._vectors[columns, 0, :] * self._norms[columns, None])
        return (self._resolvent(shifts)[:, columns] * weights).sum(axis=2)

    def _resolvent(self, shifts: np.ndarray) -> np.ndarray:
        """``theta / (1 + (lam - shift) theta)``: (g, n_columns, n_steps)."""
        return self._nodes / (1 + (np.asarray(shifts)[:, None, None] - self._shift) * self._nodes)

    def _run(self, factor: BlockedCholesky, start: np.ndarray, settled: Callable[..., bool]) -> None:
        """Extend all recurrences until `settled` returns True."""
        # A zero column, for example from a constant target, has zero projections. The result of its recurrence is not
        # used.
        current = np.divide(start, self._norms, out=np.zeros_like(start), where=self._norms > 0)
        previous = np.zeros_like(current)
        beta = np.zeros(start.shape[1])
        diagonal, beside = [], []
        most = min(MOST_STEPS, factor.size)
        for step in range(1, most + 1):
            if self._project is not None:
                self._projections.append(self._project(current[:, : self._n_targets]))
            image = factor.solve(current) - beta * previous
            alpha = np.einsum("ij,ij->j", image, current)
            image -= alpha * current
            beta = np.sqrt(np.einsum("ij,ij->j", image, image))
            diagonal.append(alpha)
            # A recurrence that has spanned its Krylov space continues from zero. The weights of its later nodes are
            # zero.
            beta[beta <= 64 * np.finfo(np.float64).eps * np.max(diagonal, axis=0)] = 0
            previous, current = current, np.divide(image, beta, out=np.zeros_like(image), where=beta > 0)
            if step % _STEPS_BETWEEN_CHECKS == 0 or step == most or not beta.any():
                self._diagonalise(np.array(diagonal), np.array(beside))
                if not beta.any() or settled(self):
                    return
            beside.append(beta)

    def _diagonalise(self, diagonal: np.ndarray, beside: np.ndarray) -> None:
        """Compute eigenvalues (n_columns, n_steps) and eigenvectors of the tridiagonal matrices."""
        self.n_steps, n_columns = diagonal.shape
        index = np.arange(self.n_steps)
        tridiagonal = np.zeros((n_columns, self.n_steps, self.n_steps))
        tridiagonal[:, index, index] = diagonal.T
        if self.n_steps > 1:
            tridiagonal[:, index[1:], index[:-1]] = beside.T
        with single_threaded_blas():
            nodes, self._vectors = np.linalg.eigh(tridiagonal)
        self._nodes = np.maximum(nodes, 0)
        largest = self._nodes.max(initial=0)
        # The recurrences find the largest eigenvalue of M first. It belongs to the least eigenvalue of A.
        self.least_eigenvalue = 1 / largest - self._shift if largest > 0 else 0.0
