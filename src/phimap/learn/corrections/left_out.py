"""Errors of a corrected model at training rows that are left out of the linear model and of the corrections."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from phimap.learn.blocks.blocks import FeatureRows
from phimap.learn.corrections.fit import LearnedCorrections
from phimap.learn.corrections.residuals import Outputs
from phimap.learn.ridge.predictive import Leverages

# Largest number of columns of outputs that are computed in one pass over the features.
_MOST_COLUMNS = 1024


class LeftOutRows(NamedTuple):
    """Training rows, and their errors in fits of the linear model without them.

    Attributes
    ----------
    rows : FeatureRows
    keys : ndarray of shape (r,)
        Ascending keys of the rows.
    errors : ndarray of shape (r, t)
    together : sequence of ndarray of int, or None
        Indices of rows that are left out together; None if each row is left out by itself.
    """

    rows: FeatureRows
    keys: np.ndarray
    errors: np.ndarray
    together: Sequence[np.ndarray] | None

    @property
    def units(self) -> np.ndarray:
        """Number of the unit of each row (r,), in the order of `together`; a row left out by itself is a unit."""
        units = np.arange(len(self.errors))
        for number, unit in enumerate(() if self.together is None else self.together):
            units[unit] = number
        return units


def corrected_errors(
    learned: LearnedCorrections, left_out: LeftOutRows, leverages: Leverages, outputs: Outputs
) -> np.ndarray:
    r"""Return the errors (r, t) of corrected models at rows that are left out of their fits.

    Parameters
    ----------
    learned : LearnedCorrections
        Corrections that were learned with the keys of these rows.
    left_out : LeftOutRows
    leverages : Leverages
        Leverages of the linear model.
    outputs : Outputs
        Outputs of coefficients on the features of the linear model.

    Notes
    -----
    Let G be the rows left out together, w their weights, e their errors in the linear model without them, and
    :math:`h_{ji} = w_i [z_j^T (A + \alpha I)^{-1} z_i + 1 / \sum w]` for centred rows. Without G the residuals of a
    region are :math:`E' = E + h_{\cdot G}\, e`, and :math:`E'_G = e` in particular. With S the roots of the weights of
    the region, :math:`B = (S K S + a I)^{-1}` and a the alpha of the corrections, the errors of a model with the
    corrections of one partition are :math:`S_G^{-1} B_{GG}^{-1} (B S E')_G` for the rows of G in this region. With a
    shrinkage c, the errors are c times their mean over partitions plus 1 - c times the errors of the linear model.

    **Error.** Rounding in the dtype of the rows. **Cost.** Each left-out row takes a column of outputs at the rows of
    its regions. With units, each left-out unit takes a column for each target at the rows of all its regions. The
    features of all rows are computed once, with units once for each `_MOST_COLUMNS` columns.
    """
    corrections, residuals = learned.corrections, learned.residuals
    by_key = np.argsort(residuals.keys, kind="stable")
    places = by_key[np.searchsorted(residuals.keys[by_key], left_out.keys)]
    divided = [_Divided.of(learned, k, places) for k in range(len(corrections.models))]
    order = corrections.models[0].order
    for columns in _Columns.chunks(left_out, leverages):
        for k, number, moved in columns.moves(divided, residuals.X, order, outputs):
            divided[k].regions[number].values[...] += moved
    mean = np.mean([one.errors(left_out) for one in divided], axis=0)
    return left_out.errors + corrections.shrinkage * (mean - left_out.errors)


class _Divided(NamedTuple):
    """A partition of the rows, and those of its regions that have corrections and left-out rows.

    Attributes
    ----------
    numbers : ndarray of int, shape (n,)
        Number of the region of each row.
    regions : dict of int to _Region
        The regions by number.
    """

    numbers: np.ndarray
    regions: dict[int, _Region]

    @classmethod
    def of(cls, learned: LearnedCorrections, k: int, places: np.ndarray) -> _Divided:
        """Return the regions of partition `k`. The left-out rows are at `places` among all rows."""
        model = learned.corrections.models[k]
        numbers, parts = np.empty(len(learned.left_out), np.intp), model.parts()
        numbers[model.order] = np.repeat(np.arange(len(parts)), [part.stop - part.start for part in parts])
        regions = dict[int, _Region]()
        for number in map(int, np.unique(numbers[places])):
            if model.coefs[parts[number]].any():
                here = np.flatnonzero(numbers[places] == number)
                part = model.order[parts[number]]
                regions[number] = _Region.of(learned, part, learned.inverses[k][number], places[here], here)
        return cls(numbers, regions)

    def errors(self, left_out: LeftOutRows) -> np.ndarray:
        """Return the errors (r, t) of the model with the corrections of this partition, before shrinkage."""
        errors, units = left_out.errors.copy(), left_out.units
        for region in self.regions.values():
            roots, own_units = region.roots[region.rows], units[region.here]
            for unit in np.unique(own_units):
                own = np.flatnonzero(own_units == unit)
                block = region.inverse[np.ix_(region.rows[own], own)]
                errors[region.here[own]] = np.linalg.solve(block, region.values[own]) / roots[own]
        return errors


@dataclass(frozen=True)
class _Region:
    """A region of a partition, and the rows of this region that are left out.

    Attributes
    ----------
    part : ndarray of int, shape (n,)
        Rows of the region.
    here : ndarray of int, shape (h,)
        Places of the left-out rows of this region among all left-out rows.
    rows : ndarray of int, shape (h,)
        Places of these rows in `part`.
    inverse : ndarray of shape (n, h)
        The columns of B, the inverse in the notes of `corrected_errors`, that belong to the left-out rows.
    roots : ndarray of shape (n, 1)
        Roots of the weights of the rows.
    values : ndarray of shape (h, t)
        The ``(B S E')_G`` of the notes; at first without the influence of the left-out rows.
    """

    part: np.ndarray
    here: np.ndarray
    rows: np.ndarray
    inverse: np.ndarray
    roots: np.ndarray
    values: np.ndarray

    @classmethod
    def of(
        cls, learned: LearnedCorrections, part: np.ndarray, inverse: np.ndarray, places: np.ndarray, here: np.ndarray
    ) -> _Region:
        """Return the region of the rows `part`, with the columns of `inverse` that belong to the left-out rows.

        These rows are at `places` among all rows, and `here` among the left-out rows.
        """
        inverse = inverse[:, np.searchsorted(part[learned.left_out[part]], places)]
        rows, counted = np.searchsorted(part, places), learned.residuals.count(part)
        roots = np.sqrt(counted)[:, None].astype(inverse.dtype)
        return cls(part, here, rows, inverse, roots, inverse.T @ (roots * learned.residuals.errors[part]))


@dataclass(frozen=True)
class _Columns:
    """Coefficients of the linear model whose outputs are the influence of some left-out rows on all rows.

    Attributes
    ----------
    left_out : LeftOutRows
    first, stop : int
        The units with these numbers have columns, `stop` not included.
    coef : ndarray of shape (m, c)
        If single rows are left out, the output of the column of a row is h of `corrected_errors`. A unit of several
        rows has a column for each target, whose output is h e.
    constant : ndarray of shape (c,)
        Added to the outputs.
    """

    left_out: LeftOutRows
    first: int
    stop: int
    coef: np.ndarray
    constant: np.ndarray

    @classmethod
    def chunks(cls, left_out: LeftOutRows, leverages: Leverages) -> Iterator[_Columns]:
        """Yield the columns of all left-out rows, about `_MOST_COLUMNS` at a time."""
        together, (n_units, t) = left_out.together, left_out.errors.shape
        if together is not None:
            n_units = len(together)
        step = _MOST_COLUMNS if together is None else max(1, _MOST_COLUMNS // t)
        for first in range(0, n_units, step):
            yield cls.of(left_out, leverages, first, min(first + step, n_units))

    @classmethod
    def of(cls, left_out: LeftOutRows, leverages: Leverages, first: int, stop: int) -> _Columns:
        together, products, sums = left_out.together, [], []
        for part in [np.arange(first, stop)] if together is None else together[first:stop]:
            weights = left_out.rows.weights_or_ones[part]
            weighted = weights[:, None] * (left_out.rows.block.rows(part).to_host().astype(np.float64) - leverages.mean)
            if together is not None:
                # Products with the errors of a unit are formed first, because there are fewer targets than rows.
                errors = left_out.errors[part]
                weights, weighted = weights @ errors, errors.T @ weighted
            products.append(weighted)
            sums.append(weights)
        coef = leverages.solutions(np.concatenate(products))
        constant = np.concatenate(sums) / leverages.weight - leverages.mean @ coef
        return cls(left_out, first, stop, coef, constant)

    def moves(
        self, divided: Sequence[_Divided], X: np.ndarray, order: np.ndarray, outputs: Outputs
    ) -> Iterator[tuple[int, int, np.ndarray]]:
        """Yield the influence of the left-out rows on the values of regions, in parts.

        Each item is the index of a partition, the number of a region, and a part of the influence on its values (h, t):
        that of a tile of the scaled rows `X` (n, d). `order` sorts the rows so that a tile has rows of few regions.
        """
        units = self.left_out.units

        def of_tile(start: int, F: np.ndarray, coef: np.ndarray) -> list[tuple[int, int, np.ndarray]]:
            rows, found = order[start : start + len(F)], []
            for k, one in enumerate(divided):
                numbers = one.numbers[rows]
                for number in np.unique(numbers):
                    if (region := one.regions.get(int(number))) is None:
                        continue
                    own = np.flatnonzero((units[region.here] >= self.first) & (units[region.here] < self.stop))
                    if own.size:
                        chosen = np.flatnonzero(numbers == number)
                        columns, owners = self._columns_of(units[region.here[own]])
                        influence = F[chosen] @ coef.T[columns].T + self.constant[columns]
                        moved = np.zeros(region.values.shape)
                        moved[own] = self._reduced(region, rows[chosen], own, influence, owners)
                        found.append((k, int(number), moved))
            return found

        for found in outputs.of_tiles(X[order], self.coef, of_tile):
            yield from found

    def _columns_of(self, units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns (c,) of the units of some rows, and the number among these units of each row (h,)."""
        numbers, owners = np.unique(units, return_inverse=True)
        if self.left_out.together is None:
            return numbers - self.first, owners
        t = self.left_out.errors.shape[1]
        return ((numbers - self.first)[:, None] * t + np.arange(t)).ravel(), owners

    def _reduced(
        self, region: _Region, rows: np.ndarray, own: np.ndarray, influence: np.ndarray, owners: np.ndarray
    ) -> np.ndarray:
        """Return the part of the influence on the values of left-out rows (h, t) that some rows of a region have.

        `influence` (r, c) is that on the outputs at these `rows` (r,). `own` (h,) are the places of the left-out rows
        in the region, and `owners` (h,) the numbers of their units among those with columns.
        """
        places, errors = np.searchsorted(region.part, rows), self.left_out.errors[region.here[own]]
        scaled = region.roots[places] * region.inverse[np.ix_(places, own)]
        if self.left_out.together is None:
            return np.einsum("ji,ji->i", scaled, influence)[:, None] * errors
        t, reduced = errors.shape[1], np.empty(errors.shape)
        for unit in np.unique(owners):
            reduced[owners == unit] = scaled[:, owners == unit].T @ influence[:, unit * t : (unit + 1) * t]
        return reduced
