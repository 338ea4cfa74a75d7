"""Kernels that depend on the inner product of two rows."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from scipy import special

from phimap._validation import check_integer, check_real
from phimap.kernels.base import DotProductKernel
from phimap.kernels.geometry import Rows, row_norms, unit_rows


class _PowerSeries(DotProductKernel):
    """A dot-product kernel with a known power series."""

    def taylor_coefficients(self, max_degree: int, n_features: int) -> np.ndarray:
        self._check_parameters(n_features)
        return self._coefficients(np.arange(check_integer("max_degree", max_degree, least=0) + 1), n_features)

    @abstractmethod
    def _coefficients(self, j: np.ndarray, n_features: int) -> np.ndarray:
        """Coefficients of the powers `j`, where `j` is the array 0, 1, ..., max_degree."""


class Polynomial(_PowerSeries):
    r"""The polynomial kernel.

    .. math:: k(x, y) = (\gamma \langle x, y \rangle + c)^p

    Parameters
    ----------
    degree : int, default=3
        The power p, at least 1.
    gamma : float, optional
        Factor > 0 of the inner product. None means ``1 / d``, as in scikit-learn.
    coef0 : float, default=1.0
        The constant c >= 0; with a negative constant the kernel would not be positive definite.

    Notes
    -----
    **Error.** Absolute error of about ``p d eps (gamma |x| |y| + c)^p``.

    **Cost.** One matrix product, 2 n m d operations, and one power per entry.

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

    def _coefficients(self, j: np.ndarray, n_features: int) -> np.ndarray:
        # binom(p, j) gamma^j c^(p - j) up to j = p.
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


class Exponential(_PowerSeries):
    r"""The exponential kernel, which is the kernel of softmax attention.

    .. math:: k(x, y) = \exp(\langle x, y \rangle / \ell^2)

    Parameters
    ----------
    length_scale : float, default=1.0
        Length scale ell > 0 in the units of the columns.

    Notes
    -----
    **Error.** Relative error of about ``d eps |x| |y| / ell^2``. Values that overflow raise an error: exponents above
    709 in float64 and 88 in float32.

    **Cost.** One matrix product, 2 n m d operations, and one exponential per entry.

    **Differs from the source.** Nothing.

    References
    ----------
    Liu, Huang, Chen, Suykens, Random Features for Kernel Approximation, 2021, Section 2.2.

    Examples
    --------
    >>> import numpy as np
    >>> from phimap.kernels import Exponential
    >>> Exponential(length_scale=2.0)(np.array([[2.0, 0.0], [0.0, 2.0]])).round(4)
    array([[2.7183, 1.    ],
           [1.    , 2.7183]])
    """

    def __init__(self, length_scale: float = 1.0):
        self.length_scale = length_scale

    def _coefficients(self, j: np.ndarray, n_features: int) -> np.ndarray:
        # 1 / (length_scale^(2 j) j!).
        return np.cumprod(np.append(1.0, self._factor() / j[1:]))

    def _check_parameters(self, n_features: int) -> None:
        check_real("length_scale", self.length_scale, above=0.0)

    def _factor(self) -> float:
        return float(self.length_scale) ** -2

    def _of_product(self, products: np.ndarray, n_features: int) -> np.ndarray:
        products *= self._factor()
        return np.exp(products, out=products)


class Taylor(_PowerSeries):
    r"""A dot-product kernel, or its homogeneous form, given by the coefficients of its power series.

    .. math:: k(x, y) = f(\langle x, y \rangle) \quad\text{or}\quad
              k(x, y) = |x| |y| f\Bigl(\frac{\langle x, y \rangle}{|x| |y|}\Bigr), \qquad
              f(t) = \sum_j c_j t^j

    Parameters
    ----------
    coefficients : array-like of shape (p + 1,)
        Non-negative c_0, ..., c_p. By Schoenberg's theorem, f is then positive definite in every dimension.
    homogeneous : bool, default=False
        Whether to use the second form. It is 0 if x or y is zero.

    Notes
    -----
    **Error.** Absolute error of about ``(2 p + d) eps f'(t) t`` with ``t = |x| |y|``. For the homogeneous form, the
    error is ``|x| |y|`` times this value at t = 1.

    **Cost.** One matrix product, 2 n m d operations, and 2 p operations per entry.

    **Differs from the source.** Nothing.

    References
    ----------
    Schoenberg, Positive Definite Functions on Spheres, 1942, Theorem 2; Zandieh et al., Scaling Neural Tangent
    Kernels via Sketching and Random Features, 2021, Equation 9.

    Examples
    --------
    >>> import numpy as np
    >>> from phimap.kernels import Taylor
    >>> X = np.array([[2.0, 0.0], [1.0, 1.0]])
    >>> Taylor([1.0, 0.0, 0.5])(X)
    array([[9., 3.],
           [3., 3.]])
    >>> Taylor([1.0, 0.0, 0.5], homogeneous=True)(X).round(4)
    array([[6.    , 3.5355],
           [3.5355, 3.    ]])
    """

    def __init__(self, coefficients: Any, homogeneous: bool = False):
        self.coefficients = coefficients
        self.homogeneous = homogeneous

    def _coefficients(self, j: np.ndarray, n_features: int) -> np.ndarray:
        # Coefficients beyond the last given one are 0.
        given, padded = self._checked(), np.zeros(j.size)
        shared = min(padded.size, given.size)
        padded[:shared] = given[:shared]
        return padded

    def _check_parameters(self, n_features: int) -> None:
        self._checked()

    def _checked(self) -> np.ndarray:
        """The coefficients (p + 1,) in float64."""
        given = np.asarray(self.coefficients)
        if given.dtype.kind not in "iuf":
            raise TypeError(f"`coefficients` must be numbers, got an array of dtype {given.dtype}.")
        if given.ndim != 1 or given.size == 0:
            raise ValueError(f"`coefficients` must be a non-empty list of numbers, got shape {given.shape}.")
        bad = np.flatnonzero(~(np.isfinite(given) & (given >= 0)))
        if bad.size:
            raise ValueError(
                f"`coefficients` must be finite and not negative, got {given[bad[0]]} for degree {bad[0]}: with it the "
                "function is no kernel."
            )
        return given.astype(np.float64)

    def _of_product(self, products: np.ndarray, n_features: int) -> np.ndarray:
        return np.polynomial.polynomial.polyval(products, self._checked())

    def _evaluate(self, X: Rows, Y: Rows) -> np.ndarray:
        if not self.homogeneous:
            return super()._evaluate(X, Y)
        values = super()._evaluate(unit_rows(X), unit_rows(Y))
        values *= row_norms(X)[:, None]
        values *= row_norms(Y)
        return values

    def _diagonal(self, X: Rows) -> np.ndarray:
        if not self.homogeneous:
            return super()._diagonal(X)
        norms = row_norms(X)
        return super()._diagonal(unit_rows(X)) * norms * norms
