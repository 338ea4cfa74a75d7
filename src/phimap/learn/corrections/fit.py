"""Fit of corrections: they are learned in each region from residuals, and kept if they lower the validation error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg

from phimap.config import thread_count
from phimap.kernels import Kernel
from phimap.learn.corrections.corrections import Corrections, moved_rows, nearest
from phimap.learn.corrections.partition import Partition
from phimap.learn.corrections.residuals import TILE_ROWS, Residuals
from phimap.learn.search.trial import descend
from phimap.ops import run_tasks

# Maximum number of rows of a region. A model of so many rows takes a tenth of a second.
_MOST_ROWS = 1500
# Number of matrices of the order of a region's rows that are in memory at once.
_ARRAYS = 3
# Number of validation rows that choose width and alpha, if there are so many.
_VALIDATION_ROWS = 500
# Share by which corrections must lower the squared validation error to be kept.
_GAIN = 0.02
# Maximum number of times that the width of the model's kernel is halved. Corrections fit residuals of this kernel,
# which is wide.
_MOST_HALVINGS = 6
# Grid of alphas, in units of k(x, x). With a smaller alpha a sum in float32 would lose digits.
_ALPHAS = np.geomspace(1e-3, 1e1, 9)
_FIRST_ALPHA = 5


def n_regions_for(n_rows: int) -> int:
    """The least number of regions, a power of two, with at most `_MOST_ROWS` rows in each."""
    return 1 << max(0, int(np.ceil(np.log2(n_rows / _MOST_ROWS))))


def corrections_memory(n_components: int, n_jobs: int | None) -> int:
    """Peak bytes in addition to the rows: each thread holds the matrices of a region and tiles of outputs."""
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
        Changes no bit.

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

    **Cost.** Twice ``n_r^3 / 3`` multiply-adds for each region of n_r rows. For each root, ten to thirty times as much
    in the regions that choose width and alpha.
    """
    trials = [one for root in roots if (one := _trial(kernel, residuals, root, n_jobs)) is not None]
    rows = np.flatnonzero(residuals.held_out)
    best = min(trials, key=lambda one: one.loss, default=None)
    if best is None or not best.loss < (1 - _GAIN) * residuals.loss(rows, residuals.training_fit_errors[rows]):
        return None
    moved, scale = best.residuals, best.scale

    def learn(part: np.ndarray) -> np.ndarray:
        return _coefficients(kernel, scale, best.alpha, moved.X[part], moved.errors[part], moved.count(part))

    order = np.concatenate(best.parts)
    by_key = np.argsort(residuals.keys[rows])
    return Corrections(
        best.partition,
        kernel,
        best.root,
        scale,
        moved.X[order] * moved.X.dtype.type(scale),
        np.concatenate(run_tasks(learn, best.parts, n_jobs)),
        np.cumsum([part.size for part in best.parts]),
        residuals.keys[rows][by_key],
        best.errors[by_key],
        best.reach(),
    )


@dataclass(frozen=True)
class _CorrectionTrial:
    """Corrections of the training fit with one of the roots, and the errors that remain at the validation rows.

    Attributes
    ----------
    root : ndarray of shape (d,) or (d, d), or None
    residuals : Residuals
        Their rows are multiplied by the root.
    partition : Partition
    parts : list of ndarray of int
        Rows of each region.
    scale, alpha : float
    errors : ndarray of shape (r, t)
        Errors of the validation rows, in the order of the rows.
    loss : float
        Weighted sum of the squared errors.
    """

    root: np.ndarray | None
    residuals: Residuals
    partition: Partition
    parts: list[np.ndarray]
    scale: float
    alpha: float
    errors: np.ndarray
    loss: float

    def reach(self) -> float:
        """Largest distance of a validation row to the nearest training row of its region; 0 if no region has both."""
        rows, held_out = self.residuals.X * self.residuals.X.dtype.type(self.scale), self.residuals.held_out
        distances = np.concatenate(
            [nearest(rows[part[held_out[part]]], rows[part[~held_out[part]]]) for part in self.parts]
        )
        return float(distances[np.isfinite(distances)].max(initial=0.0))


def _trial(
    kernel: Kernel, residuals: Residuals, root: np.ndarray | None, n_jobs: int | None
) -> _CorrectionTrial | None:
    """Try a root; return None if the regions that choose the width gain too little or a region has too many rows."""
    moved = replace(residuals, X=moved_rows(residuals.X, root))
    n_regions = n_regions_for(len(moved.X))
    partition = Partition.of_rows(moved.X, n_regions)
    regions = partition.assign(moved.X)
    parts = [np.flatnonzero(regions == region) for region in range(n_regions)]
    # Planes do not separate equal rows. So many equal rows form a region that exceeds the memory.
    chosen = _choose(kernel, moved, parts, n_jobs) if max(map(len, parts)) <= 2 * _MOST_ROWS else None
    if chosen is None:
        return None
    scale, alpha = chosen
    errors = np.empty((len(moved.X), moved.errors.shape[1]))
    of_regions = run_tasks(lambda part: _RegionFit(kernel, scale, moved, part).errors(alpha), parts, n_jobs)
    for part, found in zip(parts, of_regions, strict=True):
        errors[part[moved.held_out[part]]] = found
    rows = np.flatnonzero(moved.held_out)
    return _CorrectionTrial(root, moved, partition, parts, scale, alpha, errors[rows], moved.loss(rows, errors[rows]))


def _choose(
    kernel: Kernel, residuals: Residuals, parts: Sequence[np.ndarray], n_jobs: int | None
) -> tuple[float, float] | None:
    """Return the scale and alpha of least validation error in some regions, or None if these gain too little."""
    step = max(1, int(residuals.held_out.sum()) // _VALIDATION_ROWS)
    probes = [part for part in parts[::step] if residuals.held_out[part].any()]

    def best_alpha(halvings: int, first: int) -> tuple[int, float]:
        fits = run_tasks(lambda part: _RegionFit(kernel, 2.0**halvings, residuals, part), probes, n_jobs)

        def losses(indices: list[int]) -> list[float]:
            return [sum(run_tasks(lambda fit, alpha=_ALPHAS[i]: fit.loss(alpha), fits, n_jobs)) for i in indices]

        return descend(losses, first, _ALPHAS.size)

    (index, loss), halvings = best_alpha(0, _FIRST_ALPHA), 0
    while halvings < _MOST_HALVINGS:
        narrower = best_alpha(halvings + 1, index)
        if narrower[1] >= loss:
            break
        (index, loss), halvings = narrower, halvings + 1
    rows = np.concatenate([part[residuals.held_out[part]] for part in probes])
    before = residuals.loss(rows, residuals.training_fit_errors[rows])
    return (2.0**halvings, float(_ALPHAS[index])) if loss < (1 - _GAIN) * before else None


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
    """

    def __init__(self, kernel: Kernel, scale: float, residuals: Residuals, part: np.ndarray):
        self._training, self._validation = (part[residuals.held_out[part] == held_out] for held_out in (False, True))
        self._residuals = residuals
        rows, others = (residuals.X[some].astype(np.float64) * scale for some in (self._training, self._validation))
        # A region may be empty, since planes do not separate equal rows.
        self._matrix = kernel(rows) if len(rows) else np.empty((0, 0))
        self._values = kernel(others, rows) if len(rows) and len(others) else np.zeros((len(others), len(rows)))

    def errors(self, alpha: float) -> np.ndarray:
        """Errors (r, t) of the validation rows."""
        training, validation = (
            self._residuals.training_fit_errors[some] for some in (self._training, self._validation)
        )
        coefs = _solve(self._matrix, alpha, training, self._residuals.count(self._training))
        return validation - self._values @ coefs

    def loss(self, alpha: float) -> float:
        """Weighted sum of the squared errors."""
        return self._residuals.loss(self._validation, self.errors(alpha))


def _coefficients(
    kernel: Kernel, scale: float, alpha: float, X: np.ndarray, errors: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Coefficients (n, t) for the rows of a region."""
    return _solve(kernel(X.astype(np.float64) * scale), alpha, errors, weights) if len(X) else errors


def _solve(matrix: np.ndarray, alpha: float, errors: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """``S (S K S + alpha I)^{-1} S E`` (n, t)."""
    if not weights.size:
        return errors
    roots = np.sqrt(weights)
    shifted = matrix * np.outer(roots, roots) + alpha * np.eye(roots.size)
    factor = linalg.cho_factor(shifted, lower=True, overwrite_a=True, check_finite=False)
    return roots[:, None] * linalg.cho_solve(factor, roots[:, None] * errors, check_finite=False)
