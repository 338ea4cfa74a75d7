"""Quadratic forms of the inverse of a ridge system. They give the leverages of training rows and of new rows."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from phimap.learn.blocks.centred_rows import CentredRows
from phimap.learn.blocks.triangle import packed_entries
from phimap.learn.ridge.cholesky import BlockedCholesky
from phimap.learn.ridge.statistics import RidgeStatistics
from phimap.ops import single_threaded_blas


class Leverages(ABC):
    """``z^T (A + alpha I)^{-1} z`` for centred rows z, with A the centred Gram matrix of the training rows.

    A training row of weight w has the leverage w times this form plus ``w / weight``. The last term is due to the
    intercept.

    Attributes
    ----------
    alpha : float
    mean : ndarray of shape (m,)
        Weighted mean of the features of the training rows, which centres all rows.
    weight : float
        Sum of the weights of the training rows.
    """

    alpha: float
    mean: np.ndarray
    weight: float

    @abstractmethod
    def quadratic_forms(self, D: np.ndarray) -> np.ndarray:
        """The quadratic forms (r,) of centred rows `D` (r, m), in float64 and never negative."""


class PrimalLeverages(Leverages):
    """Quadratic forms from the sums over rows: ``|U^{-T} z|^2`` with ``A + alpha I = U^T U``.

    Parameters
    ----------
    statistics : RidgeStatistics
    alpha : float
    n_jobs : int or None
        Threads; the result does not depend on them.

    Notes
    -----
    **Error.** The errors of the Gram matrix and of its factorisation. A form is a sum of squares, without cancellation.

    **Cost.** m^3 / 3 multiply-adds and 4 m^2 bytes once, m^2 / 2 multiply-adds a row.

    **Differs from the source in** nothing.
    """

    def __init__(self, statistics: RidgeStatistics, alpha: float, n_jobs: int | None):
        self.alpha, self.weight = alpha, statistics.weight
        self.mean = statistics.sum_z / statistics.weight
        self._factor = BlockedCholesky(statistics.centred_gram(), alpha, n_jobs)

    @staticmethod
    def memory(m: int) -> int:
        """Bytes of the factor."""
        return 8 * packed_entries(m)

    def quadratic_forms(self, D: np.ndarray) -> np.ndarray:
        return np.square(self._factor.solve_lower(D.T)).sum(axis=0)


class DualLeverages(Leverages):
    r"""Quadratic forms from the training rows themselves, for fewer rows than features.

    .. math:: z^\top (A + \alpha I)^{-1} z = \min_a\; \tfrac{1}{\alpha} |z - Z_c^\top a|^2 + |a|^2,
              \qquad a = (K + \alpha I)^{-1} Z_c z

    Parameters
    ----------
    rows : CentredRows
        Z_c (n, m), the centred training rows times the roots of their weights, with ``K = Z_c Z_c^T``.
    alpha, weight : float
    n_jobs : int or None
        Threads; the result does not depend on them.

    Notes
    -----
    **Error.** The form is a minimum over a, so an error in a enters squared. If alpha is small, the usual difference
    ``(|z|^2 - z^T Z_c^T a) / alpha`` loses all digits.

    **Cost.** n^3 / 3 multiply-adds and ``8 n m + 4 n^2`` bytes once, ``2 n m + n^2`` multiply-adds a row.

    **Differs from the source in** nothing: this is the matrix inversion lemma.
    """

    def __init__(self, rows: CentredRows, alpha: float, weight: float, n_jobs: int | None):
        self.alpha, self.weight, self.mean = alpha, weight, rows.mean
        self._rows = rows
        self._factor = BlockedCholesky(rows.gram(), alpha, n_jobs)

    @staticmethod
    def memory(n: int, m: int) -> int:
        """Bytes of the factor and of the training rows."""
        return 8 * n * m + 8 * packed_entries(n)

    def quadratic_forms(self, D: np.ndarray) -> np.ndarray:
        with single_threaded_blas():
            a = self._factor.solve(self._rows.products(D.T))
            left = D - self._rows.combine(a).T
            return np.square(left).sum(axis=1) / self.alpha + np.square(a).sum(axis=0)
