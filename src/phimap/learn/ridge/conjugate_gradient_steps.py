"""Preconditioned conjugate gradients for several right-hand sides with one shift."""

from __future__ import annotations

from typing import Protocol

import numpy as np


class SystemPreconditioner(Protocol):
    """An approximation of ``A + shift I`` whose inverse is known."""

    @property
    def lost(self) -> float:
        """A bound on the eigenvalues of A that it leaves out."""
        ...

    def solve(self, R: np.ndarray, shift: float, /) -> np.ndarray:
        """Apply its inverse to `R` (m, t)."""
        ...


class ConjugateGradientState:
    """Solutions of ``(A + shift I) W = B`` (m, t) on the way, each column with its own steps.

    Parameters
    ----------
    rhs : ndarray of shape (m, t)
        B.
    shift : float
    preconditioner : Preconditioner

    Attributes
    ----------
    shift : float
    solution, directions : ndarray of shape (m, t)
        Of the directions the next step needs the product with A.
    n_steps : int
        Steps taken since the last start.
    started : float
        The residual there.
    """

    def __init__(self, rhs: np.ndarray, shift: float, preconditioner: SystemPreconditioner):
        self._rhs, self.shift, self._preconditioner = rhs, shift, preconditioner
        self.restart(np.zeros_like(rhs), np.zeros_like(rhs))

    def restart(self, solution: np.ndarray, image: np.ndarray) -> None:
        """Begin at `solution`, whose product with A is `image`."""
        self.solution, self.n_steps = solution.copy(), 0
        self._residuals = self._rhs - image - self.shift * solution
        z = self._preconditioner.solve(self._residuals, self.shift)
        self.directions, self._energy = z, (self._residuals * z).sum(axis=0)
        self.started: float = self.residual

    def step(self, image: np.ndarray) -> None:
        """One step along the directions, whose product with A is `image`."""
        image = image + self.shift * self.directions
        curvature = (self.directions * image).sum(axis=0)
        # A column that is solved has no direction left.
        lengths = np.divide(self._energy, curvature, out=np.zeros_like(curvature), where=curvature > 0)
        self.solution += lengths * self.directions
        self._residuals -= lengths * image
        z = self._preconditioner.solve(self._residuals, self.shift)
        energy = (self._residuals * z).sum(axis=0)
        self.directions *= np.divide(energy, self._energy, out=np.zeros_like(energy), where=self._energy > 0)
        self.directions += z
        self._energy = energy
        self.n_steps += 1

    @property
    def image(self) -> np.ndarray:
        """The product of A with the solution, by the recurrence."""
        return self._rhs - self._residuals - self.shift * self.solution

    @property
    def residual(self) -> float:
        """Norm of the residuals over that of the right-hand sides, by the recurrence."""
        return relative_size(self._residuals, self._rhs)

    @property
    def distance(self) -> float:
        """About the largest sum of squares by which the fit to the rows may change yet, summed over columns."""
        return float(self._energy.sum()) * (1 + self._preconditioner.lost / self.shift)


def relative_size(residuals: np.ndarray, rhs: np.ndarray) -> float:
    """Norm of residuals over that of the right-hand sides; 0 where these vanish."""
    size = np.linalg.norm(rhs)
    return float(np.linalg.norm(residuals) / size) if size > 0 else 0.0
