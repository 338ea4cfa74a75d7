"""The choice of the width and of the alpha that the corrections of all regions share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from phimap.kernels import Kernel
from phimap.learn.corrections.region_fit import factorised, kernel_matrix, kernel_values
from phimap.learn.corrections.regions import Regions
from phimap.learn.corrections.residuals import Residuals
from phimap.learn.search.trial import descend_along
from phimap.ops import run_tasks
from phimap.ops.blas import solve_factored

# The kernel's width and alpha are chosen by about this many validation rows, at most twice as many.
_VALIDATION_ROWS = 500
# Maximum number of halvings of the kernel's width. The model's kernel is wide, and its residuals need a kernel of
# smaller width.
_MOST_HALVINGS = 6
# Grid of alphas, in units of k(x, x), and index at which the search starts. With a smaller alpha a sum in float32 would
# lose digits.
_ALPHAS = np.geomspace(1e-3, 1e1, 9)
_FIRST_ALPHA = 5


class Choice(NamedTuple):
    """Width and alpha of corrections, and the ratio of the validation errors with and without them."""

    scale: float
    alpha: float
    share: float


def choose(kernel: Kernel, regions: Regions, n_jobs: int | None) -> Choice | None:
    """Return the width and alpha of least validation error in some of the regions.

    The result is None if a region has too many rows.
    """
    residuals, parts = regions.residuals, regions.parts
    if not regions.are_small:
        return None
    step = max(1, int(residuals.held_out.sum()) // _VALIDATION_ROWS)
    probes = [part for part in parts[::step] if residuals.held_out[part].any()]

    def best_alpha(halvings: int, first: int) -> tuple[int, float]:
        fits = run_tasks(lambda part: _Probe(kernel, 2.0**halvings, residuals, part), probes, n_jobs)

        def loss_and_slope(index: int) -> tuple[float, float]:
            found = run_tasks(lambda fit: fit.loss_and_slope(_ALPHAS[index]), fits, n_jobs)
            return sum(loss for loss, _ in found), sum(slope for _, slope in found)

        return descend_along(loss_and_slope, first, _ALPHAS)

    (index, loss), halvings = best_alpha(0, _FIRST_ALPHA), 0
    while halvings < _MOST_HALVINGS:
        narrower = best_alpha(halvings + 1, index)
        if narrower[1] >= loss:
            break
        (index, loss), halvings = narrower, halvings + 1
    rows = np.concatenate([part[residuals.held_out[part]] for part in probes])
    share = loss / max(residuals.loss(rows, residuals.training_fit_errors[rows]), np.finfo(np.float64).tiny)
    return Choice(2.0**halvings, float(_ALPHAS[index]), share)


class _Probe:
    """Errors of corrections in one region as a function of alpha, in the dtype of the rows.

    The corrections are learned from the residuals of the training fit at the training rows of the region. The errors
    are measured at the validation rows of the region.

    Parameters
    ----------
    kernel : Kernel
    scale : float
        Factor of the rows.
    residuals : Residuals
    part : ndarray of int
        Rows of the region.
    """

    def __init__(self, kernel: Kernel, scale: float, residuals: Residuals, part: np.ndarray):
        training, validation = (part[residuals.held_out[part] == held_out] for held_out in (False, True))
        rows, others = (residuals.X[some] * residuals.X.dtype.type(scale) for some in (training, validation))
        self._matrix, self._values = kernel_matrix(kernel, rows), kernel_values(kernel, others, rows)
        self._targets, self._held_out = (residuals.training_fit_errors[some] for some in (training, validation))
        self._weights, self._counted = residuals.count(training), residuals.count(validation)

    def loss_and_slope(self, alpha: float) -> tuple[float, float]:
        """Weighted sum of the squared errors, and its derivative with respect to log alpha.

        The sum is infinite if rounding errors exceed alpha, which happens only with very unequal weights.
        """
        try:
            coefs, slopes = self._solve(alpha)
        except np.linalg.LinAlgError:
            return np.inf, 0.0
        errors = self._held_out - self._values @ coefs
        slope = -2 * float(self._counted @ (errors * (self._values @ slopes)).sum(axis=1))
        return float(self._counted @ np.square(errors).sum(axis=1)), slope

    def _solve(self, alpha: float) -> tuple[np.ndarray, np.ndarray]:
        """The coefficients A (n, t) of `learn_corrections`, and their derivative with respect to log alpha."""
        if not self._weights.size:
            return self._targets, self._targets
        roots = np.sqrt(self._weights)[:, None].astype(self._matrix.dtype)
        factor = factorised(self._matrix.copy(), alpha, roots)
        solved = solve_factored(factor, roots * self._targets)
        slopes = solve_factored(factor, -alpha * solved)
        return roots * solved, roots * slopes
