"""Sums, products and multiples of kernels, the results of the operators ``+`` and ``*``."""

from __future__ import annotations

from typing import Any

import numpy as np

from phimap._validation import check_integer, check_real
from phimap.kernels.base import OPERATORS, Kernel, StationaryKernel
from phimap.kernels.geometry import Rows
from phimap.kernels.spectral import SpectralLaw, law_of_sum


class CombinedKernel(Kernel):
    """A kernel composed of other kernels."""

    def __repr__(self, N_CHAR_MAX: int = 10_000) -> str:
        # Scikit-learn breaks long reprs into several lines, but error messages quote a kernel on one line.
        return " ".join(super().__repr__(N_CHAR_MAX).split())


class _Pair(CombinedKernel):
    """A kernel composed of two kernels."""

    def __init__(self, left: Any, right: Any):
        self.left = left
        self.right = right

    def _check_parameters(self, n_features: int) -> None:
        for name, kernel in (("left", self.left), ("right", self.right)):
            _check_kernel(name, kernel)._check_parameters(n_features)


class Sum(_Pair):
    """The sum of two kernels, ``k(x, y) = left(x, y) + right(x, y)``, written ``left + right``.

    Its feature map concatenates the features of the terms.

    Parameters
    ----------
    left, right : Kernel
        Any kernels, including sums and multiples. Both are applied to all columns.

    Notes
    -----
    **Error.** The sum of the errors of the terms.

    **Cost.** The sum of the costs of the terms.

    **Differs from the source.** Nothing.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, Section 4.2.4.

    Examples
    --------
    >>> from phimap.kernels import Gaussian, Polynomial
    >>> k = Gaussian() + 0.5 * Polynomial(degree=1, gamma=1.0, coef0=0.0)
    >>> k([[0.0, 0.0], [0.0, 2.0]]).round(4)
    array([[1.    , 0.1353],
           [0.1353, 3.    ]])
    >>> k.get_params()["left__length_scale"]
    1.0
    """

    def terms(self) -> list[tuple[float, Kernel]]:
        return self.left.terms() + self.right.terms()

    def _evaluate(self, X: Rows, Y: Rows) -> np.ndarray:
        return self.left._evaluate(X, Y) + self.right._evaluate(X, Y)

    def _diagonal(self, X: Rows) -> np.ndarray:
        return self.left._diagonal(X) + self.right._diagonal(X)


class Product(_Pair):
    """The product of two kernels, ``k(x, y) = left(x, y) right(x, y)``, written ``left * right``.

    The product of two stationary kernels is a `StationaryProduct`, which has random features.

    Parameters
    ----------
    left, right : Kernel
        Both are applied to all columns.

    Notes
    -----
    **Error.** The sum of the relative errors of the factors.

    **Cost.** The sum of the costs of the factors.

    **Differs from the source.** Nothing.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, Section 4.2.4.

    Examples
    --------
    >>> from phimap.kernels import Gaussian, Polynomial
    >>> (Gaussian() * Polynomial(degree=1, gamma=1.0))([[0.0, 0.0], [0.0, 2.0]]).round(4)
    array([[1.    , 0.1353],
           [0.1353, 5.    ]])
    """

    def terms(self) -> list[tuple[float, Kernel]]:
        pairs = [(v * w, one, other) for v, one in self.left.terms() for w, other in self.right.terms()]
        if all(isinstance(kernel, StationaryKernel) for _, *both in pairs for kernel in both):
            return [(weight, StationaryProduct(one, other)) for weight, one, other in pairs]
        # Products with a factor that is not stationary are not expanded: with a separate map for each pair of terms,
        # each map would have fewer features.
        return [(1.0, self)]

    def _evaluate(self, X: Rows, Y: Rows) -> np.ndarray:
        return self.left._evaluate(X, Y) * self.right._evaluate(X, Y)

    def _diagonal(self, X: Rows) -> np.ndarray:
        return self.left._diagonal(X) * self.right._diagonal(X)


class StationaryProduct(Product, StationaryKernel):
    r"""The product of two stationary kernels, which is stationary.

    A frequency of the product is the sum of independent frequencies u and v of the factors:

    .. math:: \mathbb{E} \cos\bigl((u + v)^\top (x - y)\bigr)
              = \mathbb{E} \cos(u^\top (x - y))\, \mathbb{E} \cos(v^\top (x - y))

    Parameters
    ----------
    left, right : StationaryKernel
        Each has its own length scale.

    Notes
    -----
    **Error.** The sum of the relative errors of the factors.

    **Cost.** The sum of the costs of the factors.

    **Differs from the source.** Nothing.

    References
    ----------
    Rahimi and Recht, Random Features for Large-Scale Kernel Machines, 2007, Section 3.

    Examples
    --------
    >>> from phimap.kernels import Gaussian
    >>> k = Gaussian(length_scale=2.0) * Gaussian(length_scale=2.0)
    >>> k([[0.0, 0.0], [0.0, 2.0]]).round(4)
    array([[1.    , 0.3679],
           [0.3679, 1.    ]])
    >>> k.spectral_law(2)
    GaussianLaw(n_features=2, scale=0.7071067811865476)
    """

    def spectral_law(self, n_features: int) -> SpectralLaw:
        """Give the distribution of w for which ``E[cos(<w, x - y>)] = k(x, y)``: a sum of independent frequencies.

        Parameters
        ----------
        n_features : int
            Width d of the data.

        Returns
        -------
        SpectralLaw
            `GaussianLaw` for two Gaussian kernels, `CauchyLaw` for two Laplacian kernels, else a `SumLaw`.
        """
        self._check_parameters(check_integer("n_features", n_features, least=1))
        return law_of_sum(self.left.spectral_law(n_features), self.right.spectral_law(n_features))

    @property
    def factorises(self) -> bool:
        return self.left.factorises and self.right.factorises

    def terms(self) -> list[tuple[float, Kernel]]:
        return [(1.0, self)]

    def _of_column(self, x: np.ndarray, y: np.ndarray, column: int, n_features: int) -> np.ndarray:
        return self.left._of_column(x, y, column, n_features) * self.right._of_column(x, y, column, n_features)

    def _check_parameters(self, n_features: int) -> None:
        for name, kernel in (("left", self.left), ("right", self.right)):
            if not isinstance(_check_kernel(name, kernel), StationaryKernel):
                raise TypeError(f"`{name}` must be a stationary kernel, got {kernel!r}. Use Product, or `*`.")
            kernel._check_parameters(n_features)


class Scaled(CombinedKernel):
    """A multiple of a kernel, ``k(x, y) = factor kernel(x, y)``, written ``factor * kernel``.

    Parameters
    ----------
    kernel : Kernel
        The kernel that is multiplied.
    factor : float, default=1.0
        Positive factor.

    Notes
    -----
    **Error.** The relative error of the kernel.

    **Cost.** As for `kernel`.

    **Differs from the source.** Nothing.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, Section 4.2.4.

    Examples
    --------
    >>> from phimap.kernels import Gaussian
    >>> (3 * Gaussian())([[1.0]])
    array([[3.]])
    """

    def __init__(self, kernel: Any, factor: float = 1.0):
        self.kernel = kernel
        self.factor = factor

    def terms(self) -> list[tuple[float, Kernel]]:
        return [(float(self.factor) * weight, kernel) for weight, kernel in self.kernel.terms()]

    def _check_parameters(self, n_features: int) -> None:
        _check_kernel("kernel", self.kernel)._check_parameters(n_features)
        check_real("factor", self.factor, above=0.0)

    def _evaluate(self, X: Rows, Y: Rows) -> np.ndarray:
        return self.factor * self.kernel._evaluate(X, Y)

    def _diagonal(self, X: Rows) -> np.ndarray:
        return self.factor * self.kernel._diagonal(X)


def _check_kernel(name: str, kernel: Any) -> Kernel:
    if not isinstance(kernel, Kernel):
        raise TypeError(f"`{name}` must be a Kernel, got {type(kernel).__name__}.")
    return kernel


def _product(left: Kernel, right: Kernel) -> Kernel:
    """Return the product ``left * right``. The factors of `Scaled` operands are multiplied into one outer factor."""
    factor = 1.0
    if isinstance(left, Scaled):
        left, factor = left.kernel, left.factor
    if isinstance(right, Scaled):
        right, factor = right.kernel, factor * right.factor
    stationary = isinstance(left, StationaryKernel) and isinstance(right, StationaryKernel)
    product = StationaryProduct(left, right) if stationary else Product(left, right)
    return product if factor == 1.0 else Scaled(product, factor)


def _multiple(kernel: Kernel, factor: float) -> Kernel:
    """The multiple ``factor * kernel``; if `kernel` is `Scaled`, the two factors are multiplied."""
    return Scaled(kernel.kernel, factor * kernel.factor) if isinstance(kernel, Scaled) else Scaled(kernel, factor)


OPERATORS.update(add=Sum, multiply=_product, scale=_multiple)
