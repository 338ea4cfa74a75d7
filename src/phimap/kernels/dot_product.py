"""Kernels of the inner product of two rows."""

from __future__ import annotations

import numpy as np
from scipy import special

from phimap._validation import check_integer, check_real
from phimap.kernels.base import DotProductKernel


class Polynomial(DotProductKernel):
    r"""The polynomial kernel.

    .. math:: k(x, y) = (\gamma \langle x, y \rangle + c)^p

    Parameters
    ----------
    degree : int, default=3
        The power p, at least 1.
    gamma : float, optional
        Factor > 0 of the inner product. None is ``1 / d``, as in scikit-learn.
    coef0 : float, default=1.0
        The constant c >= 0; a negative one would give no positive definite kernel.

    Notes
    -----
    **Error.** Absolute error of about ``p d eps (gamma |x| |y| + c)^p``.

    **Cost.** One matrix product, 2 n m d operations, and one power an entry.

    **Differs from the source.** Nothing.

    References
    ----------
    Pham and Pagh, Fast and Scalable Polynomial Kernels via Explicit Feature Maps, 2013.

    Examples
    --------
    >>> import numpy as np
    >>> from phimap.kernels import Polynomial
    >>> Polynomial(degree=2, gamma=1.0)(np.array([[1.0, 1.0], [1.0, 0.0]]))
    array([[9., 4.],
           [4., 4.]])
    """

    def __init__(self, degree: int = 3, gamma: float | None = None, coef0: float = 1.0):
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0

    def taylor_coefficients(self, max_degree: int, n_features: int) -> np.ndarray:
        """Give the coefficients ``binom(p, j) gamma^j c^(p-j)`` for j = 0, ..., max_degree.

        Parameters
        ----------
        max_degree : int
            Last degree; beyond p the coefficients are 0.
        n_features : int
            Width d of the data.

        Returns
        -------
        ndarray of shape (max_degree + 1,)
        """
        self._check_parameters(n_features)
        j = np.arange(check_integer("max_degree", max_degree, least=0) + 1)
        below = np.minimum(j, self.degree)
        powers = self._factor(n_features) ** below * float(self.coef0) ** (self.degree - below)
        return np.where(j <= self.degree, special.binom(self.degree, below) * powers, 0.0)

    def _check_parameters(self, n_features: int) -> None:
        check_integer("degree", self.degree, least=1)
        if self.gamma is not None:
            check_real("gamma", self.gamma, above=0.0)
        check_real("coef0", self.coef0, least=0.0)

    def _factor(self, n_features: int) -> float:
        return 1.0 / n_features if self.gamma is None else float(self.gamma)

    def _of_product(self, products: np.ndarray, n_features: int) -> np.ndarray:
        products *= self._factor(n_features)
        products += self.coef0
        return np.power(products, self.degree, out=products)
