"""Fourier features with any linear metric: ``f(x) = sum_i a_i cos <w_i, x> + g_i sin <w_i, x>``."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np

from phimap.explain.forms.base import (
    Form,
    FormEffects,
    Players,
    coalition_rule,
    contract,
    grouped,
    grouped_coefs,
    over_rows,
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
        for part in term_blocks(len(self._frequencies), 3 * 8 * len(rows)):
            angles = rows @ self._frequencies[part].T
            result += np.cos(angles) @ self._cosines[part] + np.sin(angles) @ self._sines[part]
        return result

    def shapley(self, rows: np.ndarray, background: np.ndarray, players: Players, n_jobs: int | None) -> np.ndarray:
        result = np.zeros((len(rows), len(players), self._cosines.shape[1]))
        ops, rule = host(), coalition_rule(len(players) - 1, with_ends=True)
        for part in self._blocks(background, players):
            table, a, g = self._half_angles(background, players, part), *self._grouped(part)

            def explain(
                tile: slice, part: slice = part, table: HalfAngles = table, a: np.ndarray = a, g: np.ndarray = g
            ) -> None:
                sums = phase_shapley(ops, self._half_angles(rows[tile], players, part), table, rule)
                # exp(i u) - exp(i v) is 2 i sin((u - v) / 2) times exp(i (u + v) / 2).
                result[tile] += 2 * (contract(sums[0], g) - contract(sums[1], a))

            over_rows(explain, len(rows), n_jobs)
        return result / len(background)

    def pairs(self, rows: np.ndarray, background: np.ndarray, players: Players, n_jobs: int | None) -> np.ndarray:
        p = len(players)
        result = np.zeros((len(rows), p, p, self._cosines.shape[1]))
        ops, rule = host(), coalition_rule(max(p - 2, 0))
        for part in self._blocks(background, players):
            table, a, g = self._half_angles(background, players, part), *self._grouped(part)

            def explain(
                tile: slice, part: slice = part, table: HalfAngles = table, a: np.ndarray = a, g: np.ndarray = g
            ) -> None:
                sums = phase_pairs(ops, self._half_angles(rows[tile], players, part), table, rule)
                # A pair of players gives a product of two differences of phases, which has the factor (2 i)^2 = -4.
                result[tile] -= 4 * (contract(sums[0], a) + contract(sums[1], g))

            over_rows(explain, len(rows), n_jobs)
        return result / len(background)

    def effects(self, levels: np.ndarray, players: Players, chosen: np.ndarray) -> FormEffects:
        bytes_of_term = 16 * (2 * len(levels) * len(players) + len(chosen))
        coefs = self._cosines - 1j * self._sines
        return reduce(
            add,
            (
                product_effects(np.exp(2j * self._halves(levels, players, part)), coefs[part], chosen)
                for part in term_blocks(len(self._frequencies), bytes_of_term)
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

    def _blocks(self, background: np.ndarray, players: Players) -> list[slice]:
        return term_blocks(len(self._frequencies), 5 * 8 * len(background) * len(players))

    def _grouped(self, part: slice) -> tuple[np.ndarray, np.ndarray]:
        return grouped_coefs(self._cosines[part]), grouped_coefs(self._sines[part])
