"""Kernels that depend on the difference of two rows."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from scipy import sparse

from phimap._validation import check_integer, check_real
from phimap.kernels.base import StationaryKernel
from phimap.kernels.geometry import Rows, city_block_distances, paired_columns, squared_distances
from phimap.kernels.profiles import gaussian, matern
from phimap.kernels.slopes import product_gradients, radial_gradients
from phimap.kernels.spectral import CauchyLaw, GaussianLaw, LaplaceLaw, SpectralLaw, StableLaw, StudentLaw
from phimap.ops import ops_for
from phimap.ops.primitives.distances import sums_of_differences

# Largest finite smoothness nu. The recurrence takes one step for each unit of smoothness. With a larger nu, the kernel
# differs from its limit for infinite nu by less than 1 / nu.
_LARGEST_NU = 10_000
# Largest number of columns for which distances are computed from differences of rows. With more columns, a matrix
# product takes less time.
_MOST_COLUMNS = 128


class _ScaledKernel(StationaryKernel):
    """A kernel whose spectral law is determined by the dimension and the inverse length scales."""

    def _sums_of_differences(self, X: np.ndarray, Y: np.ndarray, power: int) -> np.ndarray | None:
        """Sums (n, m) over columns of ``|scaled difference|^power``, in float32; None for too many columns."""
        if X.shape[1] > _MOST_COLUMNS:
            return None
        self._check_parameters(X.shape[1])
        # The mean row of Y is subtracted first, so rows far from the origin lose no digits when they are scaled.
        centre = Y.mean(axis=0).astype(np.float32)
        scale = self._inverse_length_scale(X.shape[1])
        left, right = (((rows - centre) * scale).astype(np.float32, copy=False) for rows in (X, Y))
        return sums_of_differences(ops_for(left), left, right, power)

    def spectral_law(self, n_features: int) -> SpectralLaw:
        n_features = check_integer("n_features", n_features, least=1)
        return self._law(n_features, self._inverse_length_scale(n_features))

    def _of_column(self, x: np.ndarray, y: np.ndarray, column: int, n_features: int) -> np.ndarray:
        difference = np.subtract.outer(x, y)
        difference *= np.broadcast_to(self._inverse_length_scale(n_features), n_features)[column]
        return self._of_difference(difference)

    @abstractmethod
    def _law(self, n_features: int, scale: float | np.ndarray) -> SpectralLaw:
        """The spectral law; `scale` holds the inverse length scales."""

    @abstractmethod
    def _of_difference(self, scaled: np.ndarray) -> np.ndarray:
        """Kernel values of rows that differ by `scaled` length scales in one column; may overwrite `scaled`."""


class _GammaKernel(_ScaledKernel):
    """A kernel that accepts scikit-learn's gamma in place of a length scale."""

    def __init__(self, length_scale: Any = 1.0, *, gamma: float | None = None):
        super().__init__(length_scale)
        self.gamma = gamma

    def _inverse_length_scale(self, n_features: int) -> float | np.ndarray:
        if self.gamma is None:
            return super()._inverse_length_scale(n_features)
        if np.ndim(self.length_scale) > 0 or self.length_scale != 1.0:
            raise ValueError(
                f"`gamma` takes the place of `length_scale`, got both: {self.gamma!r} and {self.length_scale!r}. Give "
                "one."
            )
        return self._inverse_of_gamma(check_real("gamma", self.gamma, above=0.0))

    @abstractmethod
    def _inverse_of_gamma(self, gamma: float) -> float:
        """The value of ``1 / length_scale`` that corresponds to `gamma`."""


class Gaussian(_GammaKernel):
    r"""The Gaussian (RBF) kernel.

    .. math:: k(x, y) = \exp\Bigl(-\tfrac12 \textstyle\sum_j (x_j - y_j)^2 / \ell_j^2\Bigr)

    The frequencies have independent Gaussian coordinates with standard deviation ``1 / length_scale``.

    Parameters
    ----------
    length_scale : float or array-like of shape (d,), default=1.0
        Length scale ell > 0 in the units of the columns: one number for all columns or one per column.
    gamma : float or None, default=None
        Scikit-learn's parameter in place of a length scale, ``1 / (2 length_scale^2)``.

    Notes
    -----
    **Error.** Relative error of about ``2^9 d eps tau^2`` at the scaled distance tau, in float64. Adding a constant to
    dense data costs no accuracy. Equal rows give exactly 1.

    **Cost.** One matrix product, 2 n m d operations, and one exponential per entry.

    **Differs from the source.** Nothing.

    References
    ----------
    Rahimi and Recht, Random Features for Large-Scale Kernel Machines, 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from phimap.kernels import Gaussian
    >>> Gaussian(length_scale=2.0)(np.array([[0.0, 0.0], [0.0, 2.0]])).round(4)
    array([[1.    , 0.6065],
           [0.6065, 1.    ]])
    """

    @property
    def factorises(self) -> bool:
        return True

    def _inverse_of_gamma(self, gamma: float) -> float:
        return float(np.sqrt(2 * gamma))

    def _law(self, n_features: int, scale: float | np.ndarray) -> GaussianLaw:
        return GaussianLaw(n_features, scale)

    def _of_difference(self, scaled: np.ndarray) -> np.ndarray:
        return gaussian(np.square(scaled, out=scaled))

    def _slope_of_column(self, x: np.ndarray, y: np.ndarray, column: int, n_features: int) -> np.ndarray:
        scale = np.broadcast_to(self._inverse_length_scale(n_features), n_features)[column]
        difference = np.subtract.outer(x, y)
        slopes = gaussian(np.square(scale * difference))
        slopes *= difference
        slopes *= -(scale**2)
        return slopes

    def _evaluate(self, X: Rows, Y: Rows) -> np.ndarray:
        return gaussian(squared_distances(X, Y, self._inverse_length_scale(X.shape[1])))

    def in_single_precision(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray | None:
        squared = self._sums_of_differences(X, Y, 2)
        return None if squared is None else gaussian(squared)

    def gradients(self, X: np.ndarray, Y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        scale = self._inverse_length_scale(X.shape[1])
        return radial_gradients(X, Y, weights, lambda squared: -gaussian(squared), scale)


class Laplacian(_GammaKernel):
    r"""The Laplacian kernel, a function of the city-block distance.

    .. math:: k(x, y) = \exp\Bigl(-\textstyle\sum_j |x_j - y_j| / \ell_j\Bigr)

    The frequencies have independent Cauchy coordinates with scale ``1 / length_scale``.

    Parameters
    ----------
    length_scale : float or array-like of shape (d,), default=1.0
        Length scale ell > 0 in the units of the columns: one number for all columns or one per column.
    gamma : float or None, default=None
        Scikit-learn's parameter in place of a length scale, ``1 / length_scale``.

    Notes
    -----
    **Error.** The relative error is about ``d eps`` times the scaled distance.

    **Cost.** 3 n m d operations without a matrix product: slower than the Gaussian kernel by an order of
    magnitude.

    **Differs from the source.** Nothing.

    References
    ----------
    Rahimi and Recht, Random Features for Large-Scale Kernel Machines, 2007, Figure 1.

    Examples
    --------
    >>> import numpy as np
    >>> from phimap.kernels import Laplacian
    >>> Laplacian(length_scale=2.0)(np.array([[0.0, 0.0], [1.0, 1.0]])).round(4)
    array([[1.    , 0.3679],
           [0.3679, 1.    ]])
    """

    @property
    def factorises(self) -> bool:
        return True

    def _inverse_of_gamma(self, gamma: float) -> float:
        return gamma

    def distances(self, X: Any) -> np.ndarray:
        """Give the pairwise city-block distances, not divided by `length_scale`.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n, d)

        Returns
        -------
        ndarray of shape (n, n)
        """
        rows = sparse.csr_array(X) if sparse.issparse(X) else np.asarray(X)
        return city_block_distances(rows, rows)

    def _law(self, n_features: int, scale: float | np.ndarray) -> CauchyLaw:
        return CauchyLaw(n_features, scale)

    def _of_difference(self, scaled: np.ndarray) -> np.ndarray:
        np.abs(scaled, out=scaled)
        return np.exp(np.negative(scaled, out=scaled), out=scaled)

    def _evaluate(self, X: Rows, Y: Rows) -> np.ndarray:
        exponent = city_block_distances(X, Y, self._inverse_length_scale(X.shape[1]))
        np.negative(exponent, out=exponent)
        return np.exp(exponent, out=exponent)

    def in_single_precision(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray | None:
        exponent = self._sums_of_differences(X, Y, 1)
        return None if exponent is None else np.exp(np.negative(exponent, out=exponent), out=exponent)

    def gradients(self, X: np.ndarray, Y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return product_gradients(X, Y, weights, self(X, Y), self._inverse_length_scale(X.shape[1]))


class Cauchy(_ScaledKernel):
    r"""The Cauchy (rational) kernel, a product over the columns.

    .. math:: k(x, y) = \prod_j \frac{1}{1 + (x_j - y_j)^2 / \ell_j^2}

    The frequencies have independent Laplace coordinates with mean absolute value ``1 / length_scale``.

    Parameters
    ----------
    length_scale : float or array-like of shape (d,), default=1.0
        Length scale ell > 0 in the units of the columns: one number for all columns or one per column.

    Notes
    -----
    **Error.** The relative error is about ``4 d eps``.

    **Cost.** 4 n m d operations without a matrix product, in d passes over a tile: slower than the Gaussian kernel by
    an order of magnitude. CSR input is converted to dense one column at a time.

    **Differs from the source.** The source (Figure 1) has 2 as the numerator; here it is 1, so that ``k(x, x) = 1``.

    References
    ----------
    Rahimi and Recht, Random Features for Large-Scale Kernel Machines, 2007, Figure 1.

    Examples
    --------
    >>> import numpy as np
    >>> from phimap.kernels import Cauchy
    >>> Cauchy(length_scale=2.0)(np.array([[0.0, 0.0], [2.0, 4.0]]))
    array([[1. , 0.1],
           [0.1, 1. ]])
    """

    @property
    def factorises(self) -> bool:
        return True

    def _law(self, n_features: int, scale: float | np.ndarray) -> LaplaceLaw:
        return LaplaceLaw(n_features, scale)

    def _of_difference(self, scaled: np.ndarray) -> np.ndarray:
        np.square(scaled, out=scaled)
        scaled += 1.0
        return np.reciprocal(scaled, out=scaled)

    def _evaluate(self, X: Rows, Y: Rows) -> np.ndarray:
        scale = np.broadcast_to(self._inverse_length_scale(X.shape[1]), X.shape[1])
        product = None
        for j, x, y in paired_columns(X, Y):
            factor = np.subtract.outer(x, y)
            factor *= scale[j]
            np.square(factor, out=factor)
            factor += 1.0
            if product is None:
                product = factor
            else:
                product *= factor
        if product is None:
            # All entries of two CSR tiles are zero.
            return np.ones((X.shape[0], Y.shape[0]))
        return np.reciprocal(product, out=product)


class Matern(_ScaledKernel):
    r"""The Matern kernel of any smoothness nu > 0.

    .. math:: k(x, y) = \frac{2^{1-\nu}}{\Gamma(\nu)} r^\nu K_\nu(r), \qquad
              r = \sqrt{2\nu \textstyle\sum_j (x_j - y_j)^2 / \ell_j^2}

    The frequencies follow a multivariate t distribution with 2 nu degrees of freedom.

    Parameters
    ----------
    nu : float, default=1.5
        Smoothness > 0. 0.5 is the exponential kernel; ``inf`` is the Gaussian kernel.
    length_scale : float or array-like of shape (d,), default=1.0
        Length scale ell > 0 in the units of the columns: one number for all columns or one per column.

    Notes
    -----
    **Error.** As for the Gaussian kernel. Bessel functions add a few eps, as does each step of the recurrence.

    **Cost.** One matrix product. Half-integer nu takes one exponential per entry. Other values take one Bessel function
    per entry for nu <= 1 and two for nu > 1, which is far slower. Beyond nu = 3/2, each unit of nu adds one step of the
    recurrence.

    **Differs from the source.** Bessel functions overflow for large nu and small r, so they are used for nu <= 2 only.
    Higher orders come from the recurrence ``k_(nu+1)(r) = k_nu(r) + r^2 k_(nu-1)(r) / (4 nu (nu - 1))``. All of its
    terms are positive, so it is accurate for any nu and any distance.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, Eq. 4.14; NIST DLMF 10.29.1.

    Examples
    --------
    >>> import numpy as np
    >>> from phimap.kernels import Matern
    >>> Matern(nu=0.5, length_scale=2.0)(np.array([[0.0, 0.0], [0.0, 2.0]])).round(4)
    array([[1.    , 0.3679],
           [0.3679, 1.    ]])
    """

    def __init__(self, nu: float = 1.5, length_scale: Any = 1.0):
        self.nu = nu
        self.length_scale = length_scale

    @property
    def factorises(self) -> bool:
        return self._check_nu() == np.inf

    def _law(self, n_features: int, scale: float | np.ndarray) -> SpectralLaw:
        nu = self._check_nu()
        return GaussianLaw(n_features, scale) if nu == np.inf else StudentLaw(n_features, scale, nu)

    def _check_parameters(self, n_features: int) -> None:
        super()._check_parameters(n_features)
        self._check_nu()

    def _check_nu(self) -> float:
        if isinstance(self.nu, float) and self.nu == np.inf:
            return np.inf
        nu = check_real("nu", self.nu, above=0.0)
        if nu > _LARGEST_NU:
            raise ValueError(f"`nu` must be at most {_LARGEST_NU} or infinite, got {nu}. Use Gaussian().")
        return nu

    def _of_difference(self, scaled: np.ndarray) -> np.ndarray:
        return self._of_squared(np.square(scaled, out=scaled))

    def _evaluate(self, X: Rows, Y: Rows) -> np.ndarray:
        return self._of_squared(squared_distances(X, Y, self._inverse_length_scale(X.shape[1])))

    def in_single_precision(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray | None:
        if self._check_nu() not in (0.5, 1.5, 2.5, np.inf):
            return None
        squared = self._sums_of_differences(X, Y, 2)
        return None if squared is None else self._of_squared(squared)

    def gradients(self, X: np.ndarray, Y: np.ndarray, weights: np.ndarray) -> np.ndarray | None:
        nu = self._check_nu()
        if nu != 0.5 and nu <= 1.0:
            return None

        def slope(squared: np.ndarray) -> np.ndarray:
            if nu == np.inf:
                return -gaussian(squared)
            if nu == 0.5:
                # At r = 0 the kernel has a kink; the mean of its one-sided slopes is zero.
                r = np.sqrt(squared)
                return np.divide(-np.exp(-r), r, out=np.zeros_like(r), where=r > 0)
            # The derivative of z^nu K_nu(z) is -z^nu K_{nu - 1}(z).
            return matern(nu - 1, 2 * nu * squared) * (-nu / (nu - 1))

        return radial_gradients(X, Y, weights, slope, self._inverse_length_scale(X.shape[1]))

    def _of_squared(self, squared: np.ndarray) -> np.ndarray:
        """Kernel values for squared scaled distances; `squared` is overwritten."""
        nu = self._check_nu()
        if nu == np.inf:
            return gaussian(squared)
        squared *= 2.0 * nu
        return matern(nu, squared)


class ExponentialPower(_ScaledKernel):
    r"""The isotropic exponential-power kernel, whose functions are rougher for smaller exponents.

    .. math:: k(x, y) = \exp(-r^p), \qquad r = \sqrt{\textstyle\sum_j (x_j - y_j)^2 / \ell_j^2}

    The frequencies follow an isotropic stable distribution, see `StableLaw`.

    Parameters
    ----------
    exponent : float, default=1.0
        The exponent p, greater than 0 and at most 2. 1 is `Matern` with ``nu=0.5``; 2 is `Gaussian` with a length scale
        of ``length_scale / sqrt(2)``.
    length_scale : float or array-like of shape (d,), default=1.0
        Length scale ell > 0 in the units of the columns: one number for all columns or one per column.

    Notes
    -----
    **Error.** As for the Gaussian kernel, times p / 2. Frequencies have tails like ``r^(-p)``. For p below 0.3, some of
    them exceed the range of float32, and maps raise an error for float32 rows.

    **Cost.** One matrix product and one power and exponential per entry. Gradients exist for p >= 1.

    **Differs from the source.** Nothing.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, Eq. 4.18; Schoenberg, Metric spaces and
    positive definite functions, 1938.

    Examples
    --------
    >>> import numpy as np
    >>> from phimap.kernels import ExponentialPower
    >>> ExponentialPower(1.5, length_scale=2.0)(np.array([[0.0, 0.0], [0.0, 4.0]])).round(4)
    array([[1.    , 0.0591],
           [0.0591, 1.    ]])
    """

    def __init__(self, exponent: float = 1.0, length_scale: Any = 1.0):
        self.exponent = exponent
        self.length_scale = length_scale

    def _law(self, n_features: int, scale: float | np.ndarray) -> SpectralLaw:
        exponent = self._check_exponent()
        return GaussianLaw(n_features, 2**0.5 * scale) if exponent == 2 else StableLaw(n_features, scale, exponent)

    def _check_parameters(self, n_features: int) -> None:
        super()._check_parameters(n_features)
        self._check_exponent()

    def _check_exponent(self) -> float:
        exponent = check_real("exponent", self.exponent, above=0.0)
        if exponent > 2.0:
            raise ValueError(f"`exponent` must be at most 2, got {exponent}. Use Gaussian for smoother functions.")
        return exponent

    def _of_difference(self, scaled: np.ndarray) -> np.ndarray:
        return self._of_squared(np.square(scaled, out=scaled))

    def _evaluate(self, X: Rows, Y: Rows) -> np.ndarray:
        return self._of_squared(squared_distances(X, Y, self._inverse_length_scale(X.shape[1])))

    def in_single_precision(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray | None:
        squared = self._sums_of_differences(X, Y, 2)
        return None if squared is None else self._of_squared(squared)

    def gradients(self, X: np.ndarray, Y: np.ndarray, weights: np.ndarray) -> np.ndarray | None:
        p = self._check_exponent()
        if p < 1.0:
            return None

        def slope(squared: np.ndarray) -> np.ndarray:
            # At r = 0 the mean of the one-sided slopes is zero.
            near = squared > 0
            power = np.power(squared, 0.5 * p - 1, out=np.zeros_like(squared), where=near)
            return -p * power * self._of_squared(squared)

        return radial_gradients(X, Y, weights, slope, self._inverse_length_scale(X.shape[1]))

    def _of_squared(self, squared: np.ndarray) -> np.ndarray:
        """Kernel values for squared scaled distances; `squared` is overwritten."""
        np.power(squared, 0.5 * self._check_exponent(), out=squared)
        return np.exp(np.negative(squared, out=squared), out=squared)
