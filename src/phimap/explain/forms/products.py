"""Landmarks of product kernels: ``f(x) = sum_i b_i prod_j k_j(x_j, z_ij)``."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np

from phimap.explain.forms.base import (
    Form,
    FormEffects,
    Players,
    contract,
    grouped,
    grouped_coefs,
    half_rule,
    over_rows,
    product_effects,
    term_blocks,
)
from phimap.explain.forms.components import Component
from phimap.ops import host, run_tasks
from phimap.ops.primitives.shapley_sums import product_pairs, product_shapley

# Number of rows of a tile of factors.
_ROWS = 16


class ProductForm(Form):
    """A sum over landmarks of products of one-dimensional kernels.

    Parameters
    ----------
    component : Component
        The product kernel.
    landmarks : ndarray of shape (m, w)
        Scaled landmarks.
    coefs : ndarray of shape (m, t)
    scale : ndarray of shape (w,) or None
        Factors of the columns of scaled rows, by which the landmarks have been multiplied; None for ones.
    """

    def __init__(self, component: Component, landmarks: np.ndarray, coefs: np.ndarray, scale: np.ndarray | None = None):
        self._component = component
        self.n_terms = len(landmarks)
        self._landmarks, self._coefs, self._scale = landmarks, component.weight * coefs, scale

    def outputs(self, rows: np.ndarray) -> np.ndarray:
        columns = [np.arange(rows.shape[1])]
        result = np.zeros((len(rows), self._coefs.shape[1]))
        for part in term_blocks(len(self._landmarks), 8 * len(rows)):
            result += self.factors(rows, columns, part)[:, 0] @ self._coefs[part]
        return result

    def shapley(self, rows: np.ndarray, background: np.ndarray, players: Players, n_jobs: int | None) -> np.ndarray:
        result = np.zeros((len(rows), len(players), self._coefs.shape[1]))
        ops, rule = host(), half_rule(len(players) - 1)
        for part in self._blocks(background, players):
            table, coefs = grouped(self._tiled_factors(background, players, part, n_jobs)), self._grouped(part)

            def explain(tile: slice, part: slice = part, table: np.ndarray = table, coefs: np.ndarray = coefs) -> None:
                factors = grouped(self.factors(rows[tile], players, part))
                result[tile] += contract(product_shapley(ops, factors, table, rule), coefs)

            over_rows(explain, len(rows), n_jobs)
        return result / len(background)

    def pairs(self, rows: np.ndarray, background: np.ndarray, players: Players, n_jobs: int | None) -> np.ndarray:
        p = len(players)
        result = np.zeros((len(rows), p, p, self._coefs.shape[1]))
        ops, rule = host(), half_rule(max(p - 2, 0))
        for part in self._blocks(background, players):
            table, coefs = grouped(self._tiled_factors(background, players, part, n_jobs)), self._grouped(part)

            def explain(tile: slice, part: slice = part, table: np.ndarray = table, coefs: np.ndarray = coefs) -> None:
                factors = grouped(self.factors(rows[tile], players, part))
                result[tile] += contract(product_pairs(ops, factors, table, rule), coefs)

            over_rows(explain, len(rows), n_jobs)
        return result / len(background)

    def effects(self, levels: np.ndarray, players: Players, chosen: np.ndarray) -> FormEffects:
        bytes_of_term = 8 * (2 * len(levels) * len(players) + len(chosen))
        return reduce(
            add,
            (
                product_effects(self.factors(levels, players, part), self._coefs[part], chosen)
                for part in term_blocks(len(self._landmarks), bytes_of_term)
            ),
        )

    def factors(self, rows: np.ndarray, players: Players, part: slice) -> np.ndarray:
        """Return the factor (n, p, M) of each player for the landmarks of a block."""
        scaled, landmarks = rows if self._scale is None else rows * self._scale, self._landmarks[part]
        result = np.ones((len(rows), len(players), len(landmarks)))
        for place, columns in enumerate(players):
            for column in columns:
                result[:, place] *= self._component.of_column(scaled, landmarks, column)
        return result

    def _tiled_factors(self, rows: np.ndarray, players: Players, part: slice, n_jobs: int | None) -> np.ndarray:
        """Return `factors`, computed on several threads."""
        tiles = [slice(start, start + _ROWS) for start in range(0, len(rows), _ROWS)]
        return np.concatenate(run_tasks(lambda tile: self.factors(rows[tile], players, part), tiles, n_jobs))

    def _blocks(self, background: np.ndarray, players: Players) -> list[slice]:
        return term_blocks(len(self._landmarks), 3 * 8 * len(background) * len(players))

    def _grouped(self, part: slice) -> np.ndarray:
        return grouped_coefs(self._coefs[part])
