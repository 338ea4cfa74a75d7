"""Errors of a corrected model at training rows that are left out of the linear model and of the corrections."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from phimap.learn.blocks.blocks import FeatureRows
from phimap.learn.corrections.corrections import Corrections
from phimap.learn.corrections.fit import kernel_values, region_factor
from phimap.learn.corrections.residuals import Outputs, Residuals
from phimap.learn.ridge.predictive import Leverages
from phimap.ops import run_tasks
from phimap.ops.blas import solve_factored

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


def left_out_memory(corrections: Corrections, n_rows: int) -> int:
    """Bytes that `corrected_errors` takes for `n_rows` left-out rows, apart from the matrices of a region."""
    return 8 * n_rows * sum(int(np.diff(model.ends, prepend=0).max()) for model in corrections.models)


def corrected_errors(
    corrections: Corrections,
    residuals: Residuals,
    left_out: LeftOutRows,
    leverages: Leverages,
    outputs: Outputs,
    n_jobs: int | None = None,
) -> np.ndarray:
    r"""Return the errors (r, t) of corrected models at rows that are left out of their fits.

    Parameters
    ----------
    corrections : Corrections
        Corrections learned from `residuals`.
    residuals : Residuals
    left_out : LeftOutRows
    leverages : Leverages
        Leverages of the linear model.
    outputs : Outputs
        Outputs of coefficients on the features of the linear model.
    n_jobs : int or None
        Threads; the result does not depend on them. Each holds the matrices of a region, see `corrections_threads`.

    Notes
    -----
    Let G be the rows left out together, w their weights, e their errors in the linear model without them, and
    :math:`h_{ji} = w_i [z_j^T (A + \alpha I)^{-1} z_i + 1 / \sum w]` for centred rows. Without G the residuals of a
    region are :math:`E' = E + h_{\cdot G}\, e`, and :math:`E'_G = e` in particular. With S the roots of the weights of
    the region, :math:`B = (S K S + a I)^{-1}` and a the alpha of the corrections, the errors of a model with the
    corrections of one partition are :math:`S_G^{-1} B_{GG}^{-1} (B S E')_G` for the rows of G in this region. With a
    shrinkage c, the errors are c times their mean over partitions plus 1 - c times the errors of the linear model.

    **Error.** Rounding in the dtype of the rows. **Cost.** One factorisation for each region, of the order of its rows.
    Each left-out row takes a solution for each partition, and a column of outputs at the rows of its regions. With
    units, each left-out unit takes a column for each target at the rows of all its regions. The features of all rows
    are computed once, with units once for each `_MOST_COLUMNS` columns.
    """
    by_key = np.argsort(residuals.keys, kind="stable")
    places = by_key[np.searchsorted(residuals.keys[by_key], left_out.keys)]
    regions, tasks = [], list[tuple[int, int, np.ndarray, np.ndarray]]()
    for k, model in enumerate(corrections.models):
        own = np.empty(len(residuals.X), np.intp)
        own[model.order] = np.repeat(np.arange(model.ends.size), np.diff(model.ends, prepend=0))
        regions.append(own)
        for region in np.unique(own[places]):
            part = model.parts()[region]
            if model.coefs[part].any():
                tasks.append((k, int(region), model.order[part], np.flatnonzero(own[places] == region)))

    def solve(task: tuple[int, int, np.ndarray, np.ndarray]) -> tuple[tuple[int, int], _Region]:
        k, region, part, here = task
        return (k, region), _Region.of(corrections, residuals, part, places[here], here)

    solved = dict(run_tasks(solve, tasks, n_jobs))
    for one, moved in _moves(solved, regions, corrections, residuals, left_out, leverages, outputs):
        solved[one].values[...] += moved
    totals = np.zeros_like(left_out.errors)
    for k in range(len(regions)):
        errors = left_out.errors.copy()
        for (owner, _), region in solved.items():
            if owner == k:
                region.set_errors(errors, left_out.together)
        totals += errors
    mean = totals / len(regions)
    return left_out.errors + corrections.shrinkage * (mean - left_out.errors)


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
        cls, corrections: Corrections, residuals: Residuals, part: np.ndarray, places: np.ndarray, here: np.ndarray
    ) -> _Region:
        """Solve for the left-out rows at `places` among all rows, which are `here` among the left-out rows."""
        rows, roots = np.searchsorted(part, places), np.sqrt(residuals.count(part))[:, None]
        matrix = kernel_values(corrections.kernel, corrections.rows[part], corrections.rows[part])
        factor = region_factor(matrix, corrections.alpha, roots)
        unit = np.zeros((part.size, here.size))
        unit[rows, np.arange(here.size)] = 1.0
        inverse, roots = solve_factored(factor, unit), roots.astype(factor.dtype)
        values = inverse.T @ (roots * residuals.errors[part])
        return cls(part, here, rows, inverse, roots, values.astype(np.float64))

    def set_errors(self, errors: np.ndarray, together: Sequence[np.ndarray] | None) -> None:
        """Replace the errors of the linear model by those of the corrected model in `errors` (r, t)."""
        roots = self.roots[self.rows]
        if together is None:
            errors[self.here] = self.values / self.inverse[self.rows, np.arange(self.here.size)][:, None] / roots
            return
        for own in self.own_of(together):
            block = self.inverse[np.ix_(self.rows[own], own)]
            errors[self.here[own]] = np.linalg.solve(block, self.values[own]) / roots[own]

    def own_of(self, together: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return for each unit of this region the places of its rows in `here`."""
        found = (np.flatnonzero(np.isin(self.here, unit)) for unit in together)
        return [own for own in found if own.size]


def _moves(
    solved: Mapping[tuple[int, int], _Region],
    regions: Sequence[np.ndarray],
    corrections: Corrections,
    residuals: Residuals,
    left_out: LeftOutRows,
    leverages: Leverages,
    outputs: Outputs,
) -> Iterator[tuple[tuple[int, int], np.ndarray]]:
    """Yield changes (h, t) of the values of regions, which add up to the influence of the left-out rows.

    `solved` has the regions by model and number, `regions` the number of each row's region in each model.
    """
    # In this order, a tile has rows of few regions.
    order = corrections.models[0].order
    X = residuals.X[order]
    for columns in _Columns.chunks(left_out, leverages):

        def of_tile(
            start: int, F: np.ndarray, coef: np.ndarray, columns: _Columns = columns
        ) -> list[tuple[tuple[int, int], np.ndarray]]:
            rows, found = order[start : start + len(F)], []
            for k, own in enumerate(regions):
                for number in np.unique(own[rows]):
                    one = k, int(number)
                    if one not in solved:
                        continue
                    chosen = np.flatnonzero(own[rows] == number)
                    moved = columns.moved(solved[one], rows[chosen], lambda some, g=chosen: F[g] @ coef.T[some].T)
                    found += [] if moved is None else [(one, moved)]
            return found

        for found in outputs.of_tiles(X, columns.coef, of_tile):
            yield from found


@dataclass(frozen=True)
class _Columns:
    """Coefficients of the linear model whose outputs are the influence of some left-out rows on all rows.

    Attributes
    ----------
    units : sequence of ndarray of int
        The left-out rows of each unit, or a single array of rows that are left out one by one.
    one_by_one : bool
    coef : ndarray of shape (m, c)
        A column for each row that is left out by itself, whose output is h of `corrected_errors`. A unit has a column
        for each target, whose output is h e.
    constant : ndarray of shape (c,)
        Added to the outputs.
    errors : ndarray of shape (r, t)
        Errors of the linear model at all left-out rows.
    """

    units: Sequence[np.ndarray]
    one_by_one: bool
    coef: np.ndarray
    constant: np.ndarray
    errors: np.ndarray

    @classmethod
    def chunks(cls, left_out: LeftOutRows, leverages: Leverages) -> Iterator[_Columns]:
        """Yield the columns of all left-out rows, at most `_MOST_COLUMNS` at a time if a unit has no more."""
        (n_rows, t), together = left_out.errors.shape, left_out.together
        if together is None:
            for start in range(0, n_rows, _MOST_COLUMNS):
                yield cls.of(left_out, leverages, [np.arange(start, min(start + _MOST_COLUMNS, n_rows))], True)
            return
        step = max(1, _MOST_COLUMNS // t)
        for start in range(0, len(together), step):
            yield cls.of(left_out, leverages, together[start : start + step], False)

    @classmethod
    def of(cls, left_out: LeftOutRows, leverages: Leverages, units: Sequence[np.ndarray], one_by_one: bool) -> _Columns:
        products, sums = [], []
        for unit in units:
            weights, errors = left_out.rows.weights_or_ones[unit], left_out.errors[unit]
            centred = np.asarray(left_out.rows.block.rows(unit).to_host(), dtype=np.float64) - leverages.mean
            # Products with the errors of a unit are formed first, because there are fewer targets than rows.
            products.append(weights[:, None] * centred if one_by_one else (weights[:, None] * errors).T @ centred)
            sums.append(weights if one_by_one else weights @ errors)
        coef = leverages.solutions(np.concatenate(products))
        constant = np.concatenate(sums) / leverages.weight - leverages.mean @ coef
        return cls(units, one_by_one, coef, constant, left_out.errors)

    def moved(
        self, region: _Region, rows: np.ndarray, outputs: Callable[[np.ndarray], np.ndarray]
    ) -> np.ndarray | None:
        """Return what `rows` (n,) of a region contribute to the influence on its values (h, t); None if nothing.

        ``outputs(some)`` are the outputs (n, c) of `some` columns of the coefficients at these rows.
        """
        places = np.searchsorted(region.part, rows)
        scaled, moved = region.roots[places] * region.inverse[places], np.zeros(region.values.shape)
        if self.one_by_one:
            own = np.flatnonzero(np.isin(region.here, self.units[0]))
            columns = region.here[own] - self.units[0][0]
            influence = outputs(columns) + self.constant[columns]
            moved[own] = np.einsum("ji,ji->i", scaled[:, own], influence)[:, None] * self.errors[region.here[own]]
            return moved if own.size else None
        t = self.errors.shape[1]
        found = [(k, np.flatnonzero(np.isin(region.here, unit))) for k, unit in enumerate(self.units)]
        found = [(k, own) for k, own in found if own.size]
        if not found:
            return None
        columns = np.concatenate([np.arange(k * t, (k + 1) * t) for k, _ in found])
        influence = outputs(columns) + self.constant[columns]
        for place, (_, own) in enumerate(found):
            moved[own] = scaled[:, own].T @ influence[:, place * t : (place + 1) * t]
        return moved
