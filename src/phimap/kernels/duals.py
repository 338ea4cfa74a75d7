"""Closed forms of the duals of activations and of their derivatives.

Each gets norms of x and of y and the angle between them, arrays that broadcast; a zero row is at pi/2 to all.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from phimap.kernels.arccosine import step_dual

Dual = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def half_step_dual(x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """Of the step, which is 0 at 0."""
    return 0.5 * step_dual(angle) * (x > 0) * (y > 0)


def sign_dual(x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """Of the sign, which is 0 at 0."""
    return (step_dual(angle) - step_dual(np.pi - angle)) * (x > 0) * (y > 0)


def erf_dual(x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """``2 / pi arcsin(2 c / ((1 + 2 x^2) (1 + 2 y^2))^(1/2))`` with the covariance ``c = x y cos``."""
    # The arcsine of the source as an arctangent: it keeps its digits for long rows, whose sine is near 1.
    area = 2.0 * x * y
    return 2.0 / np.pi * np.arctan2(area * np.cos(angle), _erf_root(x, y, angle))


def erf_slope_dual(x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """``4 / (pi r)``, with r the root of ``1 + 2 x^2 + 2 y^2 + 4 x^2 y^2 sin^2``."""
    return 4.0 / (np.pi * _erf_root(x, y, angle))


def _erf_root(x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
    return np.hypot(np.hypot(1.0, np.sqrt(2.0) * np.hypot(x, y)), 2.0 * x * y * np.sin(angle))


def gelu_dual(x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """``c (1/4 + arctan(c / r) / (2 pi)) + (s^2 + c^2 q) / (2 pi r)``: see `_gelu_parts`."""
    product, area, root, moment = _gelu_parts(x, y, angle)
    # Tiles are many, so they are changed in place.
    moment = product * product * moment
    moment += area * area
    del area
    moment /= 2.0 * np.pi * root
    moment += product * (0.25 + np.arctan2(product, root) / (2.0 * np.pi))
    return moment


def gelu_slope_dual(x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """``1/4 + arctan(c / r) / (2 pi) + c / (2 pi r) (2 q - (1 + p + s^2 q) / r^2)``: see `_gelu_parts`.

    It is the derivative by c, with ``p = x^2 / (1 + y^2) + y^2 / (1 + x^2)``: nothing large cancels.
    """
    product, area, root, inverses = _gelu_parts(x, y, angle)
    # Tiles are many, so they are changed in place.
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
    """``c = x y cos``, ``s = x y sin``, the root r of ``(1 + x^2)(1 + y^2) - c^2``, q = ``1/(1 + x^2) + 1/(1 + y^2)``.

    r^2 is the determinant of I + C for the covariance C of the two projections.
    """
    product, area = x * y * np.cos(angle), x * y * np.sin(angle)
    root = np.hypot(np.hypot(1.0, np.hypot(x, y)), area)
    return product, area, root, 1.0 / (1.0 + x * x) + 1.0 / (1.0 + y * y)


def sin_dual(x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """``exp(-(x^2 + y^2) / 2) sinh(c)``, which is also that of the derivative of the cosine."""
    nearer, share = _cosines(x, y, angle)
    return np.copysign(0.5 * nearer * -np.expm1(-share), np.cos(angle))


def cos_dual(x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """``exp(-(x^2 + y^2) / 2) cosh(c)``, which is also that of the derivative of the sine."""
    nearer, share = _cosines(x, y, angle)
    return 0.5 * nearer * (1.0 + np.exp(-share))


def _cosines(x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The larger of ``E cos(u - v)`` and ``E cos(u + v)``, and minus the logarithm of the other's share of it."""
    half = np.sin(0.5 * np.minimum(angle, np.pi - angle))
    squared = np.square(x - y) + (2.0 * x * half) * (2.0 * y * half)
    return np.exp(-0.5 * squared), 2.0 * np.abs(x * y * np.cos(angle))
