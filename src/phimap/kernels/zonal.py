r"""Kernels of unit rows in the zonal polynomials of their sphere, and arc-cosine kernels in powers of the cosine.

Let w be uniform on the sphere of radius ``sqrt(d)``, and ``p_0, p_1, ...`` the polynomials that are orthonormal for the
law of one of its coordinates: ``p_0 = 1``, ``p_1(g) = g``. By the Funk-Hecke formula, for unit x and y of cosine a,

.. math:: \mathbb{E}\, p_k(\langle w, x \rangle)\, p_l(\langle w, y \rangle) = \delta_{kl} P_k(a),

with ``P_k(a) = p_k(a sqrt(d)) / p_k(sqrt(d))``, which are Gegenbauer's polynomials with ``P_k(1) = 1``. For ``d = 1``
there are two.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

from phimap.kernels.arccosine import ArcCosine
from phimap.kernels.neural import NNGP, NTK
from phimap.kernels.rotation_invariant import RotationInvariantKernel
from phimap.kernels.wide_layers import FoldedLayer

# Degrees of an expansion; of many inputs those whose polynomials have their mass where projections are met.
_DEGREE, _WIDEST, _DEGREE_BEYOND = 256, 64, 16
# Terms of a power series: cosines below 0.95 see nothing of those beyond.
_TERMS = 512
# Widest input of integrals in place of sums of a power series: few dimensions leave much of the high powers in the low
# degrees, and many lose the digits of integrals.
_WIDEST_INTEGRAL = 8
# Points of a rule: its error falls like the power -2 or faster.
_POINTS = 2**13
# Coefficients below this share of the kernel at 1 are rounding.
_ROUNDING = 1e-13


def zonal_degree(n_features: int) -> int:
    """The last degree of an expansion."""
    if n_features == 1:
        return 1
    return _DEGREE if n_features <= _WIDEST else _DEGREE_BEYOND


def zonal_coefficients(kernel: RotationInvariantKernel, n_features: int) -> np.ndarray:
    """The ``b_k`` with ``kappa = sum_k b_k P_k``, none negative, up to a degree whose P_k vanishes inside (-1, 1)."""
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
    """Coefficients (J + 1,) of the P_k of a polynomial with coefficients (J + 1,), by Horner's rule.

    ``a P_k = (k P_(k-1) + (k + d - 2) P_(k+1)) / (2 k + d - 2)``: no number that is added is negative where no
    coefficient is. Not for one dimension, which has two polynomials only.
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
    """Yield ``P_0(a), P_1(a), ..., P_degree(a)``."""
    before, values = np.zeros_like(a), np.ones_like(a)
    for k in range(degree + 1):
        yield values
        if k < degree:
            down = k / max(2 * k + n_features - 2, 1)
            before, values = values, (a * values - down * before) / (1 - down)


def zonal_polynomials(g: np.ndarray, n_features: int, degree: int) -> Iterator[np.ndarray]:
    """Yield ``p_0(g), p_1(g), ..., p_degree(g)``, for projections on directions of length ``sqrt(d)``."""
    before, values = np.zeros_like(g), np.ones_like(g)
    lower = 0.0
    for k in range(degree + 1):
        yield values
        if k < degree:
            raising = raising_coefficient(n_features, k)
            before, values = values, (g * values - lower * before) / raising
            lower = raising


def zonal_rule(n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of a rule for the law of g: midpoints in the angle. For d of at least 2."""
    angles = (np.arange(_POINTS) + 0.5) * (np.pi / _POINTS)
    weights = np.sin(angles) ** (n_features - 2)
    return np.cos(angles) * n_features**0.5, weights / weights.sum()


def raising_coefficient(d: int, k: int) -> float:
    """The c_k of ``g p_k = c_k p_(k+1) + c_(k-1) p_(k-1)``."""
    if k == 0:
        return 1.0
    return float(np.sqrt(d * (k + 1.0) * (k + d - 2.0) / ((2.0 * k + d) * (2.0 * k + d - 2.0))))


def _dimensions(d: int, last: int) -> np.ndarray:
    """``p_k(sqrt(d))^2``: the dimensions of the spaces of spherical harmonics."""
    return np.square(np.fromiter((p[0] for p in zonal_polynomials(np.array([d**0.5]), d, last)), np.float64))


def power_series(kernel: RotationInvariantKernel, degree: int) -> np.ndarray:
    """Coefficients (degree + 1,), none negative, of a homogeneous network's kernel in powers of the cosine.

    With the series u of a layer's cosines, that of ``kappa_0(u)`` has the derivative ``u' / (pi sqrt(1 - u^2))``, that
    of ``kappa_1(u)`` the derivative ``kappa_0(u) u'``, and that of ``kappa_2(u)`` the derivative ``4 kappa_1(u) u'``.
    """
    cosine = np.zeros(degree + 1)
    cosine[1:2] = 1.0
    if isinstance(kernel, NTK | NNGP):
        layer = kernel._layer()
        assert isinstance(layer, FoldedLayer)  # nothing else is asked for
        tangent = cosine
        for _ in range(kernel.depth):
            step = _dual_series(0, cosine)
            cosine, slope = _folded_series(layer, cosine, step)
            tangent = _times(tangent, slope) + cosine
        return tangent if isinstance(kernel, NTK) else cosine
    assert isinstance(kernel, ArcCosine)  # nothing else is asked for
    top = float(ArcCosine(kernel.order).kappa(1.0))
    for _ in range(kernel.depth):
        cosine = _dual_series(kernel.order, cosine) / top
    return cosine * float(kernel.kappa(1.0))


def _folded_series(layer: FoldedLayer, cosine: np.ndarray, step: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of a layer's dual and of its derivative's, from the series of the cosines and of their ``kappa_0``."""
    relu = _integral(_times(step, _derivative(cosine)), float(ArcCosine(1).kappa(cosine[0])))
    linear = 1.0 - 2.0 * layer.fold
    slope = 2.0 * layer.fold * step
    slope[0] += linear
    # Where f is above 1/2 terms cancel, and rounding may leave less than nothing.
    return np.maximum(linear * cosine + 2.0 * layer.fold * relu, 0.0), np.maximum(slope, 0.0)


def _dual_series(order: int, u: np.ndarray) -> np.ndarray:
    """Of ``kappa_order(u)``."""
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
    """Of ``u^(-1/2)``, from ``2 u y' = -u' y``."""
    y = np.zeros_like(u)
    y[0] = u[0] ** -0.5
    j = np.arange(len(u), dtype=np.float64)
    for n in range(1, len(u)):
        # -1/2 i over the degrees i of u' that meet y_(n-i), less what u y' has of y_1, ..., y_(n-1).
        lower = u[1 : n + 1] * (0.5 * j[1 : n + 1] + (n - j[1 : n + 1])) @ y[n - 1 :: -1][:n]
        y[n] = -lower / (n * u[0])
    return y
