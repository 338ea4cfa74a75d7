"""How corrections are learned, and whether there are any worth having."""

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
from phimap.ops import run_tasks

# Rows of a region at the most: a model of them takes a tenth of a second.
_MOST_ROWS = 1500
# Matrices of the order of a region's rows that are held meanwhile.
_ARRAYS = 3
# Rows that judge the width and alpha, as far as there are so many.
_JUDGES = 500
# Corrections are learned if they take at least this share of the squared error on the rows that judge.
_GAIN = 0.02
# How often the width of the model's own kernel is halved at the most: corrections are of what a wide kernel leaves.
_MOST_HALVINGS = 6
# Regularisations, in units of k(x, x). Below the first of them a sum in float32 loses digits.
_ALPHAS = np.geomspace(1e-3, 1e1, 9)
_FIRST_ALPHA = 5


def n_regions_for(n_rows: int) -> int:
    """The fewest regions, a power of two, that are small enough."""
    return 1 << max(0, int(np.ceil(np.log2(n_rows / _MOST_ROWS))))


def corrections_memory(n_components: int, n_jobs: int | None) -> int:
    """Bytes held at the most beside the rows: matrices of a region, and tiles of outputs, in every thread."""
    return 8 * thread_count(n_jobs) * (_ARRAYS * (2 * _MOST_ROWS) ** 2 + 2 * TILE_ROWS * n_components)


def learn_corrections(
    kernel: Kernel,
    remainder: Residuals,
    roots: Sequence[np.ndarray | None] = (None,),
    n_jobs: int | None = None,
) -> Corrections | None:
    """Learn corrections in regions, where they lower the error.

    Parameters
    ----------
    kernel : Kernel
        That of the model; its width is chosen anew.
    remainder : Remainder
    roots : sequence of ndarray of shape (d,) or (d, d), or None
        What the rows may be multiplied by; that of least error is taken.
    n_jobs : int or None
        Changes no bit.

    Returns
    -------
    Corrections or None
        None where they lower the squared error of the rows that judge by less than 2 %.

    Notes
    -----
    In each region ``A = (K + alpha I)^{-1} E`` for the errors E of its rows, with the kernel matrix K of all of them:
    no features and no intercept, so that a correction fades away from the rows. Rows of weight w count like
    ``S K S`` and ``S E`` with ``S = w^{1/2}``.

    Width and alpha, the same for all regions, are chosen in some of them. There the corrections are learned from the
    errors of the blind fit at the rows that it has seen, and judged on the others. Errors of the fit to all rows would
    not do: near a row that judges they carry its own error with the opposite sign.

    **Cost.** Twice ``n_r^3 / 3`` multiply-adds for each region of n_r rows, and about ten to thirty times as much in
    the regions that choose, for each of the roots.
    """
    attempts = [one for root in roots if (one := _attempt(kernel, remainder, root, n_jobs)) is not None]
    rows = np.flatnonzero(remainder.held_out)
    before = remainder.count(rows) @ np.square(remainder.blind_errors[rows]).sum(axis=1)
    best = min(attempts, key=lambda one: one.loss, default=None)
    if best is None or not best.loss < (1 - _GAIN) * before:
        return None
    moved, scale = best.remainder, best.scale

    def learn(part: np.ndarray) -> np.ndarray:
        return _coefficients(kernel, scale, best.alpha, moved.X[part], moved.errors[part], moved.count(part))

    order = np.concatenate(best.parts)
    by_key = np.argsort(remainder.keys[rows])
    return Corrections(
        best.partition,
        kernel,
        best.root,
        scale,
        moved.X[order] * moved.X.dtype.type(scale),
        np.concatenate(run_tasks(learn, best.parts, n_jobs)),
        np.cumsum([part.size for part in best.parts]),
        remainder.keys[rows][by_key],
        best.errors[by_key],
        best.reach(),
    )


@dataclass(frozen=True)
class _Attempt:
    """Corrections of rows that a root has moved.

    Attributes
    ----------
    root : ndarray of shape (d,) or (d, d), or None
    remainder : Remainder
        With the rows times the root.
    partition : Partition
    parts : list of ndarray of int
        Rows of each region.
    scale, alpha : float
    errors : ndarray of shape (r, t)
        Of the rows that judge, in the order of the rows.
    loss : float
        Weighted sum of their squares.
    """

    root: np.ndarray | None
    remainder: Residuals
    partition: Partition
    parts: list[np.ndarray]
    scale: float
    alpha: float
    errors: np.ndarray
    loss: float

    def reach(self) -> float:
        """Largest distance of a row that judges to the nearest of the others in its region; these are given."""
        rows, held_out = self.remainder.X * self.remainder.X.dtype.type(self.scale), self.remainder.held_out
        found = [nearest(rows[part[held_out[part]]], rows[part[~held_out[part]]]) for part in self.parts]
        distances = np.concatenate(found)
        return float(distances[np.isfinite(distances)].max(initial=0.0))


def _attempt(kernel: Kernel, remainder: Residuals, root: np.ndarray | None, n_jobs: int | None) -> _Attempt | None:
    """Width, alpha and errors of the rows that judge; None where the regions that choose gain too little."""
    moved = replace(remainder, X=moved_rows(remainder.X, root))
    n_regions = n_regions_for(len(moved.X))
    partition = Partition.of_rows(moved.X, n_regions)
    regions = partition.assign(moved.X)
    parts = [np.flatnonzero(regions == region) for region in range(n_regions)]
    # Planes do not part equal rows, and a region of many would not fit the memory.
    found = _choose(kernel, moved, parts, n_jobs) if max(map(len, parts)) <= 2 * _MOST_ROWS else None
    if found is None:
        return None
    scale, alpha = found
    errors = np.empty((len(moved.X), moved.errors.shape[1]))
    judged = run_tasks(lambda part: _Trial(kernel, scale, moved, part).errors(alpha), parts, n_jobs)
    for part, some in zip(parts, judged, strict=True):
        errors[part[moved.held_out[part]]] = some
    rows = np.flatnonzero(moved.held_out)
    loss = float(moved.count(rows) @ np.square(errors[rows]).sum(axis=1))
    return _Attempt(root, moved, partition, parts, scale, alpha, errors[rows], loss)


def _choose(
    kernel: Kernel, remainder: Residuals, parts: Sequence[np.ndarray], n_jobs: int | None
) -> tuple[float, float] | None:
    """Scale of the rows and alpha of least error on the rows that judge; None where too little is gained."""
    n_judges = int(remainder.held_out.sum())
    probes = [part for part in parts[:: max(1, n_judges // _JUDGES)] if remainder.held_out[part].any()]

    def least(halvings: int, first: int) -> tuple[float, int]:
        trials = run_tasks(lambda part: _Trial(kernel, 2.0**halvings, remainder, part), probes, n_jobs)
        losses: dict[int, float] = {}
        beside = [first]
        while beside:
            for index in beside:
                losses[index] = sum(run_tasks(lambda one, at=index: one.loss(_ALPHAS[at]), trials, n_jobs))
            best = min(losses, key=lambda index: losses[index])
            beside = [i for i in (best + 1, best - 1) if i not in losses and 0 <= i < _ALPHAS.size]
        return losses[best], best

    best, halvings = least(0, _FIRST_ALPHA), 0
    while halvings < _MOST_HALVINGS:
        narrower = least(halvings + 1, best[1])
        if narrower[0] >= best[0]:
            break
        best, halvings = narrower, halvings + 1
    judges = np.concatenate([part[remainder.held_out[part]] for part in probes])
    nothing = remainder.count(judges) @ np.square(remainder.blind_errors[judges]).sum(axis=1)
    return (2.0**halvings, float(_ALPHAS[best[1]])) if best[0] < (1 - _GAIN) * nothing else None


class _Trial:
    """Corrections in a region by the rows that the blind fit has seen, judged on the others.

    Parameters
    ----------
    kernel : Kernel
    scale : float
        Of the rows.
    remainder : Remainder
    part : ndarray of int
        Rows of the region.
    """

    def __init__(self, kernel: Kernel, scale: float, remainder: Residuals, part: np.ndarray):
        self._learned, self._judges = (part[remainder.held_out[part] == judges] for judges in (False, True))
        self._remainder = remainder
        rows, judges = (remainder.X[some].astype(np.float64) * scale for some in (self._learned, self._judges))
        # Planes do not part equal rows, so that a region may be empty.
        self._matrix = kernel(rows) if len(rows) else np.empty((0, 0))
        self._values = kernel(judges, rows) if len(rows) and len(judges) else np.zeros((len(judges), len(rows)))

    def errors(self, alpha: float) -> np.ndarray:
        """Errors (r, t) of the rows that judge."""
        seen, unseen = (self._remainder.blind_errors[some] for some in (self._learned, self._judges))
        return unseen - self._values @ _solve(self._matrix, alpha, seen, self._remainder.count(self._learned))

    def loss(self, alpha: float) -> float:
        """Weighted sum of their squares."""
        return float(self._remainder.count(self._judges) @ np.square(self.errors(alpha)).sum(axis=1))


def _coefficients(
    kernel: Kernel, scale: float, alpha: float, X: np.ndarray, errors: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Coefficients (n, t) of the rows of a region."""
    return _solve(kernel(X.astype(np.float64) * scale), alpha, errors, weights) if len(X) else errors


def _solve(matrix: np.ndarray, alpha: float, errors: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """``S (S K S + alpha I)^{-1} S E`` (n, t)."""
    if not weights.size:
        return errors
    roots = np.sqrt(weights)
    shifted = matrix * np.outer(roots, roots) + alpha * np.eye(roots.size)
    factor = linalg.cho_factor(shifted, lower=True, overwrite_a=True, check_finite=False)
    return roots[:, None] * linalg.cho_solve(factor, roots[:, None] * errors, check_finite=False)
