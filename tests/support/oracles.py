"""Slow, independent ways to the same numbers."""

from __future__ import annotations

from math import atan2, cos, pi, sin, sqrt

import numpy as np
from scipy import integrate


def relu_moment(covariance: np.ndarray, order: int) -> float:
    """``E[relu(u)^n relu(v)^n]`` for (u, v) Gaussian with a 2 x 2 `covariance`, by an integral over an angle.

    In polar coordinates of the whitened plane the radius integrates to ``2^n n!`` and the angle runs over the
    arc where u and v are both positive.
    """
    (a, c), (_, b) = covariance
    if a == 0.0 or b == 0.0:
        return 0.0
    slope = c / sqrt(a)
    rest = sqrt(max(a * b - c * c, 0.0) / a)
    tilt = atan2(rest, slope)
    # u > 0 for |phi| < pi/2, v > 0 for |phi - tilt| < pi/2, and tilt lies in [0, pi].
    start, stop = tilt - pi / 2, pi / 2
    arc, _ = integrate.quad(
        lambda phi: (sqrt(a) * cos(phi)) ** order * (slope * cos(phi) + rest * sin(phi)) ** order,
        start,
        stop,
        epsabs=1e-13,
        epsrel=1e-13,
    )
    return (1, 2, 8)[order] * arc / (2.0 * pi)


def ntk_dynamic_program(x: np.ndarray, y: np.ndarray, depth: int) -> float:
    """NTK of two rows from the 2 x 2 covariances of every layer and their numerical Gaussian moments."""
    covariance = np.array([[x @ x, x @ y], [x @ y, y @ y]])
    tangent = covariance[0, 1]
    for _ in range(depth):
        derivative = 2.0 * relu_moment(covariance, 0)
        covariance = np.array(
            [
                [2.0 * relu_moment(covariance[np.ix_(pair, pair)], 1) for pair in row]
                for row in (((0, 0), (0, 1)), ((0, 1), (1, 1)))
            ]
        )
        tangent = tangent * derivative + covariance[0, 1]
    return tangent
