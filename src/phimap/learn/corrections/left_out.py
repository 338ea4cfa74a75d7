"""Errors of a corrected model at training rows that are left out of the linear model and of the corrections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from phimap.learn.blocks.blocks import FeatureRows
from phimap.learn.corrections.corrections import Corrections, moved_rows
from phimap.learn.corrections.fit import kernel_values, region_factor
from phimap.learn.corrections.residuals import Outputs, Residuals
from phimap.learn.ridge.predictive import Leverages
from phimap.ops import run_tasks
from phimap.ops.blas import solve_factored


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
    the region, :math:`B = (S K S + a I)^{-1}` and a the alpha of the corrections, the errors of the corrected model are
    :math:`S_G^{-1} B_{GG}^{-1} (B S E')_G` for the rows of G in this region. With a shrinkage c, they are c times these
    errors plus 1 - c times the errors of the linear model.

    **Error.** Rounding in the dtype of the rows. **Cost.** One factorisation for each region, of the order of its rows.
    Each left-out row takes one solution and one column of outputs. With units, each row of a left-out unit takes one
    solution and one column.
    """
    moved = moved_rows(residuals.X, corrections.root)
    regions, errors = corrections.partition.assign(moved), left_out.errors.copy()
    by_key = np.argsort(residuals.keys, kind="stable")
    places = by_key[np.searchsorted(residuals.keys[by_key], left_out.keys)]
    starts = np.append(0, corrections.ends)

    def leave_out(region: int) -> None:
        """Replace the errors at the left-out rows of a region."""
        part, here = np.flatnonzero(regions == region), np.flatnonzero(regions[places] == region)
        rows, roots = np.searchsorted(part, places[here]), np.sqrt(residuals.count(part))[:, None]
        scaled_rows = moved[part] * moved.dtype.type(corrections.scale)
        matrix = kernel_values(corrections.kernel, scaled_rows, scaled_rows)
        unit = np.zeros((part.size, here.size))
        unit[rows, np.arange(here.size)] = 1.0
        factor = region_factor(matrix, corrections.alpha, roots)
        roots = roots.astype(factor.dtype)
        # The columns of B, the inverse in the notes, that belong to the left-out rows.
        inverse = solve_factored(factor, unit)
        values = inverse.T @ (roots * residuals.errors[part])
        scaled = roots * inverse
        X = residuals.X[part]
        if left_out.together is None:
            influence = _influence(X, here, None, left_out, leverages, outputs)
            moves = np.einsum("ji,ji->i", scaled, influence)[:, None]
            values += moves * left_out.errors[here]
            errors[here] = values / inverse[rows, np.arange(here.size)][:, None] / roots[rows]
            return
        for together in left_out.together:
            own = np.flatnonzero(np.isin(here, together))
            if own.size:
                changes = _influence(X, together, left_out.errors[together], left_out, leverages, outputs)
                found = values[own] + scaled[:, own].T @ changes
                errors[here[own]] = np.linalg.solve(inverse[np.ix_(rows[own], own)], found) / roots[rows[own]]

    corrected = [one for one in np.unique(regions[places]) if corrections.coefs[starts[one] : starts[one + 1]].any()]
    run_tasks(leave_out, corrected, n_jobs)
    return left_out.errors + corrections.shrinkage * (errors - left_out.errors)


def _influence(
    X: np.ndarray,
    some: np.ndarray,
    errors: np.ndarray | None,
    left_out: LeftOutRows,
    leverages: Leverages,
    outputs: Outputs,
) -> np.ndarray:
    """Return h of `corrected_errors`: the influence of `some` left-out rows on the outputs at scaled rows `X` (n, d).

    The result is h (n, r), or the product h e (n, t) if `errors` e (r, t) are given.
    """
    weights = left_out.rows.weights_or_ones[some]
    centred = np.asarray(left_out.rows.block.rows(some).to_host(), dtype=np.float64) - leverages.mean
    if errors is None:
        products, sums = weights[:, None] * centred, weights
    else:
        # Products with e are formed before the solutions, because there are fewer targets than rows.
        products, sums = (weights[:, None] * errors).T @ centred, weights @ errors
    coef = leverages.solutions(products)
    return outputs(X, coef) - leverages.mean @ coef + sums / leverages.weight
