"""Functions of the cosine of two rows that need not be positive definite."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.linalg import eigvalsh_tridiagonal

from phimap._validation import check_real
from phimap.kernels.base import Kernel
from phimap.kernels.geometry import Rows, angles, row_norms
from phimap.kernels.zonal import raising_coefficient, zonal_degree, zonal_polynomials

# A coefficient is an integral, computed as a sum. It counts as rounding noise below this multiple of the sum of the
# absolute terms.
_NOISE = 64 * np.finfo(np.float64).eps
# Number of quadrature nodes; the rule is exact for products of two polynomials of the highest degree, and beyond.
_NODES = 400


class Zonal(Kernel):
    r"""A function of the cosine of two rows, positive definite or not.

    .. math:: k(x, y) = f\Bigl(\gamma \frac{\langle x, y \rangle}{|x| |y|} + c\Bigr)

    and 0 if x or y is zero. With the hyperbolic tangent this is the sigmoid kernel on unit rows, which is not positive
    definite.

    Parameters
    ----------
    function : "tanh" or callable, default="tanh"
        The function f. A callable takes a float64 array and returns one real number per entry; it cannot be saved in a
        model file.
    gamma : float, default=1.0
        Factor > 0 of the cosine.
    coef0 : float, default=0.0
        The constant c.

    Notes
    -----
    **Error.** Relative error of about ``d eps`` in the argument of f.

    **Cost.** One matrix product, 2 n m d operations, and an arc cosine, a cosine and f per entry.

    **Differs from the source in** nothing; the source allows any function of the cosine.

    References
    ----------
    Liu, Huang, Chen, Suykens (2021), *Fast learning in reproducing kernel Krein spaces via signed measures*, Section 2;
    Pennington, Yu, Kumar (2015), *Spherical random features for polynomial kernels*, Section 2.

    Examples
    --------
    >>> import numpy as np
    >>> from phimap.kernels import Zonal
    >>> Zonal("tanh", gamma=2.0)(np.array([[3.0, 0.0], [0.0, 2.0]])).round(4)
    array([[0.964, 0.   ],
           [0.   , 0.964]])
    """

    def __init__(self, function: str | Callable[[Any], Any] = "tanh", gamma: float = 1.0, coef0: float = 0.0):
        self.function = function
        self.gamma = gamma
        self.coef0 = coef0

    def zonal_coefficients(self, n_features: int) -> np.ndarray:
        """Give the coefficients b_k, of either sign, in ``k(x, y) = sum_k b_k P_k(cos(x, y))``.

        The P_k are the Gegenbauer polynomials of `phimap.kernels.zonal`, scaled to ``P_k(1) = 1``.

        Parameters
        ----------
        n_features : int
            Width d of the data.

        Returns
        -------
        ndarray of shape (K + 1,)
            Up to degree 256, or 16 for more than 64 columns. Coefficients below the rounding error are set to 0.
        """
        self._check_parameters(n_features)
        if n_features == 1:
            top, bottom = self._of_cosine(np.array([1.0, -1.0]))
            return np.array([0.5 * (top + bottom), 0.5 * (top - bottom)])
        nodes, weights = _rule(n_features)
        values = self._of_cosine(nodes / n_features**0.5) * weights
        degree = zonal_degree(n_features)
        # P_k = p_k / p_k(sqrt(d)). The square of the divisor is the dimension of the space of harmonics of degree k.
        roots = [p[0] for p in zonal_polynomials(np.array([n_features**0.5]), n_features, degree)]
        noise = _NOISE * np.abs(values).sum()
        coefficients = np.zeros(degree + 1)
        n_hidden = 0
        for k, (p, root) in enumerate(zip(zonal_polynomials(nodes, n_features, degree), roots, strict=True)):
            b = root * (p @ values)
            seen = abs(b) > noise * root
            # The loop stops after three successive coefficients below the rounding error. One would not suffice: for an
            # even or odd function, every second coefficient is 0.
            n_hidden = 0 if seen else n_hidden + 1
            if n_hidden > 2:
                break
            coefficients[k] = b if seen else 0.0
        return coefficients

    def _check_parameters(self, n_features: int) -> None:
        if not (self.function == "tanh" or callable(self.function)):
            raise ValueError(f"`function` must be 'tanh' or a callable, got {self.function!r}.")
        check_real("gamma", self.gamma, above=0.0)
        check_real("coef0", self.coef0)

    def _of_cosine(self, cosine: np.ndarray) -> np.ndarray:
        argument = self.gamma * cosine + self.coef0
        values = np.asarray(np.tanh(argument) if isinstance(self.function, str) else self.function(argument))
        if values.shape != argument.shape or values.dtype.kind not in "iuf":
            raise ValueError(
                f"`function` must give one real number for each it gets, got shape {values.shape} of {values.dtype} "
                f"for shape {argument.shape}. Write it with array operations."
            )
        return values.astype(np.float64)

    def _evaluate(self, X: Rows, Y: Rows) -> np.ndarray:
        values = self._of_cosine(np.cos(angles(X, Y)))
        values[row_norms(X) == 0] = 0.0
        values[:, row_norms(Y) == 0] = 0.0
        return values

    def _diagonal(self, X: Rows) -> np.ndarray:
        return np.where(row_norms(X) > 0, self._of_cosine(np.ones(1)), 0.0)


@lru_cache(maxsize=8)
def _rule(n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the Gauss quadrature for the projections g of `phimap.kernels.zonal`; requires ``d >= 2``.

    Uses the Golub-Welsch algorithm with the recurrence of the polynomials p_k in that module. SciPy's rule overflows
    for a few hundred columns.
    """
    raising = [raising_coefficient(n_features, k) for k in range(_NODES - 1)]
    nodes = np.asarray(eigvalsh_tridiagonal(np.zeros(_NODES), np.array(raising)))
    # Christoffel's formula gives small weights accurately. Squared entries of eigenvectors would lose all their digits.
    with np.errstate(over="ignore"):
        squares = [p * p for p in zonal_polynomials(nodes, n_features, _NODES - 1)]
        weights = 1 / np.sum(squares, axis=0)
    return nodes, weights
