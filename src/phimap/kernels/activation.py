"""Dual kernels of activations: infinitely wide layers of any unit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phimap._validation import check_choice
from phimap.kernels.arccosine import relu_dual, step_dual
from phimap.kernels.base import Kernel
from phimap.kernels.geometry import Rows, angles, row_norms
from phimap.kernels.hermite import hermite_moment, second_moment
from phimap.ops.activations import FUNCTIONS, NAMES

# A dual gets norms of x and of y and the angle between them, arrays that broadcast; a zero row is at pi/2 to all.
_Dual = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


class ActivationKernel(Kernel):
    r"""The dual kernel of an activation: an infinitely wide layer of such units.

    .. math:: k(x, y) = \mathbb{E}_{w \sim N(0, I)}\, \sigma(\langle w, x \rangle)\, \sigma(\langle w, y \rangle)

    Parameters
    ----------
    activation : {"abs", "cos", "erf", "gelu", "relu", "sign", "sin", "softplus", "step"} or callable, default="relu"
        The function sigma. A callable gets a float64 array and returns one real number for each of its entries. Step
        and sign are 0 at 0.

    Notes
    -----
    **Error.** All names but softplus have closed forms, in norms and angles: absolute error of a few eps of
    ``(k(x, x) k(y, y))^(1/2)``. Softplus and callables take 256 terms of the Hermite expansion of ``sigma(|x| z)``
    and put the energy r(x) beyond them, ``r(x) <= k(x, x)``, into two more: the error is at most ``2 (r(x)
    r(y))^(1/2) |cos(x, y)|^256``, plus that of a rule whose points are ``0.024 |x|`` apart in the argument of sigma.

    **Cost.** One matrix product, 2 n m d operations, and some elementary functions an entry for closed forms; for
    expansions up to 256 multiplications an entry, fewer for smooth activations, and 1,024 evaluations of sigma for
    each row and tile.

    **Differs from the source in** the integral, which is one-dimensional here and gives positive semidefinite
    matrices; the source takes a two-dimensional one for each pair. The form for GELU comes from integration by
    parts.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, Equation 4.29 (erf); Cho and Saul, Kernel
    Methods for Deep Learning, 2009, Equations 4 and 6 (step, ReLU); Rahimi and Recht, Random Features for
    Large-Scale Kernel Machines, 2007 (sin, cos); Zandieh et al., Scaling Neural Tangent Kernels via Sketching and
    Random Features, 2021, Equations 18-20.

    Examples
    --------
    >>> import numpy as np
    >>> from phimap.kernels import ActivationKernel
    >>> X = np.array([[1.0, 0.0], [0.6, 0.8]])
    >>> ActivationKernel("erf")(X).round(4)
    array([[0.4646, 0.262 ],
           [0.262 , 0.4646]])
    >>> ActivationKernel(np.tanh)(X).round(4)
    array([[0.3943, 0.2252],
           [0.2252, 0.3943]])
    """

    def __init__(self, activation: str | Callable[[Any], Any] = "relu"):
        self.activation = activation

    def _check_parameters(self, n_features: int) -> None:
        if isinstance(self.activation, str):
            check_choice("activation", self.activation, NAMES)
        elif not callable(self.activation):
            raise TypeError(f"`activation` must be a name or a callable, got {type(self.activation).__name__}.")

    def _dual(self) -> _Dual | None:
        """The closed form, if there is one."""
        return _DUALS.get(self.activation) if isinstance(self.activation, str) else None

    def _function(self) -> Callable[[Any], Any]:
        return FUNCTIONS[self.activation] if isinstance(self.activation, str) else self.activation

    def _evaluate(self, X: Rows, Y: Rows) -> np.ndarray:
        x, y, angle = row_norms(X), row_norms(Y), angles(X, Y)
        dual = self._dual()
        return hermite_moment(self._function(), x, y, angle) if dual is None else dual(x[:, None], y, angle)

    def _diagonal(self, X: Rows) -> np.ndarray:
        norms = row_norms(X)
        dual = self._dual()
        return second_moment(self._function(), norms) if dual is None else dual(norms, norms, np.zeros_like(norms))


def _step(x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
    return 0.5 * step_dual(angle) * (x > 0) * (y > 0)


def _sign(x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
    return (step_dual(angle) - step_dual(np.pi - angle)) * (x > 0) * (y > 0)


def _relu(x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
    return 0.5 * relu_dual(angle) * x * y


def _abs(x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
    return (relu_dual(angle) + relu_dual(np.pi - angle)) * x * y


def _erf(x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
    # The arcsine of the source as an arctangent: it keeps its digits for long rows, whose sine is near 1.
    area = 2.0 * x * y
    root = np.hypot(np.hypot(1.0, np.sqrt(2.0) * np.hypot(x, y)), area * np.sin(angle))
    return 2.0 / np.pi * np.arctan2(area * np.cos(angle), root)


def _gelu(x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
    product, area = x * y * np.cos(angle), x * y * np.sin(angle)
    # The root of the determinant of I + C, where C is the covariance of <w, x> and <w, y>.
    root = np.hypot(np.hypot(1.0, np.hypot(x, y)), area)
    moment = area * area + product * product * (1.0 / (1.0 + x * x) + 1.0 / (1.0 + y * y))
    return product * (0.25 + np.arctan2(product, root) / (2.0 * np.pi)) + moment / (2.0 * np.pi * root)


def _sin(x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
    nearer, share = _cosines(x, y, angle)
    return np.copysign(0.5 * nearer * -np.expm1(-share), np.cos(angle))


def _cos(x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
    nearer, share = _cosines(x, y, angle)
    return 0.5 * nearer * (1.0 + np.exp(-share))


def _cosines(x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The larger of ``E cos(u - v)`` and ``E cos(u + v)``, and minus the logarithm of the other's share of it."""
    half = np.sin(0.5 * np.minimum(angle, np.pi - angle))
    squared = np.square(x - y) + (2.0 * x * half) * (2.0 * y * half)
    return np.exp(-0.5 * squared), 2.0 * np.abs(x * y * np.cos(angle))


_DUALS: dict[str, _Dual] = {
    "abs": _abs,
    "cos": _cos,
    "erf": _erf,
    "gelu": _gelu,
    "relu": _relu,
    "sign": _sign,
    "sin": _sin,
    "step": _step,
}
