"""Sums of Shapley values over background rows, for functions that are sums of products over the players.

A term is ``prod_j v_j``, where factor j depends on player j alone. In a coalition, a player has the factor ``a_j`` of
the explained row; outside, the factor ``c_j`` of a background row. With ``m_j = (a_j + c_j) / 2``,
``h_j = (a_j - c_j) / 2`` and ``v_l = m_l + t h_l``, the Shapley value of player j is
``h_j int_{-1}^{1} prod_{l != j} v_l dt``, a polynomial integral for which a Gauss-Legendre rule is exact. ``sum_u`` is
the sum over the background rows u.

Terms come in groups: arrays have shape (groups, rows, players, lanes), where each lane is one term. A rule is a pair of
arrays (nodes, weights) that holds the nodes t >= 0 of a symmetric rule on [-1, 1]; the weight of a node at 0 is halved,
because every node is used with both signs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from phimap.ops.base import Array, Ops
from phimap.ops.primitive import primitive

Rule = tuple[Array, Array]
#: Cosines and sines of half angles: of each player (G, r, p, L) and of the sum over the players (G, r, L).
HalfAngles = tuple[Array, Array, Array, Array]


@primitive
def product_shapley(ops: Ops, rows: Array, background: Array, rule: Rule) -> Array:
    """Return ``sum_u h_j int prod_{l != j} v_l`` (G, n, p, L) for real factors of rows and background rows.

    `rows` is (G, n, p, L), `background` (G, B, p, L), and the integral is over [-1, 1].
    """
    middle, half = _mixture(rows, background)
    out = ops.empty(tuple(rows.shape))
    for j, total in enumerate(_leave_one_out(middle, half, rule)):
        out[:, :, j] = (total * half[j]).sum(2)
    return out


@primitive
def product_pairs(ops: Ops, rows: Array, background: Array, rule: Rule) -> Array:
    """Return ``sum_u 2 h_j h_k int prod_{l != j, k} v_l`` (G, n, p, p, L), symmetric, with a zero diagonal."""
    middle, half = _mixture(rows, background)
    groups, n, p, lanes = rows.shape
    out = ops.empty((groups, n, p, p, lanes))
    out[...] = 0.0
    for j in range(p):
        others = [k for k in range(p) if k != j]
        left = _leave_one_out([middle[k] for k in others], [half[k] for k in others], rule)
        for k, total in zip(others, left, strict=True):
            out[:, :, j, k] = (2.0 * total * half[j] * half[k]).sum(2)
    return out


@primitive
def phase_shapley(ops: Ops, rows: HalfAngles, background: HalfAngles, rule: Rule) -> tuple[Array, Array]:
    """Return ``sum_u s_j I_j C`` and ``sum_u s_j I_j S``, both (G, n, p, L), for factors ``exp(i angle)``.

    With psi_j the difference of the half angles of player j, ``s_j = sin psi_j`` and ``I_j`` is half of the integral of
    ``prod_{l != j} (cos psi_l + i t sin psi_l)`` over [-1, 1], which is real. C and S are the cosine and the sine of
    the sum of all half angles of both rows.
    """
    cosines, sines, C, S = _angles(rows, background)
    outs = ops.empty(tuple(rows[0].shape)), ops.empty(tuple(rows[0].shape))
    for j, total in enumerate(_real_parts(cosines, sines, rule)):
        outs[0][:, :, j] = (total * sines[j] * C).sum(2)
        outs[1][:, :, j] = (total * sines[j] * S).sum(2)
    return outs


@primitive
def phase_pairs(ops: Ops, rows: HalfAngles, background: HalfAngles, rule: Rule) -> tuple[Array, Array]:
    """Return ``sum_u s_j s_k I_jk C`` and ``sum_u s_j s_k I_jk S``, both (G, n, p, p, L), with zero diagonals.

    Names are defined in `phase_shapley`; I_jk leaves out two players.
    """
    cosines, sines, C, S = _angles(rows, background)
    groups, n, p, lanes = rows[0].shape
    outs = ops.empty((groups, n, p, p, lanes)), ops.empty((groups, n, p, p, lanes))
    for out in outs:
        out[...] = 0.0
    for j in range(p):
        others = [k for k in range(p) if k != j]
        left = _real_parts([cosines[k] for k in others], [sines[k] for k in others], rule)
        for k, total in zip(others, left, strict=True):
            both = total * sines[j] * sines[k]
            outs[0][:, :, j, k] = (both * C).sum(2)
            outs[1][:, :, j, k] = (both * S).sum(2)
    return outs


def _mixture(rows: Array, background: Array) -> tuple[list[Array], list[Array]]:
    """Means and half differences (G, n, B, L) of the factors of each player."""
    a, c = rows[:, :, None], background[:, None]
    middle, half = 0.5 * (a + c), 0.5 * (a - c)
    players = range(rows.shape[2])
    return [middle[..., j, :] for j in players], [half[..., j, :] for j in players]


def _leave_one_out(middle: list[Array], half: list[Array], rule: Rule) -> list[Array]:
    """Integrals (G, n, B, L) over [-1, 1] of the products without one player, for each player."""
    totals = [0.0 * factor for factor in middle]
    for node, weight in _nodes(rule):
        for t in (node, -node):
            factors = [m + t * h for m, h in zip(middle, half, strict=True)]
            before, after, prefixes = 1.0, weight, []
            for factor in factors:
                prefixes.append(before)
                before = before * factor
            for j in range(len(factors) - 1, -1, -1):
                totals[j] = totals[j] + prefixes[j] * after
                after = after * factors[j]
    return totals


def _angles(rows: HalfAngles, background: HalfAngles) -> tuple[list[Array], list[Array], Array, Array]:
    """Cosines and sines of psi for each player, and of the sum of all half angles; all (G, n, B, L)."""
    a, b, a_total, b_total = (part[:, :, None] for part in rows)
    c, d, c_total, d_total = (part[:, None] for part in background)
    players = range(rows[0].shape[2])
    cosines = [a[..., j, :] * c[..., j, :] + b[..., j, :] * d[..., j, :] for j in players]
    sines = [b[..., j, :] * c[..., j, :] - a[..., j, :] * d[..., j, :] for j in players]
    return cosines, sines, a_total * c_total - b_total * d_total, a_total * d_total + b_total * c_total


def _real_parts(cosines: list[Array], sines: list[Array], rule: Rule) -> list[Array]:
    """For each player j, half of the integral of ``prod_{l != j} (cos psi_l + i t sin psi_l)`` over [-1, 1].

    Each result is an array (G, n, B, L). The integrand at -t is the conjugate of the integrand at t, so half of the
    integral is the weighted sum of the real parts at the nodes t >= 0.
    """
    totals = [0.0 * cosine for cosine in cosines]
    for node, weight in _nodes(rule):
        factors = [(c, node * s) for c, s in zip(cosines, sines, strict=True)]
        before, after, prefixes = (1.0, 0.0), (weight, 0.0), []
        for factor in factors:
            prefixes.append(before)
            before = _times(before, factor)
        for j in range(len(factors) - 1, -1, -1):
            totals[j] = totals[j] + _times(prefixes[j], after)[0]
            after = _times(after, factors[j])
    return totals


def _times(one: tuple[Any, Any], other: tuple[Any, Any]) -> tuple[Any, Any]:
    """The product of two complex numbers, given as pairs of real and imaginary parts."""
    return one[0] * other[0] - one[1] * other[1], one[0] * other[1] + one[1] * other[0]


def _nodes(rule: Rule) -> Iterator[tuple[float, float]]:
    return ((float(node), float(weight)) for node, weight in zip(*rule, strict=True))


@product_shapley.override("numpy")
def _(ops: Ops, rows: Array, background: Array, rule: Rule) -> Array:
    from phimap.ops.compiled.shapley_products import shapley

    _check(rows, background)
    rows, background = _contiguous(rows, background)
    out = np.zeros(rows.shape, rows.dtype)
    shapley(rows, background, *_host_rule(rule), _scratch(rows, 5), out)
    return out


@product_pairs.override("numpy")
def _(ops: Ops, rows: Array, background: Array, rule: Rule) -> Array:
    from phimap.ops.compiled.shapley_products import pairs

    _check(rows, background)
    rows, background = _contiguous(rows, background)
    groups, n, p, lanes = rows.shape
    out, sums = np.zeros((groups, n, p, p, lanes), rows.dtype), np.zeros(p * p * lanes, rows.dtype)
    pairs(rows, background, *_host_rule(rule), _scratch(rows, 6), sums, out)
    return out


@phase_shapley.override("numpy")
def _(ops: Ops, rows: HalfAngles, background: HalfAngles, rule: Rule) -> tuple[Array, Array]:
    from phimap.ops.compiled.shapley_phases import shapley

    _check(rows[0], background[0])
    rows, background = _contiguous(*rows), _contiguous(*background)
    outs = np.zeros(rows[0].shape, rows[0].dtype), np.zeros(rows[0].shape, rows[0].dtype)
    nodes, weights = _host_rule(rule)
    # The loop computes the nodes 0 and 1 separately, and two of the other nodes at a time.
    ends = np.array([weights[nodes == end].sum() for end in (0.0, 1.0)])
    within = (nodes > 0.0) & (nodes < 1.0)
    fill = np.zeros(within.sum() % 2)
    nodes, weights = np.append(nodes[within], fill), np.append(weights[within], fill)
    shapley(rows, background, ends, nodes, weights, _scratch(rows[0], 7), outs)
    return outs


@phase_pairs.override("numpy")
def _(ops: Ops, rows: HalfAngles, background: HalfAngles, rule: Rule) -> tuple[Array, Array]:
    from phimap.ops.compiled.shapley_phases import pairs

    _check(rows[0], background[0])
    rows, background = _contiguous(*rows), _contiguous(*background)
    groups, n, p, lanes = rows[0].shape
    dtype = rows[0].dtype
    outs = np.zeros((groups, n, p, p, lanes), dtype), np.zeros((groups, n, p, p, lanes), dtype)
    pairs(rows, background, *_host_rule(rule), _scratch(rows[0], 4), np.zeros(p * p * lanes, dtype), outs)
    return outs


def lanes(dtype: Any) -> int:
    """Number of terms in a group for factors of this dtype. The terms take 64 bytes, as the compiled loops require."""
    return 64 // np.dtype(dtype).itemsize


def _check(rows: Array, background: Array) -> None:
    """Raise if the compiled loop, which does not check bounds, would read out of bounds."""
    groups, _, players, width = rows.shape
    if width != lanes(rows.dtype) or (background.shape[0], *background.shape[2:]) != (groups, players, width):
        raise ValueError(
            f"`background` must have the groups, players and {lanes(rows.dtype)} lanes of `rows`, got "
            f"{background.shape} and {rows.shape}. Fill incomplete groups with zeros."
        )


def _contiguous(*arrays: Array) -> tuple[Array, ...]:
    return tuple(np.ascontiguousarray(array) for array in arrays)


def _host_rule(rule: Rule) -> tuple[np.ndarray, np.ndarray]:
    nodes, weights = (np.asarray(part, dtype=np.float64) for part in rule)
    return nodes, weights


def _scratch(rows: Array, n_parts: int) -> np.ndarray:
    return np.empty((n_parts, rows.shape[2] * rows.shape[3]), rows.dtype)
