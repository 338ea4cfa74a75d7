"""Fourier features with any linear metric: ``f(x) = sum_i a_i cos <w_i, x> + g_i sin <w_i, x>``."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any

import numpy as np

from phimap.explain.forms.base import (
    Form,
    FormEffects,
    OfTile,
    Players,
    coalition_rule,
    contract,
    grouped,
    grouped_coefs,
    over_blocks,
    product_effects,
    term_blocks,
)
from phimap.ops import host
from phimap.ops.primitives.shapley_sums import HalfAngles, phase_pairs, phase_shapley


class PhaseForm(Form):
    """A sum over frequencies w of ``a cos <w, x> + g sin <w, x>``, the real part of ``(a - i g) exp(i <w, x>)``.

    ``exp(i <w, x>)`` is the product over the columns j of the phases ``exp(i w_j x_j)``.

    Parameters
    ----------
    frequencies : ndarray of shape (m, w)
        Frequencies of scaled rows, the metric included.
    cosines, sines : ndarray of shape (m, t)
        Coefficients a of the cosines and g of the sines.
    """

    def __init__(self, frequencies: np.ndarray, cosines: np.ndarray, sines: np.ndarray):
        self.n_terms = len(frequencies)
        self._frequencies, self._cosines, self._sines = frequencies, cosines, sines

    def outputs(self, rows: np.ndarray) -> np.ndarray:
        result = np.zeros((len(rows), self._cosines.shape[1]))
        for part in term_blocks(self.n_terms, 3 * 8 * len(rows)):
            angles = rows @ self._frequencies[part].T
            result += np.cos(angles) @ self._cosines[part] + np.sin(angles) @ self._sines[part]
        return result

    def _sums(
        self, rows: np.ndarray, background: np.ndarray, players: Players, n_jobs: int | None, *, pairs: bool
    ) -> np.ndarray:
        primitive: Any = phase_pairs if pairs else phase_shapley
        rule = coalition_rule(max(len(players) - 1 - pairs, 0), with_ends=not pairs)
        # exp(i u) - exp(i v) is 2 i sin((u - v) / 2) times exp(i (u + v) / 2). A pair of players gives a product of two
        # such differences, which has the factor (2 i)^2 = -4.
        a, g = self._cosines, self._sines
        coefs = (-4 * a, -4 * g) if pairs else (2 * g, -2 * a)

        def of_block(part: slice) -> OfTile:
            table = self._half_angles(background, players, part)
            first, second = (grouped_coefs(one[part]) for one in coefs)

            def of_tile(tile: slice) -> np.ndarray:
                sums = primitive(host(), self._half_angles(rows[tile], players, part), table, rule)
                return contract(sums[0], first) + contract(sums[1], second)

            return of_tile

        parts = term_blocks(self.n_terms, 5 * 8 * len(background) * len(players))
        shape = len(rows), *[len(players)] * (1 + pairs), self._cosines.shape[1]
        return over_blocks(of_block, parts, shape, n_jobs)

    def effects(self, levels: np.ndarray, players: Players, chosen: np.ndarray) -> FormEffects:
        bytes_of_term = 16 * (2 * len(levels) * len(players) + len(chosen))
        coefs = self._cosines - 1j * self._sines
        return reduce(
            add,
            (
                product_effects(np.exp(2j * self._halves(levels, players, part)), coefs[part], chosen)
                for part in term_blocks(self.n_terms, bytes_of_term)
            ),
        )

    def _halves(self, rows: np.ndarray, players: Players, part: slice) -> np.ndarray:
        """Return half of the angle ``<w, x>`` (n, p, M), summed over the columns of each player, for M frequencies."""
        frequencies = 0.5 * self._frequencies[part]
        halves = np.empty((len(rows), len(players), len(frequencies)))
        for place, columns in enumerate(players):
            halves[:, place] = rows[:, columns] @ frequencies[:, columns].T
        return halves

    def _half_angles(self, rows: np.ndarray, players: Players, part: slice) -> HalfAngles:
        """Return cosines and sines of the half angles of each player and of their sum, in groups of terms."""
        halves = grouped(self._halves(rows, players, part))
        totals = halves.sum(axis=2)
        return np.cos(halves), np.sin(halves), np.cos(totals), np.sin(totals)
