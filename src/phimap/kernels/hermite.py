"""Gaussian moments of an activation by its Hermite expansion."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

# Terms of the expansion, an even number; of an activation with a kink the energy beyond them is about a 2^-13th.
_TERMS = 256
# The rule's points reach to 12.5 standard deviations, where the density is below 1e-34 and its root, which a Hermite
# function has as a factor, below 1e-17. An even number has none at 0, where kinks and jumps mostly are.
_POINTS, _REACH = 1024, 12.5
# Standard deviations whose rule is evaluated at a time: the scratch stays within a fraction of a tile.
_ROWS = 8


def hermite_moment(
    activation: Callable[[np.ndarray], np.ndarray], x: np.ndarray, y: np.ndarray, angle: np.ndarray
) -> np.ndarray:
    """``E[f(u) f(v)]`` (n, m) for Gaussians u, v of standard deviations x (n,), y (m,) at angles (n, m).

    Mehler's formula ``sum_k c_k(x) c_k(y) cos^k`` with the coefficients of ``f(x z)`` in orthonormal Hermite
    polynomials of z. The remainder of ``E[f(x z)^2]`` beyond them is put into two more terms, one of each parity: the
    result stays positive semidefinite, and has the exact diagonal.
    """
    (left, last), (right, other) = (_coefficients(activation, sizes) for sizes in (x, y))
    last = max(last, other)
    cosine = np.cos(angle)
    values = np.multiply.outer(left[:, last], right[:, last])
    for k in range(last - 1, -1, -1):
        values *= cosine
        values += np.multiply.outer(left[:, k], right[:, k])
    return values


def second_moment(activation: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
    """``E[f(x z)^2]`` (n,) for standard Gaussian z."""
    nodes, table = _rule()
    moments = np.empty(x.size)
    for start in range(0, x.size, _ROWS):
        rows = slice(start, start + _ROWS)
        moments[rows] = np.square(_evaluated(activation, np.multiply.outer(x[rows], nodes))) @ table[:, 0]
    return moments


def _coefficients(activation: Callable[[np.ndarray], np.ndarray], sizes: np.ndarray) -> tuple[np.ndarray, int]:
    """Hermite coefficients (n, _TERMS + 2) of ``f(size z)`` for `sizes` (n,), and the last that matters.

    The last two are those of the even and of the odd remainder. Beyond the last that matters no row keeps a share of
    its energy above the rounding.
    """
    nodes, table = _rule()
    coefficients, last = np.empty((sizes.size, _TERMS + 2)), 0
    for start in range(0, sizes.size, _ROWS):
        rows = slice(start, start + _ROWS)
        values = _evaluated(activation, np.multiply.outer(sizes[rows], nodes))
        found = coefficients[rows]
        found[:, :_TERMS] = values @ table
        mirrored = values[:, ::-1]
        for parity, part in enumerate((0.5 * (values + mirrored), 0.5 * (values - mirrored))):
            energy = np.square(part) @ table[:, 0]
            remainder = energy - np.square(found[:, parity:_TERMS:2]).sum(axis=1)
            # Below the rounding of the sums the remainder is noise.
            remainder[remainder < _TERMS * np.finfo(np.float64).eps * energy] = 0.0
            found[:, _TERMS + parity] = np.sqrt(remainder)
        beyond = np.cumsum(np.square(found)[:, ::-1], axis=1)[:, ::-1]
        needed = (beyond > np.finfo(np.float64).eps * beyond[:, :1]).any(axis=0)
        last = max(last, int(needed.sum()) - 1)
    return coefficients, last


def _evaluated(activation: Callable[[np.ndarray], np.ndarray], points: np.ndarray) -> np.ndarray:
    """The activation at points (n, q), checked to be one number for each."""
    values = np.asarray(activation(points))
    if values.shape != points.shape or values.dtype.kind not in "biuf":
        raise ValueError(
            f"`activation` must give one real number for each it gets, got shape {values.shape} and dtype "
            f"{values.dtype} for shape {points.shape}. Write it with array operations."
        )
    return values.astype(np.float64, copy=False)


@cache
def _rule() -> tuple[np.ndarray, np.ndarray]:
    """Nodes (q,) of a trapezoidal rule for the Gaussian law, and its weights times the Hermite polynomials (q, K).

    For smooth functions of Gaussian decay the trapezoidal rule converges as fast as Gauss's, and it does not spend
    its nodes where the density is nothing. Polynomials come with the root of the density, so that none overflows.
    """
    step = 2 * _REACH / _POINTS
    nodes = (np.arange(_POINTS) + 0.5) * step - _REACH
    root = np.exp(-0.25 * nodes * nodes) / (2 * np.pi) ** 0.25
    table = np.empty((_POINTS, _TERMS))
    table[:, 0], table[:, 1] = root, nodes * root
    for k in range(1, _TERMS - 1):
        table[:, k + 1] = (nodes * table[:, k] - k**0.5 * table[:, k - 1]) / (k + 1) ** 0.5
    table *= (root * step)[:, None]
    return nodes, table
