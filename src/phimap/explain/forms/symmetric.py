"""Landmarks of additive kernels: means of products over all subsets of q columns.

The sum over the subsets is the coefficient of ``s^q`` in ``prod_j (1 + s k_j)``. A player is the polynomial of its own
columns, and only powers up to q are kept. All terms are positive, so that nothing cancels.
"""

from __future__ import annotations

from functools import reduce
from math import comb
from operator import add

import numpy as np

from phimap.explain.forms.base import Form, FormEffects, Players, half_rule, over_rows, term_blocks
from phimap.explain.forms.components import Component

# Polynomials (q + 1, ...): the coefficients of 1, s, ..., s^q along the first axis.


class SymmetricForm(Form):
    """A sum over landmarks of elementary symmetric polynomials of one-dimensional kernels.

    Parameters
    ----------
    component : Component
        Its `order` is the number of columns in a subset.
    landmarks : ndarray of shape (m, w)
    coefs : ndarray of shape (m, t)
    scale : ndarray of shape (w,) or None
        As for `ProductForm`.
    """

    def __init__(self, component: Component, landmarks: np.ndarray, coefs: np.ndarray, scale: np.ndarray | None = None):
        assert component.order is not None
        self._component, self._order = component, component.order
        self.n_terms = len(landmarks) * self._order**2
        self._landmarks, self._scale = landmarks, scale
        self._coefs = coefs * (component.weight / comb(landmarks.shape[1], component.order))

    def outputs(self, rows: np.ndarray) -> np.ndarray:
        columns, result = [np.arange(rows.shape[1])], np.zeros((len(rows), self._coefs.shape[1]))
        for part in term_blocks(len(self._landmarks), 8 * (self._order + 1) * len(rows)):
            result += self._polynomials(rows, columns, part)[self._order, :, 0] @ self._coefs[part]
        return result

    def shapley(self, rows: np.ndarray, background: np.ndarray, players: Players, n_jobs: int | None) -> np.ndarray:
        result = np.zeros((len(rows), len(players), self._coefs.shape[1]))
        for part in self._blocks(background, players):
            table, coefs = self._polynomials(background, players, part), self._coefs[part]

            def explain(tile: slice, part: slice = part, table: np.ndarray = table, coefs: np.ndarray = coefs) -> None:
                own = self._polynomials(rows[tile], players, part)
                for place in range(own.shape[1]):
                    result[tile.start + place] += self._of_row(own[:, place, None], table) @ coefs

            over_rows(explain, len(rows), n_jobs)
        return result / len(background)

    def pairs(self, rows: np.ndarray, background: np.ndarray, players: Players, n_jobs: int | None) -> np.ndarray:
        p = len(players)
        result = np.zeros((len(rows), p, p, self._coefs.shape[1]))
        for part in self._blocks(background, players):
            table, coefs = self._polynomials(background, players, part), self._coefs[part]

            def explain(tile: slice, part: slice = part, table: np.ndarray = table, coefs: np.ndarray = coefs) -> None:
                own = self._polynomials(rows[tile], players, part)
                for place in range(own.shape[1]):
                    result[tile.start + place] += self._pairs_of_row(own[:, place, None], table) @ coefs

            over_rows(explain, len(rows), n_jobs)
        return result / len(background)

    def effects(self, levels: np.ndarray, players: Players, chosen: np.ndarray) -> FormEffects:
        bytes_of_term = 8 * (self._order + 1) * (2 * len(levels) * len(players) + len(chosen))
        parts = term_blocks(len(self._landmarks), bytes_of_term)
        return reduce(add, (self._effects_of(levels, players, chosen, part) for part in parts))

    def _of_row(self, own: np.ndarray, table: np.ndarray) -> np.ndarray:
        """Sum the Shapley values (p, M) over the background (q + 1, B, p, M), for one row (q + 1, 1, p, M)."""
        q, p = self._order, table.shape[2]
        middle, half = 0.5 * (own + table), 0.5 * (own - table)
        result = np.zeros(table.shape[2:])
        for node, weight in zip(*half_rule(min(q, p) - 1), strict=True):
            for t in (node, -node):
                mixed = [middle[:q, :, j] + t * half[:q, :, j] for j in range(p)]
                for j, others in enumerate(_without_one(mixed)):
                    result[j] += weight * sum((half[r, :, j] * others[q - r]).sum(axis=0) for r in range(1, q + 1))
        return result

    def _pairs_of_row(self, own: np.ndarray, table: np.ndarray) -> np.ndarray:
        """Sum the interaction indices (p, p, M) over the background, for one row; as `_of_row`."""
        q, p = self._order, table.shape[2]
        middle, half = 0.5 * (own + table), 0.5 * (own - table)
        result = np.zeros((p, p, table.shape[3]))
        for node, weight in zip(*half_rule(max(min(q, p) - 2, 0)), strict=True):
            for t in (node, -node):
                mixed = [middle[:q, :, j] + t * half[:q, :, j] for j in range(p)]
                for j in range(p):
                    places = [k for k in range(p) if k != j]
                    for k, others in zip(places, _without_one([mixed[k] for k in places]), strict=True):
                        both = _pair_coefficient(half[:, :, j], half[:, :, k], others, q)
                        result[j, k] += 2 * weight * both.sum(axis=0)
        return result

    def _effects_of(self, levels: np.ndarray, players: Players, chosen: np.ndarray, part: slice) -> FormEffects:
        q, p, coefs = self._order, len(players), self._coefs[part]
        table = self._polynomials(levels, players, part)
        means = table.mean(axis=1)
        centred = table - means[:, None]
        plain = [means[:q, j] for j in range(p)]
        first = np.stack(
            [
                sum(centred[r, :, j] * others[q - r] for r in range(1, q + 1)) @ coefs
                for j, others in enumerate(_without_one(plain))
            ]
        )
        second = np.zeros((p, p, len(levels), len(levels), coefs.shape[1]))
        for j in range(p if q > 1 else 0):
            places = [k for k in range(p) if k != j]
            for k, others in zip(places, _without_one([plain[k] for k in places]), strict=True):
                if k > j:
                    both = _pair_coefficient(centred[:, :, None, j], centred[:, None, :, k], others, q)
                    second[j, k] = both @ coefs
        values = np.zeros((q + 1, len(chosen), table.shape[3]))
        values[0] = 1.0
        for j in range(p):
            values = _times(values, table[:, chosen[:, j], j])
        return FormEffects(first, second, values[q] @ coefs)

    def _polynomials(self, rows: np.ndarray, players: Players, part: slice) -> np.ndarray:
        """Return the polynomial (q + 1, n, p, M) of each player for the landmarks of a block."""
        scaled, landmarks = rows if self._scale is None else rows * self._scale, self._landmarks[part]
        result = np.zeros((self._order + 1, len(rows), len(players), len(landmarks)))
        result[0] = 1.0
        for place, columns in enumerate(players):
            for column in columns:
                values = self._component.of_column(scaled, landmarks, column)
                for r in range(self._order, 0, -1):
                    result[r, :, place] += values * result[r - 1, :, place]
        return result

    def _blocks(self, background: np.ndarray, players: Players) -> list[slice]:
        return term_blocks(len(self._landmarks), 6 * 8 * (self._order + 1) * len(background) * len(players))


def _times(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The product of two polynomials, without powers beyond those of `one`."""
    result = np.zeros(np.broadcast_shapes(one.shape, other.shape))
    for r in range(len(one)):
        for s in range(len(one) - r):
            result[r + s] += one[r] * other[s]
    return result


def _without_one(polynomials: list[np.ndarray]) -> list[np.ndarray]:
    """The products of all polynomials but one, for each of them."""
    if not polynomials:
        return []
    one = np.zeros_like(polynomials[0])
    one[0] = 1.0
    before, after = [one], [one]
    for polynomial in polynomials[:-1]:
        before.append(_times(before[-1], polynomial))
    for polynomial in polynomials[:0:-1]:
        after.append(_times(after[-1], polynomial))
    return [_times(left, right) for left, right in zip(before, reversed(after), strict=True)]


def _pair_coefficient(left: np.ndarray, right: np.ndarray, others: np.ndarray, order: int) -> np.ndarray:
    """The coefficient of ``s^order`` in a product of three polynomials, of which the first two have no constant term.

    `others` has the coefficients up to ``s^(order - 1)``.
    """
    result = np.zeros(np.broadcast_shapes(left.shape[1:], right.shape[1:], others.shape[1:]))
    for r in range(1, order):
        for s in range(1, order - r + 1):
            result += left[r] * right[s] * others[order - r - s]
    return result
