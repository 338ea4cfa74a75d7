r"""Expansions of rotation-invariant kernels on the unit sphere in zonal polynomials, and in powers of the cosine.

Let w be uniform on the sphere of radius ``sqrt(d)``. Let ``p_0, p_1, ...`` be the orthonormal polynomials for the
distribution of one coordinate of w: ``p_0 = 1``, ``p_1(g) = g``. By the Funk-Hecke formula, for unit vectors x and y
with cosine a,

.. math:: \mathbb{E}\, p_k(\langle w, x \rangle)\, p_l(\langle w, y \rangle) = \delta_{kl} P_k(a),

where ``P_k(a) = p_k(a sqrt(d)) / p_k(sqrt(d))`` are the Gegenbauer polynomials scaled to ``P_k(1) = 1``. For ``d = 1``
only the degrees 0 and 1 exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

from phimap.kernels.arccosine import ArcCosine
from phimap.kernels.neural import NNGP, NTK
from phimap.kernels.rotation_invariant import RotationInvariantKernel
from phimap.kernels.wide_layers import FoldedLayer

# Highest degree of an expansion: 256 for up to 64 columns, 16 for more. With many columns, polynomials of higher degree
# are large only near cosines of 1 and -1, which are rare.
_DEGREE, _WIDEST, _DEGREE_BEYOND = 256, 64, 16
# Number of terms of a power series. At cosines below 0.95, later terms are negligible.
_TERMS = 512
# Up to this number of columns, coefficients are integrals; with more columns, they are sums over a power series. With
# few columns, high powers contribute much to low degrees, so a truncated series is inaccurate. With many columns,
# integrals lose digits.
_WIDEST_INTEGRAL = 8
# Number of points of the quadrature rule. With n points the error is of the order of 1 / n^2 or smaller.
_POINTS = 2**13
# Coefficients below this fraction of the kernel at cosine 1 are rounding errors.
_ROUNDING = 1e-13


def zonal_degree(n_features: int) -> int:
    """Highest degree of an expansion for data with `n_features` columns."""
    if n_features == 1:
        return 1
    return _DEGREE if n_features <= _WIDEST else _DEGREE_BEYOND


def zonal_coefficients(kernel: RotationInvariantKernel, n_features: int) -> np.ndarray:
    """Non-negative b_k in ``kappa = sum_k b_k P_k``, up to the degree `zonal_degree` of `n_features`."""
    return _coefficients(type(kernel), tuple(kernel.get_params(deep=False).items()), n_features).copy()


@cache
def _coefficients(family: type[RotationInvariantKernel], parameters: tuple, n_features: int) -> np.ndarray:
    kernel, last, d = family(**dict(parameters)), zonal_degree(n_features), n_features
    top = float(kernel.kappa(1.0))
    if d == 1:
        bottom = float(kernel.kappa(-1.0))
        return np.array([0.5 * (top + bottom), 0.5 * (top - bottom)])
    if d <= _WIDEST_INTEGRAL:
        nodes, weights = zonal_rule(d)
        values = kernel.kappa(nodes / d**0.5) * weights
        roots = np.sqrt(_dimensions(d, last))
        b = np.array([root * (p @ values) for root, p in zip(roots, zonal_polynomials(nodes, d, last), strict=True)])
    else:
        b = powers_to_zonal(power_series(kernel, _TERMS), d)[: last + 1]
    b[b < _ROUNDING * top] = 0.0
    return b


def powers_to_zonal(powers: np.ndarray, n_features: int) -> np.ndarray:
    """Convert coefficients (J + 1,) in powers of the cosine into coefficients (J + 1,) of the P_k, by Horner's rule.

    The rule multiplies by the cosine with ``a P_k = (k P_(k-1) + (k + d - 2) P_(k+1)) / (2 k + d - 2)``. If no
    coefficient is negative, all terms are non-negative and none cancel. Requires ``d >= 2``.
    """
    k = np.arange(len(powers), dtype=np.float64)
    spread = np.maximum(2 * k + n_features - 2, 1.0)
    down = k / spread
    up = 1 - down
    b = np.zeros(len(powers))
    for coefficient in powers[::-1]:
        shifted = np.zeros_like(b)
        shifted[1:] = up[:-1] * b[:-1]
        shifted[:-1] += down[1:] * b[1:]
        b = shifted
        b[0] += coefficient
    return b


def zonal_functions(a: np.ndarray, n_features: int, degree: int) -> Iterator[np.ndarray]:
    """Yield ``P_0(a), P_1(a), ..., P_degree(a)`` for cosines a."""
    before, values = np.zeros_like(a), np.ones_like(a)
    for k in range(degree + 1):
        yield values
        if k < degree:
            down = k / max(2 * k + n_features - 2, 1)
            before, values = values, (a * values - down * before) / (1 - down)


def zonal_polynomials(g: np.ndarray, n_features: int, degree: int) -> Iterator[np.ndarray]:
    """Yield ``p_0(g), p_1(g), ..., p_degree(g)`` for projections g on directions of length ``sqrt(d)``."""
    before, values = np.zeros_like(g), np.ones_like(g)
    lower = 0.0
    for k in range(degree + 1):
        yield values
        if k < degree:
            raising = raising_coefficient(n_features, k)
            before, values = values, (g * values - lower * before) / raising
            lower = raising


def zonal_rule(n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the midpoint rule in the angle, for a coordinate g of w (see above). Requires ``d >= 2``."""
    angles = (np.arange(_POINTS) + 0.5) * (np.pi / _POINTS)
    weights = np.sin(angles) ** (n_features - 2)
    return np.cos(angles) * n_features**0.5, weights / weights.sum()


def raising_coefficient(d: int, k: int) -> float:
    """The coefficient c_k in the recurrence ``g p_k = c_k p_(k+1) + c_(k-1) p_(k-1)``."""
    if k == 0:
        return 1.0
    return float(np.sqrt(d * (k + 1.0) * (k + d - 2.0) / ((2.0 * k + d) * (2.0 * k + d - 2.0))))


def _dimensions(d: int, last: int) -> np.ndarray:
    """``p_k(sqrt(d))^2``, the dimension of the spherical harmonics of degree k, for k = 0, ..., `last`."""
    return np.square(np.fromiter((p[0] for p in zonal_polynomials(np.array([d**0.5]), d, last)), np.float64))


def power_series(kernel: RotationInvariantKernel, degree: int) -> np.ndarray:
    """Non-negative coefficients (degree + 1,) of the kernel of a homogeneous network in powers of the cosine.

    Let u be the power series of the cosine in a layer. Then ``kappa_0(u)`` has the derivative
    ``u' / (pi sqrt(1 - u^2))``, ``kappa_1(u)`` has ``kappa_0(u) u'``, and ``kappa_2(u)`` has ``4 kappa_1(u) u'``.
    """
    cosine = np.zeros(degree + 1)
    cosine[1:2] = 1.0
    if isinstance(kernel, NTK | NNGP):
        layer = kernel._layer()
        assert isinstance(layer, FoldedLayer)  # callers pass no other kernels
        tangent = cosine
        for _ in range(kernel.depth):
            step = _dual_series(0, cosine)
            cosine, slope = _folded_series(layer, cosine, step)
            tangent = _times(tangent, slope) + cosine
        return tangent if isinstance(kernel, NTK) else cosine
    assert isinstance(kernel, ArcCosine)  # callers pass no other kernels
    top = float(ArcCosine(kernel.order).kappa(1.0))
    for _ in range(kernel.depth):
        cosine = _dual_series(kernel.order, cosine) / top
    return cosine * float(kernel.kappa(1.0))


def _folded_series(layer: FoldedLayer, cosine: np.ndarray, step: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Power series of the normalised duals of a layer's activation and of its derivative.

    `cosine` is the series u of the layer's cosine, `step` the series of ``kappa_0(u)``.
    """
    relu = _integral(_times(step, _derivative(cosine)), float(ArcCosine(1).kappa(cosine[0])))
    linear = 1.0 - 2.0 * layer.fold
    slope = 2.0 * layer.fold * step
    slope[0] += linear
    # For a fold above 1/2, terms cancel, and rounding may make a coefficient negative.
    return np.maximum(linear * cosine + 2.0 * layer.fold * relu, 0.0), np.maximum(slope, 0.0)


def _dual_series(order: int, u: np.ndarray) -> np.ndarray:
    """Power series of ``kappa_order(u)`` for a power series u."""
    start = float(ArcCosine(order).kappa(u[0]))
    if order:
        return _integral(order**2 * _times(_dual_series(order - 1, u), _derivative(u)), start)
    square = -_times(u, u)
    square[0] += 1.0
    return _integral(_times(_inverse_root(square), _derivative(u)) / np.pi, start)


def _times(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.convolve(u, v)[: len(u)]


def _derivative(u: np.ndarray) -> np.ndarray:
    return np.append(u[1:] * np.arange(1, len(u)), 0.0)


def _integral(u: np.ndarray, start: float) -> np.ndarray:
    return np.append(start, u[:-1] / np.arange(1, len(u)))


def _inverse_root(u: np.ndarray) -> np.ndarray:
    """Power series y of ``u^(-1/2)``, from ``2 u y' = -u' y``."""
    y = np.zeros_like(u)
    y[0] = u[0] ** -0.5
    j = np.arange(len(u), dtype=np.float64)
    for n in range(1, len(u)):
        # Coefficient n - 1 of the equation: n u_0 y_n = -sum_i (i / 2 + n - i) u_i y_(n-i) over i = 1, ..., n.
        lower = u[1 : n + 1] * (0.5 * j[1 : n + 1] + (n - j[1 : n + 1])) @ y[n - 1 :: -1][:n]
        y[n] = -lower / (n * u[0])
    return y
