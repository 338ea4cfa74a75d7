"""A preconditioner of a matrix to which the outer products of a few rows are added."""

from __future__ import annotations

import numpy as np

from phimap.learn.ridge.nystroem_preconditioner import NystroemPreconditioner


class AddedRows:
    r"""The inverse of P + F F^T for a preconditioner P, by the formula of Woodbury.

    It is as near to the inverse of A + F F^T as P's is to that of A, however large the rows are that were added: a
    sketch knows little of them.

    Parameters
    ----------
    preconditioner : NystroemPreconditioner
    rows : ndarray of shape (m, k)
        F.

    Notes
    -----
    **Cost.** ``2 m k (rank + k)`` flops beforehand, and two solutions with P in place of one.
    """

    def __init__(self, preconditioner: NystroemPreconditioner, rows: np.ndarray):
        self._preconditioner, self._rows = preconditioner, rows
        self._turned, self._products = preconditioner.vectors.T @ rows, rows.T @ rows

    @property
    def lost(self) -> float:
        """That of P: the rows that were added are known."""
        return self._preconditioner.lost

    def middle(self, shift: float) -> np.ndarray:
        """``I + F^T P(shift)^{-1} F`` (k, k)."""
        gains, rest = self._preconditioner.gains(shift)
        return np.eye(len(self._products)) + (self._turned.T * gains) @ self._turned + rest * self._products

    def solve(self, R: np.ndarray, shift: float) -> np.ndarray:
        """``(P(shift) + F F^T)^{-1} R`` for `R` (m, t)."""
        first = self._preconditioner.solve(R, shift)
        shares = np.linalg.solve(self.middle(shift), self._rows.T @ first)
        return first - self._preconditioner.solve(self._rows @ shares, shift)
