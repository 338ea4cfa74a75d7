"""Errors on rows that a fit in passes has left out: held-out ones, and outlying ones left out one by one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phimap.learn.data.blocks import DenseBlock
from phimap.learn.data.weights import weighted_mean
from phimap.learn.ridge.criteria import Rows
from phimap.learn.ridge.normal_equations import NormalEquations, counts
from phimap.learn.ridge.nystroem_preconditioner import NystroemPreconditioner
from phimap.learn.solver import HeldOutScores


@dataclass(frozen=True)
class LeftOutRows:
    """The rows by whose errors alpha is chosen.

    Attributes
    ----------
    held_out : Rows
    outlying : Rows or None
        Other rows, those that lie farthest out.
    """

    held_out: Rows
    outlying: Rows | None = None

    @property
    def parts(self) -> list[Rows]:
        """Those that there are."""
        return [self.held_out] if self.outlying is None else [self.held_out, self.outlying]


class LeftOutErrors:
    r"""The criterion of `solve_ridge` for coefficients that were found without the rows it judges.

    Parameters
    ----------
    rows : LeftOutRows
    system : NormalEquations
        Without all of them.
    preconditioner : NystroemPreconditioner
        Of that system.
    n_jobs : int or None

    Notes
    -----
    The criterion wants r held-out rows S judged by a fit with the k outlying rows F, and each row of F by a fit with
    all of F but itself. Both follow from the fit without either. With e its errors, s the roots of the weights,
    :math:`G_{ij} = s_i s_j [1 / n + z_i^T (A + \lambda I)^{-1} z_j]` and :math:`M = I + G_{FF}`, the errors at S are
    :math:`s_S e_S - G_{SF} M^{-1} s_F e_F`, those at F :math:`[M^{-1} s_F e_F]_i / [M^{-1}]_{ii}`.

    **Error.** e is as exact as the coefficients. G takes P, the preconditioner, for :math:`A + \lambda I`. It says
    what outlying rows tell about each other and about S. A row that no other resembles has the error e whatever G is,
    and as G grows its scale drops out, so that G need not be exact. A leverage of the fit with F would have to be: its
    distance from 1 divides the errors.

    **Cost.** ``2 (r + k) m (rank + k)`` flops beforehand, ``2 (r + k) (m t + rank k)`` for each alpha.

    **Differs from the source in** the order: rows are added to a fit where the source takes them away.

    References
    ----------
    Golub, Heath, Wahba (1979), *Generalized cross-validation as a method for choosing a good ridge parameter*,
    Equation 2.1 (one row left out).
    """

    def __init__(
        self, rows: LeftOutRows, system: NormalEquations, preconditioner: NystroemPreconditioner, n_jobs: int | None
    ):
        held_out, outlying = rows.held_out, rows.outlying
        self._blocks, self._n_jobs = [part.block for part in rows.parts], n_jobs
        self._mean_z, self._weight, self._preconditioner = system.sum_z / system.weight, system.weight, preconditioner
        self._mean_y, self._n_held_out = system.mean_y, len(held_out.targets)
        self._targets = np.concatenate([part.targets for part in rows.parts]) - system.mean_y
        # Held-out rows stand for all but the outlying ones.
        near = counts(held_out)
        near = near * (1 + system.weight / near.sum())
        self._counts = np.concatenate([near, *(counts(part) for part in rows.parts[1:])])
        if outlying is not None:
            self._roots = np.sqrt(counts(outlying))
            far = DenseBlock(outlying.block.to_host().astype(np.float64) - self._mean_z)
            self._between = self._images(far.features.T) * self._roots
            self._coordinates = self._images(preconditioner.vectors)

    def of(self, W: np.ndarray, alpha: float) -> float:
        """The mean squared error, summed over targets, of coefficients `W` (m, t) found with `alpha`."""
        return float(weighted_mean(np.square(self._errors(W, alpha)).sum(axis=1), self._counts))

    def scores(self, W: np.ndarray, alpha: float) -> HeldOutScores:
        """Predictions for the rows; their weights are those of the mean that `of` takes."""
        targets = self._targets + self._mean_y
        return HeldOutScores(targets - self._errors(W, alpha), targets, self._counts)

    def _errors(self, W: np.ndarray, alpha: float) -> np.ndarray:
        """Errors (r + k, t), held-out rows first."""
        errors = self._targets - self._images(W)
        if len(errors) == self._n_held_out:
            return errors
        near, far = errors[: self._n_held_out], errors[self._n_held_out :]
        gains, rest = self._preconditioner.gains(alpha)
        turned = self._coordinates[self._n_held_out :] * self._roots[:, None]
        # Columns have their weights.
        G = self._roots / self._weight + (self._coordinates * gains) @ turned.T + rest * self._between
        inverse = np.linalg.inv(np.eye(len(far)) + self._roots[:, None] * G[self._n_held_out :])
        solved = inverse @ (self._roots[:, None] * far)
        alone = solved / inverse.diagonal()[:, None] / self._roots[:, None]
        return np.concatenate([near - G[: self._n_held_out] @ solved, alone])

    def _images(self, V: np.ndarray) -> np.ndarray:
        """The centred rows, held out first, times `V` (m, k)."""
        V = np.ascontiguousarray(V)
        products = [block.times(V, self._n_jobs).astype(np.float64) for block in self._blocks]
        return np.concatenate(products) - self._mean_z @ V
