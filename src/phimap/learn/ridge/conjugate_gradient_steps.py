"""Preconditioned conjugate gradients for several right-hand sides with one shift."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


class ConjugateGradientState:
    """Approximate solutions of ``(A + shift I) W = B`` (m, t), improved step by step; each column has its own steps.

    Parameters
    ----------
    rhs : ndarray of shape (m, t)
        B.
    shift : float
    precondition : callable
        Applies an approximate inverse of ``A + shift I`` to an array (m, t).

    Attributes
    ----------
    shift : float
    solution, directions : ndarray of shape (m, t)
        The next step needs the product of A with the directions.
    n_steps : int
        Steps since the last start.
    started : float
        Relative residual at the last start.
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
        """Norm of the residuals over that of the right-hand sides, by the recurrence."""
        return relative_size(self._residuals, self._rhs)

    @property
    def energy(self) -> float:
        """Squared norm of the residuals in the preconditioner, summed over columns.

        It estimates how much the sum of squares of the fit may still change.
        """
        return float(self._energies.sum())


def relative_size(residuals: np.ndarray, rhs: np.ndarray) -> float:
    """Norm of the residuals over that of the right-hand sides; 0 if these are zero."""
    size = np.linalg.norm(rhs)
    return float(np.linalg.norm(residuals) / size) if size > 0 else 0.0
