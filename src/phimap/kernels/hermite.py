"""Gaussian moments of an activation and of its derivative, from its Hermite expansion."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

# Number of terms of the Hermite expansion of an activation, which must be even. The later terms of an activation with a
# kink have about 2^-13 of its mean square.
_TERMS = 256
# Number of quadrature points, and the largest of them in standard deviations. At 12.5 the density is below 1e-34, and
# its square root, a factor of every Hermite function, is below 1e-17. The number of points is even, so that no point is
# at 0, where most kinks and jumps are.
_POINTS, _REACH = 1024, 12.5
_STEP = 2 * _REACH / _POINTS
# Number of standard deviations x for which f(x z) is expanded at a time. It keeps scratch arrays smaller than a tile.
_ROWS = 8
# The mean square of the derivative has a part from the terms of the expansion and a part from later terms. Let r be the
# second part divided by the first. The activation counts as discontinuous if r exceeds this number. For a jump r is
# about 1, or less if the activation also has a slope. For a kink it is 1/200.
_JUMP = 0.5

Activation = Callable[[np.ndarray], np.ndarray]
# Hermite coefficients (..., _TERMS + 2), and the index of the last coefficient that is not negligible.
_Expansion = tuple[np.ndarray, int]


def hermite_moment(activation: Activation, x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """``E[f(u) f(v)]`` for Gaussians u, v with standard deviations x, y and correlation ``cos(angle)``.

    Uses Mehler's formula ``sum_k c_k(x) c_k(y) cos(angle)^k``, where c_k are the coefficients of ``f(x z)`` in
    orthonormal Hermite polynomials of z. Two more terms, one even and one odd, hold the part of ``E[f(x z)^2]`` beyond
    the truncation, so that the result is positive semidefinite with the exact diagonal. The arguments broadcast.
    """
    return _mehler(_expanded(activation, x), _expanded(activation, y), angle)


def slope_moment(activation: Activation, x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """``E[f'(u) f'(v)]`` from values of f only, with the arguments of `hermite_moment`; 0 if x or y is 0.

    By Stein's lemma ``f'(x z)`` has the coefficients ``(k + 1)^(1/2) c_(k+1)(x) / x``. If the expansion of f does not
    converge within its terms, the energy of f' in later terms is estimated from difference quotients of f. The estimate
    is clipped to bounds that follow from the energy of f in later terms.
    """
    return _mehler(_expanded_slopes(activation, x), _expanded_slopes(activation, y), angle)


def paired_expansions(
    activation: Activation, derivative: Activation | None, x: np.ndarray, y: np.ndarray
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Hermite coefficients (*x.shape, n_terms) of ``f(x z)`` and ``f'(x z)``, and the same for y.

    They are the coefficients in `hermite_moment` and `slope_moment`, cut at the last term that is not negligible for x
    or for y.
    """
    sides: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for slopes in (False, True):
        of = _expanded_slopes if slopes and derivative is None else _expanded
        function = derivative if slopes and derivative is not None else activation
        found = [of(function, sizes) for sizes in (x, y)]
        n_terms = max(last for _, last in found) + 1
        for side, (coefficients, _) in zip(sides, found, strict=True):
            side.append(np.ascontiguousarray(coefficients[..., :n_terms]))
    return sides


def second_moment(activation: Activation, x: np.ndarray) -> np.ndarray:
    """``E[f(x z)^2]`` for standard Gaussian z."""
    nodes, table = _rule()
    sizes, moments = x.reshape(-1), np.empty(x.size)
    for start in range(0, x.size, _ROWS):
        rows = slice(start, start + _ROWS)
        moments[rows] = np.square(_evaluated(activation, np.multiply.outer(sizes[rows], nodes))) @ table[:, 0]
    return moments.reshape(x.shape)


def _mehler(of_x: _Expansion, of_y: _Expansion, angle: np.ndarray) -> np.ndarray:
    """``sum_k c_k(x) c_k(y) cos(angle)^k`` from two expansions; last terms that are negligible in both are left out."""
    (left, last), (right, other) = of_x, of_y
    last = max(last, other)
    cosine = np.cos(angle)
    values = np.empty(np.broadcast_shapes(left.shape[:-1], right.shape[:-1], cosine.shape))
    values[...] = left[..., last] * right[..., last]
    for k in range(last - 1, -1, -1):
        values *= cosine
        values += left[..., k] * right[..., k]
    return values


def _last(coefficients: np.ndarray) -> int:
    """Index of the last coefficient, of rows (n, _TERMS + 2), that is not negligible in some row.

    Coefficient k of a row is negligible if the squares of the coefficients k, k + 1, ... sum to at most eps times the
    sum of all squares.
    """
    beyond = np.cumsum(np.square(coefficients)[:, ::-1], axis=1)[:, ::-1]
    return max(int((beyond > np.finfo(np.float64).eps * beyond[:, :1]).any(axis=0).sum()) - 1, 0)


def _expanded(activation: Activation, x: np.ndarray) -> _Expansion:
    """Hermite coefficients of ``f(x z)``; the last two hold the even and the odd remainder."""
    nodes, table = _rule()
    sizes, coefficients, last = x.reshape(-1), np.empty((x.size, _TERMS + 2)), 0
    for start in range(0, x.size, _ROWS):
        rows = slice(start, start + _ROWS)
        values = _evaluated(activation, np.multiply.outer(sizes[rows], nodes))
        found = coefficients[rows]
        found[:, :_TERMS] = values @ table
        found[:, _TERMS:] = np.sqrt(_remainders(values, found[:, :_TERMS]))
        last = max(last, _last(found))
    return coefficients.reshape(*x.shape, _TERMS + 2), last


def _expanded_slopes(activation: Activation, x: np.ndarray) -> _Expansion:
    """Hermite coefficients of ``f'(x z)``, in the same layout as the result of `_expanded`."""
    nodes, table = _rule()
    sizes, coefficients, last = x.reshape(-1), np.zeros((x.size, _TERMS + 2)), 0
    roots = np.arange(1, _TERMS) ** 0.5
    edges = np.append(nodes - 0.5 * _STEP, nodes[-1] + 0.5 * _STEP)
    for start in range(0, x.size, _ROWS):
        rows = slice(start, start + _ROWS)
        size = np.where(sizes[rows] > 0, sizes[rows], np.inf)[:, None]
        values = _evaluated(activation, np.multiply.outer(sizes[rows], nodes))
        # The mean is subtracted, because for small x the rounding of a constant part would otherwise look like a slope.
        values = values - values @ table[:, :1]
        own = values @ table
        beyond = _remainders(values, own)
        found = coefficients[rows]
        found[:, : _TERMS - 1] = roots * own[:, 1:] / size
        # Beyond the K terms, the sum of k c_k^2 is at least the sum of K c_k^2. It is at most 3 times the sum of
        # K c_k^2 if the coefficients decrease at least as fast as for a kink. The estimate from difference quotients is
        # clipped to these bounds.
        least = _TERMS * beyond[:, ::-1] / np.square(size)
        steep = least.sum(axis=1) > _JUMP * np.square(found[:, : _TERMS - 1]).sum(axis=1)
        if steep.any():
            raise ValueError(
                "`activation` must have a derivative that 256 Hermite polynomials resolve, got one that jumps or is "
                f"too steep for rows of norm {sizes[rows][steep].max():.3g} in its layer. Scale the data down, or use "
                "NNGP."
            )
        slopes = np.diff(_evaluated(activation, np.multiply.outer(sizes[rows], edges)), axis=1) / (_STEP * size)
        found[:, _TERMS:] = np.sqrt(np.clip(_remainders(slopes, found[:, :_TERMS]), least, 3 * least))
        last = max(last, _last(found))
    return coefficients.reshape(*x.shape, _TERMS + 2), last


def _remainders(values: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    """Energies (n, 2) of the even and odd parts of functions, given at the nodes, beyond the `coefficients`."""
    table, mirrored = _rule()[1], values[:, ::-1]
    remainders = np.empty((len(values), 2))
    for parity, part in enumerate((0.5 * (values + mirrored), 0.5 * (values - mirrored))):
        energy = np.square(part) @ table[:, 0]
        remainder = energy - np.square(coefficients[:, parity::2]).sum(axis=1)
        # A remainder below the rounding error of the sums is noise.
        remainder[remainder < _TERMS * np.finfo(np.float64).eps * energy] = 0.0
        remainders[:, parity] = remainder
    return remainders


def _evaluated(activation: Activation, points: np.ndarray) -> np.ndarray:
    """The activation at points (n, q), checked to return one real number per point."""
    values = np.asarray(activation(points))
    if values.shape != points.shape or values.dtype.kind not in "biuf":
        raise ValueError(
            f"`activation` must give one real number for each it gets, got shape {values.shape} and dtype "
            f"{values.dtype} for shape {points.shape}. Write it with array operations."
        )
    return values.astype(np.float64, copy=False)


@cache
def _rule() -> tuple[np.ndarray, np.ndarray]:
    """Nodes (q,) of a trapezoidal rule for the standard Gaussian, and its weights times the Hermite polynomials (q, K).

    For smooth functions with Gaussian decay the trapezoidal rule converges as fast as Gauss quadrature, and it places
    no nodes where the density is negligible. The recurrence includes the square root of the density, so that no
    polynomial overflows.
    """
    nodes = (np.arange(_POINTS) + 0.5) * _STEP - _REACH
    root = np.exp(-0.25 * nodes * nodes) / (2 * np.pi) ** 0.25
    table = np.empty((_POINTS, _TERMS))
    table[:, 0], table[:, 1] = root, nodes * root
    for k in range(1, _TERMS - 1):
        table[:, k + 1] = (nodes * table[:, k] - k**0.5 * table[:, k - 1]) / (k + 1) ** 0.5
    table *= (root * _STEP)[:, None]
    return nodes, table
