"""Sums of products, such as ``f(x) = sum_i b_i prod_j k_j(x_j, z_ij)`` for landmarks z_i of a product kernel."""

from __future__ import annotations

from abc import abstractmethod
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
from phimap.explain.forms.components import Component, of_column
from phimap.ops import host, run_tasks
from phimap.ops.primitives.shapley_sums import product_pairs, product_shapley

# Number of background rows for which a task computes factors.
_ROWS = 16


class ProductForm(Form):
    """A sum of products over players, whose factors a subclass computes.

    Parameters
    ----------
    coefs : ndarray of shape (m, t)
        Coefficients of the products.
    """

    def __init__(self, coefs: np.ndarray):
        self.n_terms, self._coefs = len(coefs), coefs

    def outputs(self, rows: np.ndarray) -> np.ndarray:
        columns = [np.arange(rows.shape[1])]
        result = np.zeros((len(rows), self._coefs.shape[1]))
        for part in term_blocks(self.n_terms, 8 * len(rows)):
            result += self.factors(rows, columns, part)[:, 0] @ self._coefs[part]
        return result

    def _sums(
        self, rows: np.ndarray, background: np.ndarray, players: Players, n_jobs: int | None, *, pairs: bool
    ) -> np.ndarray:
        primitive: Any = product_pairs if pairs else product_shapley
        rule = coalition_rule(max(len(players) - 1 - pairs, 0))

        def of_block(part: slice) -> OfTile:
            table = grouped(self._tiled_factors(background, players, part, n_jobs))
            coefs = grouped_coefs(self._coefs[part])

            def of_tile(tile: slice) -> np.ndarray:
                factors = grouped(self.factors(rows[tile], players, part))
                return contract(primitive(host(), factors, table, rule), coefs)

            return of_tile

        parts = term_blocks(self.n_terms, 3 * 8 * len(background) * len(players))
        shape = len(rows), *[len(players)] * (1 + pairs), self._coefs.shape[1]
        return over_blocks(of_block, parts, shape, n_jobs)

    def effects(self, levels: np.ndarray, players: Players, chosen: np.ndarray) -> FormEffects:
        bytes_of_term = 8 * (2 * len(levels) * len(players) + len(chosen))
        return reduce(
            add,
            (
                product_effects(self.factors(levels, players, part), self._coefs[part], chosen)
                for part in term_blocks(self.n_terms, bytes_of_term)
            ),
        )

    @abstractmethod
    def factors(self, rows: np.ndarray, players: Players, part: slice) -> np.ndarray:
        """Return the factor (n, p, M) of each player for the terms of a block."""

    def _tiled_factors(self, rows: np.ndarray, players: Players, part: slice, n_jobs: int | None) -> np.ndarray:
        """Return `factors`, computed on several threads."""
        tiles = [slice(start, start + _ROWS) for start in range(0, len(rows), _ROWS)]
        return np.concatenate(run_tasks(lambda tile: self.factors(rows[tile], players, part), tiles, n_jobs))


class LandmarkForm(ProductForm):
    """A sum over landmarks of products of one-dimensional kernels.

    Parameters
    ----------
    component : Component
        The product kernel.
    landmarks : ndarray of shape (m, w)
        Scaled landmarks.
    coefs : ndarray of shape (m, t)
        Coefficients of the landmarks.
    scale : ndarray of shape (w,) or None
        Factors by which the columns of scaled rows are multiplied; the landmarks include them already. None for ones.
    """

    def __init__(self, component: Component, landmarks: np.ndarray, coefs: np.ndarray, scale: np.ndarray | None = None):
        super().__init__(component.weight * coefs)
        self._kernels, self._landmarks, self._scale = component.kernels, landmarks, scale

    def factors(self, rows: np.ndarray, players: Players, part: slice) -> np.ndarray:
        scaled, landmarks = rows if self._scale is None else rows * self._scale, self._landmarks[part]
        result = np.ones((len(rows), len(players), len(landmarks)))
        for place, columns in enumerate(players):
            for column in columns:
                result[:, place] *= of_column(self._kernels, scaled, landmarks, column)
        return result
