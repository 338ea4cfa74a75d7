"""Closed forms of duals ``E[sigma(<w, x>) sigma(<w, y>)]``, w standard Gaussian.

Here sigma is an activation or the derivative of an activation. The functions of this module take the norms of x, the
norms of y and the angles between x and y, as arrays that broadcast. In the formulas below, x and y are these norms. A
zero row has the angle pi/2 with every row.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from phimap.kernels.arccosine import step_dual

Dual = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def half_step_dual(x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """The dual of the step function that is 0 at 0."""
    return 0.5 * step_dual(angle) * (x > 0) * (y > 0)


def sign_dual(x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """The dual of the sign function, which is 0 at 0."""
    return (step_dual(angle) - step_dual(np.pi - angle)) * (x > 0) * (y > 0)


def erf_dual(x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """``2 / pi arcsin(2 c / ((1 + 2 x^2) (1 + 2 y^2))^(1/2))`` with the covariance ``c = x y cos(angle)``."""
    # For large norms, the argument of the arcsine is near 1 and the arcsine loses digits, so the formula uses an
    # arctangent.
    area = 2.0 * x * y
    return 2.0 / np.pi * np.arctan2(area * np.cos(angle), _erf_root(x, y, angle))


def erf_slope_dual(x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """``4 / (pi r)``, with r the square root of ``1 + 2 x^2 + 2 y^2 + 4 x^2 y^2 sin(angle)^2``."""
    return 4.0 / (np.pi * _erf_root(x, y, angle))


def _erf_root(x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
    return np.hypot(np.hypot(1.0, np.sqrt(2.0) * np.hypot(x, y)), 2.0 * x * y * np.sin(angle))


def gelu_dual(x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """``c (1/4 + arctan(c / r) / (2 pi)) + (s^2 + c^2 q) / (2 pi r)``, with c, s, r and q from `_gelu_parts`."""
    product, area, root, moment = _gelu_parts(x, y, angle)
    # The steps work in place, to limit the number of temporary arrays.
    moment = product * product * moment
    moment += area * area
    del area
    moment /= 2.0 * np.pi * root
    moment += product * (0.25 + np.arctan2(product, root) / (2.0 * np.pi))
    return moment


def gelu_slope_dual(x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """``1/4 + arctan(c / r) / (2 pi) + c / (2 pi r) (2 q - (1 + p + s^2 q) / r^2)``: see `_gelu_parts`.

    This is the derivative of `gelu_dual` with respect to c, with ``p = x^2 / (1 + y^2) + y^2 / (1 + x^2)``, in a form
    where no large terms cancel.
    """
    product, area, root, inverses = _gelu_parts(x, y, angle)
    # The steps work in place, to limit the number of temporary arrays.
    bracket = np.square(area) * inverses
    del area
    bracket += np.square(x / np.hypot(1.0, y))
    bracket += np.square(y / np.hypot(1.0, x))
    bracket += 1.0
    bracket /= np.square(root)
    np.subtract(2.0 * inverses, bracket, out=bracket)
    bracket *= product / root
    bracket += np.arctan2(product, root)
    return 0.25 + bracket / (2.0 * np.pi)


def _gelu_parts(x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return ``c = x y cos(angle)``, ``s = x y sin(angle)``, ``r = ((1 + x^2)(1 + y^2) - c^2)^(1/2)``, and q.

    Here ``q = 1/(1 + x^2) + 1/(1 + y^2)``. r^2 is the determinant of I + C, where C is the covariance matrix of the
    projections of x and y.
    """
    product, area = x * y * np.cos(angle), x * y * np.sin(angle)
    root = np.hypot(np.hypot(1.0, np.hypot(x, y)), area)
    return product, area, root, 1.0 / (1.0 + x * x) + 1.0 / (1.0 + y * y)


def sin_dual(x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """``exp(-(x^2 + y^2) / 2) sinh(c)``, ``c = x y cos(angle)``: the dual of sin and of the derivative of cos."""
    nearer, share = _cosines(x, y, angle)
    return np.copysign(0.5 * nearer * -np.expm1(-share), np.cos(angle))


def cos_dual(x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """``exp(-(x^2 + y^2) / 2) cosh(c)``, ``c = x y cos(angle)``: the dual of cos and of the derivative of sin."""
    nearer, share = _cosines(x, y, angle)
    return 0.5 * nearer * (1.0 + np.exp(-share))


def _cosines(x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the larger of ``E cos(u - v)`` and ``E cos(u + v)``, and the logarithm of the ratio of larger to smaller.

    Here u and v are the projections of the two rows on w. They are jointly Gaussian with mean 0, standard deviations x
    and y, and correlation ``cos(angle)``.
    """
    half = np.sin(0.5 * np.minimum(angle, np.pi - angle))
    squared = np.square(x - y) + (2.0 * x * half) * (2.0 * y * half)
    return np.exp(-0.5 * squared), 2.0 * np.abs(x * y * np.cos(angle))
