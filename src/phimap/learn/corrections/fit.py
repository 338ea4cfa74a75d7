"""Fit of corrections: they are learned in each region from residuals, and kept if they lower the validation error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from phimap.config import thread_count
from phimap.kernels import Kernel
from phimap.learn.corrections.corrections import Corrections, moved_rows, nearest
from phimap.learn.corrections.partition import Partition
from phimap.learn.corrections.residuals import TILE_ROWS, Residuals
from phimap.learn.search.trial import descend_along
from phimap.ops import run_tasks

# Maximum number of rows of a region. A model of so many rows takes a tenth of a second.
_MOST_ROWS = 1500
# Number of matrices in memory at once whose order is the number of rows of a region.
_ARRAYS = 3
# Number of validation rows that choose width and alpha, if there are so many.
_VALIDATION_ROWS = 500
# Share by which corrections must lower the squared validation error to be kept.
_GAIN = 0.02
# Maximum number of halvings of the kernel's width. The model's kernel is wide, and its residuals need a kernel of
# smaller width.
_MOST_HALVINGS = 6
# Grid of alphas, in units of k(x, x). With a smaller alpha a sum in float32 would lose digits.
_ALPHAS = np.geomspace(1e-3, 1e1, 9)
_FIRST_ALPHA = 5


def n_regions_for(n_rows: int) -> int:
    """The least number of regions, a power of two, with at most `_MOST_ROWS` rows in each."""
    return 1 << max(0, int(np.ceil(np.log2(n_rows / _MOST_ROWS))))


def corrections_memory(n_components: int, n_jobs: int | None) -> int:
    """Peak bytes besides the rows: each thread holds the matrices of a region and tiles of outputs."""
    return 8 * thread_count(n_jobs) * (_ARRAYS * (2 * _MOST_ROWS) ** 2 + 2 * TILE_ROWS * n_components)


def learn_corrections(
    kernel: Kernel,
    residuals: Residuals,
    roots: Sequence[np.ndarray | None] = (None,),
    n_jobs: int | None = None,
) -> Corrections | None:
    """Learn corrections in regions, if they lower the validation error.

    Parameters
    ----------
    kernel : Kernel
        The kernel of the model. Its width is chosen anew.
    residuals : Residuals
    roots : sequence of ndarray of shape (d,) or (d, d), or None
        Matrices by which the rows may be multiplied. The one with the least error is chosen.
    n_jobs : int or None
        Threads; the result does not depend on them.

    Returns
    -------
    Corrections or None
        None if they lower the squared error of the validation rows by less than 2 %.

    Notes
    -----
    In each region ``A = (K + alpha I)^{-1} E``, with E the residuals of its rows and K their kernel matrix. There are
    no features and no intercept, so a correction vanishes far from the rows. Rows of weight w enter as ``S K S`` and
    ``S E`` with ``S = w^{1/2}``.

    Width and alpha are the same for all regions, and are chosen in some of them. There the corrections are learned from
    the residuals of the training fit at the training rows, and their error is taken at the validation rows. Residuals
    of the fit to all rows would not serve: near a validation row they contain its own error with the opposite sign.

    **Cost.** ``2 n_r^3 / 3`` multiply-adds for each region of n_r rows. The choice of width and alpha takes ten to
    thirty times as much for each root, in the regions that take part in the choice.
    """
    choices = []
    for root in roots:
        regions = _Regions.of(residuals, root)
        if (chosen := _choose(kernel, regions, n_jobs)) is not None:
            choices.append((chosen, regions))
    if not choices:
        return None
    chosen, regions = min(choices, key=lambda choice: choice[0].share)
    fits = run_tasks(lambda part: _RegionFit(kernel, chosen.scale, regions.residuals, part), regions.parts, n_jobs)
    validated = np.concatenate([fit.validation for fit in fits])
    errors = np.empty_like(residuals.errors)
    errors[validated] = np.concatenate(run_tasks(lambda fit: fit.errors(chosen.alpha), fits, n_jobs))
    rows = np.flatnonzero(residuals.held_out)
    before = residuals.loss(rows, residuals.training_fit_errors[rows])
    if not residuals.loss(rows, errors[rows]) < (1 - _GAIN) * before:
        return None
    X = regions.residuals.X

    def learn(part: np.ndarray) -> np.ndarray:
        matrix = kernel_values(kernel, X[part] * X.dtype.type(chosen.scale))
        return _solve(matrix, chosen.alpha, residuals.errors[part], residuals.count(part))

    order = np.concatenate(regions.parts)
    by_key = np.argsort(residuals.keys[rows])
    return Corrections(
        regions.partition,
        kernel,
        regions.root,
        chosen.scale,
        X[order] * X.dtype.type(chosen.scale),
        np.concatenate(run_tasks(learn, regions.parts, n_jobs)),
        np.cumsum([part.size for part in regions.parts]),
        residuals.keys[rows][by_key],
        errors[rows][by_key],
        regions.reach(chosen.scale),
        chosen.alpha,
    )


@dataclass(frozen=True)
class _Regions:
    """The residuals, divided into regions after multiplication by one of the roots.

    Attributes
    ----------
    root : ndarray of shape (d,) or (d, d), or None
    residuals : Residuals
        Their rows are multiplied by the root.
    partition : Partition
    parts : list of ndarray of int
        Rows of each region.
    """

    root: np.ndarray | None
    residuals: Residuals
    partition: Partition
    parts: list[np.ndarray]

    @classmethod
    def of(cls, residuals: Residuals, root: np.ndarray | None) -> _Regions:
        """Divide the rows times `root`."""
        moved = replace(residuals, X=moved_rows(residuals.X, root))
        partition = Partition.of_rows(moved.X, n_regions_for(len(moved.X)))
        regions = partition.assign(moved.X)
        return cls(root, moved, partition, [np.flatnonzero(regions == one) for one in range(partition.n_regions)])

    def reach(self, scale: float) -> float:
        """Largest distance of a validation row to the nearest training row of its region.

        0 if no region contains both kinds of rows.
        """
        rows, held_out = self.residuals.X * self.residuals.X.dtype.type(scale), self.residuals.held_out
        distances = np.concatenate(
            [nearest(rows[part[held_out[part]]], rows[part[~held_out[part]]]) for part in self.parts]
        )
        return float(distances[np.isfinite(distances)].max(initial=0.0))


class _Choice(NamedTuple):
    """Width and alpha of corrections, and the ratio of the validation errors with and without them."""

    scale: float
    alpha: float
    share: float


def _choose(kernel: Kernel, regions: _Regions, n_jobs: int | None) -> _Choice | None:
    """Return the choice of least validation error in some regions.

    The result is None if the corrections gain too little in these regions, or if a region has too many rows.
    """
    residuals, parts = regions.residuals, regions.parts
    # Planes cannot separate equal rows. Many equal rows thus form a region larger than the limit, whose kernel matrix
    # may not fit into memory.
    if max(map(len, parts)) > 2 * _MOST_ROWS:
        return None
    step = max(1, int(residuals.held_out.sum()) // _VALIDATION_ROWS)
    probes = [part for part in parts[::step] if residuals.held_out[part].any()]

    def best_alpha(halvings: int, first: int) -> tuple[int, float]:
        fits = run_tasks(lambda part: _RegionFit(kernel, 2.0**halvings, residuals, part), probes, n_jobs)

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
    return _Choice(2.0**halvings, float(_ALPHAS[index]), share) if share < 1 - _GAIN else None


class _RegionFit:
    """Corrections of the training fit in one region, learned for any alpha on the training rows of the region.

    Parameters
    ----------
    kernel : Kernel
    scale : float
        Factor of the rows.
    residuals : Residuals
    part : ndarray of int
        Rows of the region.

    Attributes
    ----------
    validation : ndarray of int
        Validation rows of the region.
    """

    def __init__(self, kernel: Kernel, scale: float, residuals: Residuals, part: np.ndarray):
        training, self.validation = (part[residuals.held_out[part] == held_out] for held_out in (False, True))
        self._residuals = residuals
        self._targets, self._weights = residuals.training_fit_errors[training], residuals.count(training)
        rows, others = (residuals.X[some] * residuals.X.dtype.type(scale) for some in (training, self.validation))
        # A region may be empty, since planes do not separate equal rows.
        self._matrix = kernel_values(kernel, rows)
        self._values = kernel_values(kernel, others, rows)

    def errors(self, alpha: float) -> np.ndarray:
        """Errors (r, t) of the validation rows."""
        coefs = _solve(self._matrix, alpha, self._targets, self._weights)
        return self._residuals.training_fit_errors[self.validation] - self._values @ coefs

    def loss_and_slope(self, alpha: float) -> tuple[float, float]:
        """Weighted sum of the squared errors, and its derivative with respect to log alpha."""
        coefs, slopes = _solve(self._matrix, alpha, self._targets, self._weights, slopes=True)
        errors = self._residuals.training_fit_errors[self.validation] - self._values @ coefs
        weights = self._residuals.count(self.validation)
        slope = -2 * float(weights @ (errors * (self._values @ slopes)).sum(axis=1))
        return self._residuals.loss(self.validation, errors), slope


def kernel_values(kernel: Kernel, X: np.ndarray, Y: np.ndarray | None = None) -> np.ndarray:
    """Kernel values in float64.

    For float32 rows the kernel is computed in float32, whose rounding error is far below all alphas.
    """
    Y = X if Y is None else Y
    if not (len(X) and len(Y)):
        return np.zeros((len(X), len(Y)))
    single = kernel.in_single_precision(X, Y) if X.dtype == np.float32 else None
    return kernel(X.astype(np.float64), Y.astype(np.float64)) if single is None else single.astype(np.float64)


def _solve(matrix: np.ndarray, alpha: float, errors: np.ndarray, weights: np.ndarray, *, slopes: bool = False) -> Any:
    """``S (S K S + alpha I)^{-1} S E`` (n, t), and its derivative with respect to log alpha if `slopes`."""
    if not weights.size:
        return (errors, errors) if slopes else errors
    roots = np.sqrt(weights)[:, None]
    shifted = np.array(matrix, order="F") if (weights == 1).all() else np.asfortranarray(matrix * (roots * roots.T))
    shifted[np.diag_indices_from(shifted)] += alpha
    factor = linalg.cho_factor(shifted, lower=True, overwrite_a=True, check_finite=False)
    solved = linalg.cho_solve(factor, roots * errors, check_finite=False)
    if not slopes:
        return roots * solved
    return roots * solved, roots * linalg.cho_solve(factor, -alpha * solved, check_finite=False)
