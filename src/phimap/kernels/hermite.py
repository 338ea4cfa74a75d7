"""Gaussian moments of an activation and of its derivative by its Hermite expansion."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

# Terms of the expansion, an even number; of an activation with a kink the energy beyond them is about a 2^-13th.
_TERMS = 256
# The rule's points reach to 12.5 standard deviations, where the density is below 1e-34 and its root, which a Hermite
# function has as a factor, below 1e-17. An even number has none at 0, where kinks and jumps mostly are.
_POINTS, _REACH = 1024, 12.5
_STEP = 2 * _REACH / _POINTS
# Standard deviations whose rule is evaluated at a time: the scratch stays within a fraction of a tile.
_ROWS = 8
# The least energy of a derivative beyond the terms, over that within, from which on an activation jumps as far as the
# rule can tell: it is about 1 for a jump, less for one beside a slope, and a 200th for a kink.
_JUMP = 0.5

Activation = Callable[[np.ndarray], np.ndarray]
# Coefficients (..., _TERMS + 2), and the last that matters.
_Expansion = tuple[np.ndarray, int]


def hermite_moment(activation: Activation, x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """``E[f(u) f(v)]`` for Gaussians u, v of standard deviations x, y at angles, arrays that broadcast.

    Mehler's formula ``sum_k c_k(x) c_k(y) cos^k`` with the coefficients of ``f(x z)`` in orthonormal Hermite
    polynomials of z. The remainder of ``E[f(x z)^2]`` beyond them is put into two more terms, one of each parity: the
    result stays positive semidefinite, and has the exact diagonal.
    """
    return _mehler(_expanded(activation, x), _expanded(activation, y), angle)


def slope_moment(activation: Activation, x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """``E[f'(u) f'(v)]`` of an f that is known by its values alone, as in `hermite_moment`; 0 where x or y is 0.

    By Stein's lemma ``f'(x z)`` has the coefficients ``(k + 1)^(1/2) c_(k+1)(x) / x``. Where the expansion of f does
    not end, the energy of f' beyond it comes from the slopes of f between points of the rule, within bounds by the
    energy of f beyond.
    """
    return _mehler(_expanded_slopes(activation, x), _expanded_slopes(activation, y), angle)


def paired_expansions(
    activation: Activation, derivative: Activation | None, x: np.ndarray, y: np.ndarray
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Coefficients of ``f(x z)`` and of ``f'(x z)``, and those for y: each (*x.shape, n_terms).

    They are those of `hermite_moment` and of `slope_moment`. Both sides have as many terms as matter in either.
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
    """``sum_k left_k right_k cos^k`` of coefficients along the last axis, up to the last that matters in either."""
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
    """The last coefficient of (n, _TERMS + 2) that matters: beyond, no row keeps energy above the rounding."""
    beyond = np.cumsum(np.square(coefficients)[:, ::-1], axis=1)[:, ::-1]
    return max(int((beyond > np.finfo(np.float64).eps * beyond[:, :1]).any(axis=0).sum()) - 1, 0)


def _expanded(activation: Activation, x: np.ndarray) -> _Expansion:
    """Hermite coefficients of ``f(x z)``; the last two are those of the even and of the odd remainder."""
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
    """The same of ``f'(x z)``."""
    nodes, table = _rule()
    sizes, coefficients, last = x.reshape(-1), np.zeros((x.size, _TERMS + 2)), 0
    roots = np.arange(1, _TERMS) ** 0.5
    edges = np.append(nodes - 0.5 * _STEP, nodes[-1] + 0.5 * _STEP)
    for start in range(0, x.size, _ROWS):
        rows = slice(start, start + _ROWS)
        size = np.where(sizes[rows] > 0, sizes[rows], np.inf)[:, None]
        values = _evaluated(activation, np.multiply.outer(sizes[rows], nodes))
        # A constant has no slope, but its rounding would have one where x is small.
        values = values - values @ table[:, :1]
        own = values @ table
        beyond = _remainders(values, own)
        found = coefficients[rows]
        found[:, : _TERMS - 1] = roots * own[:, 1:] / size
        # The sum of k c_k^2 beyond is at least that of K c_k^2 and, where coefficients fall like those of a kink or
        # faster, at most 3 times that. Differences know where between them it is, but for an error of their own.
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
    """Energies (n, 2) beyond coefficients (n, _TERMS) of the even and the odd part of a function at the nodes."""
    table, mirrored = _rule()[1], values[:, ::-1]
    remainders = np.empty((len(values), 2))
    for parity, part in enumerate((0.5 * (values + mirrored), 0.5 * (values - mirrored))):
        energy = np.square(part) @ table[:, 0]
        remainder = energy - np.square(coefficients[:, parity::2]).sum(axis=1)
        # Below the rounding of the sums the remainder is noise.
        remainder[remainder < _TERMS * np.finfo(np.float64).eps * energy] = 0.0
        remainders[:, parity] = remainder
    return remainders


def _evaluated(activation: Activation, points: np.ndarray) -> np.ndarray:
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
    nodes = (np.arange(_POINTS) + 0.5) * _STEP - _REACH
    root = np.exp(-0.25 * nodes * nodes) / (2 * np.pi) ** 0.25
    table = np.empty((_POINTS, _TERMS))
    table[:, 0], table[:, 1] = root, nodes * root
    for k in range(1, _TERMS - 1):
        table[:, k + 1] = (nodes * table[:, k] - k**0.5 * table[:, k - 1]) / (k + 1) ** 0.5
    table *= (root * _STEP)[:, None]
    return nodes, table
