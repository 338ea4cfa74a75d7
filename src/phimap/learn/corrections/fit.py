"""Fit of corrections: they are learned in each region from residuals, and kept if they lower the validation error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from phimap._random import RandomState, named_streams
from phimap.config import memory_budget, thread_count
from phimap.kernels import Kernel
from phimap.learn.corrections.corrections import Corrections, PartitionModel, moved_rows, nearest
from phimap.learn.corrections.partition import Partition
from phimap.learn.corrections.residuals import TILE_ROWS, Residuals
from phimap.learn.search.trial import descend_along
from phimap.ops import run_tasks
from phimap.ops.blas import factorise, solve_factored, solve_transposed, solve_upper

# Maximum number of rows of a region. A model of so many rows takes a tenth of a second.
_MOST_ROWS = 1500
# Number of square matrices for a region that are in memory at once.
_ARRAYS = 3
# The kernel's width and alpha are chosen by about this many validation rows, at most twice as many.
_VALIDATION_ROWS = 500
# Corrections, and those of a further partition, are kept only if they lower the squared validation error by more than
# this share.
_GAIN = 0.02
#: Maximum number of partitions.
MOST_PARTITIONS = 4
# Further partitions are tried only if the squared validation error with corrections is at most this share of that
# without. Above it, four partitions changed the errors at new rows by less than 0.5 %, on eight tables.
_MOST_SHARE = 0.9
# With several roots, the choice by few validation rows may be wrong. Roots whose shares of the squared error differ by
# at most this are compared at all validation rows.
_RIVAL = 0.1
# Maximum number of halvings of the kernel's width. The model's kernel is wide, and its residuals need a kernel of
# smaller width.
_MOST_HALVINGS = 6
# Grid of alphas, in units of k(x, x), and index at which the search starts. With a smaller alpha a sum in float32 would
# lose digits.
_ALPHAS = np.geomspace(1e-3, 1e1, 9)
_FIRST_ALPHA = 5
# Number of rows of a kernel matrix that are computed at a time, from the diagonal to the right.
_BLOCK_ROWS = 128
# Kernel values are kept in float32 if none is smaller.
_LEAST_SINGLE = 1e-15


def n_regions_for(n_rows: int) -> int:
    """The least number of regions, a power of two, with at most `_MOST_ROWS` rows in each."""
    return 1 << max(0, int(np.ceil(np.log2(n_rows / _MOST_ROWS))))


def corrections_memory(n_components: int) -> int:
    """Peak bytes of a thread that learns corrections: the matrices of a region and tiles of outputs."""
    return 8 * (_ARRAYS * (2 * _MOST_ROWS) ** 2 + 2 * TILE_ROWS * n_components)


def corrections_threads(n_components: int, n_jobs: int | None) -> int:
    """Number of threads, at most `n_jobs`, that may each hold a region: as many as fit the byte budget, at least 1."""
    return max(1, min(thread_count(n_jobs), memory_budget() // corrections_memory(n_components)))


class LearnedCorrections(NamedTuple):
    """Corrections, and what `corrected_errors` needs.

    Attributes
    ----------
    corrections : Corrections
    residuals : Residuals
        The residuals from which they were learned.
    left_out : ndarray of bool, shape (n,)
        Whether a row may be left out.
    inverses : tuple of list of ndarray of shape (r, h)
        For each partition and each region of r rows: the columns of ``(S K S + alpha I)^{-1}``, see
        `learn_corrections`, that belong to the h rows that may be left out.
    """

    corrections: Corrections
    residuals: Residuals
    left_out: np.ndarray
    inverses: tuple[list[np.ndarray], ...]

    @property
    def inverses_bytes(self) -> int:
        """Bytes of the inverses."""
        return sum(one.nbytes for of_partition in self.inverses for one in of_partition)


def left_out_memory(n_left_out: int) -> int:
    """Bytes of the inverses of `LearnedCorrections` for rows of float64 in regions of equal size."""
    return 8 * n_left_out * MOST_PARTITIONS * _MOST_ROWS


def learn_corrections(
    kernel: Kernel,
    residuals: Residuals,
    roots: Sequence[np.ndarray | None] = (None,),
    n_jobs: int | None = None,
    *,
    left_out: np.ndarray | None = None,
    rng: RandomState = 0,
) -> LearnedCorrections | None:
    """Learn corrections of a model from its residuals, region by region, if they lower the validation error.

    Parameters
    ----------
    kernel : Kernel
        The kernel of the model. Its width is chosen anew.
    residuals : Residuals
    roots : sequence of ndarray of shape (d,) or (d, d), or None
        Factors or matrices by which the rows may be multiplied; None is the identity. Of those with similar
        errors in a few regions, the one with the least error at all validation rows is chosen.
    n_jobs : int or None
        Threads; the result does not depend on them.
    left_out : ndarray, optional
        Keys of the rows that `corrected_errors` may leave out.
    rng : RandomState, default=0
        Draws the partitions after the first.

    Returns
    -------
    LearnedCorrections or None
        None if they lower the squared error of the validation rows by less than 2 %.

    Notes
    -----
    The correction of a row x is ``k(x, X) A`` with ``A = (K + alpha I)^{-1} E``, where X are the training rows in the
    region of x, K is their kernel matrix and E are their residuals. There are no features and no intercept, so a
    correction vanishes far from the rows. With row weights w and ``S = diag(w^{1/2})``, the coefficients are
    ``A = S (S K S + alpha I)^{-1} S E``.

    Width and alpha are the same for all regions. They are chosen on a subset of the regions: there, corrections are
    learned from the residuals of the training fit at the training rows, and their error is measured at the validation
    rows. Residuals of the fit to all rows would be misleading, because that fit has seen the targets of the validation
    rows. If such a target has a positive error, it has raised the fit around its row, and so has lowered the residuals
    of nearby training rows. Corrections learned from these residuals would be too low at the validation row.

    A row near the edge of its region lacks some of its neighbours. With several columns, most rows are near an edge.
    Therefore the corrections are the mean over several partitions with different edges: the first has planes across
    principal components, the others across random directions. A partition is added while this lowers the squared
    validation error by 2 %, up to four partitions. No partition is added if the first lowers it by less than 10 %.

    The mean is multiplied by a shrinkage c, because the width and alpha that are best for few validation rows follow
    noise. With errors e of the training fit and corrections d at all validation rows, it is ``c = <e, d> / |d|^2``,
    clipped to the interval from 0 to 1, which minimises ``|e - c d|^2``.

    **Cost.** ``n_r^3 / 3`` multiply-adds for each region of n_r rows, for each partition and each root that is
    compared. The choice takes three to twelve factorisations for each root in each region of the subset, in float32 for
    float32 rows.
    """
    choices = list[tuple[_Choice, _Regions]]()
    may_leave = np.isin(residuals.keys, [] if left_out is None else left_out)
    for root in roots:
        regions = _Regions.of(residuals, root, may_leave, n_jobs)
        if (chosen := _choose(kernel, regions, n_jobs)) is not None:
            choices.append((chosen, regions))
    if not choices:
        return None
    least = min(chosen.share for chosen, _ in choices)
    close = [(chosen, regions) for chosen, regions in choices if chosen.share <= least + _RIVAL]
    trained = [_Trained.of(kernel, *choice, n_jobs) for choice in close]
    means = [_Mean.of(residuals, (one,)) for one in trained if one is not None]
    best = min(means, key=lambda one: one.share, default=None)
    if best is None or not best.share < 1 - _GAIN:
        return None
    return _with_partitions(kernel, best, residuals, n_jobs, rng).learned(kernel, residuals)


def _with_partitions(kernel: Kernel, mean: _Mean, residuals: Residuals, n_jobs: int | None, rng: RandomState) -> _Mean:
    """Add models of random partitions while each of them lowers the validation error enough."""
    regions, chosen, *_ = mean.members[0]
    X, n_regions = regions.residuals.X, regions.partition.n_regions
    # All partitions into a single region are the same.
    if n_regions == 1 or mean.share > _MOST_SHARE:
        return mean
    for stream in named_streams(rng, *(f"partition {k}" for k in range(1, MOST_PARTITIONS))).values():
        other = regions.with_partition(Partition.of_rows(X, n_regions, n_jobs, stream))
        if not other.are_small or (trained := _Trained.of(kernel, chosen, other, n_jobs)) is None:
            break
        more = _Mean.of(residuals, (*mean.members, trained))
        if not more.share < (1 - _GAIN) * mean.share:
            break
        mean = more
    return mean


@dataclass(frozen=True)
class _Regions:
    """The residuals, divided into regions after multiplication by one of the roots.

    Attributes
    ----------
    root : ndarray of shape (d,) or (d, d), or None
    residuals : Residuals
        Their rows are multiplied by the root.
    left_out : ndarray of bool, shape (n,)
        Whether a row may be left out.
    partition : Partition
    parts : list of ndarray of int
        Indices of the rows of each region.
    """

    root: np.ndarray | None
    residuals: Residuals
    left_out: np.ndarray
    partition: Partition
    parts: list[np.ndarray]

    @classmethod
    def of(cls, residuals: Residuals, root: np.ndarray | None, left_out: np.ndarray, n_jobs: int | None) -> _Regions:
        """Multiply the rows by `root`, and divide them into regions."""
        moved = replace(residuals, X=moved_rows(residuals.X, root))
        partition = Partition.of_rows(moved.X, n_regions_for(len(moved.X)), n_jobs)
        return cls(root, moved, left_out, partition, _parts_of(partition, moved.X))

    def with_partition(self, partition: Partition) -> _Regions:
        """Return the same rows, divided by another partition."""
        return replace(self, partition=partition, parts=_parts_of(partition, self.residuals.X))

    @property
    def are_small(self) -> bool:
        """Whether no region has too many rows.

        Planes cannot separate equal rows. Many equal rows thus form a region larger than the limit, whose kernel matrix
        may not fit into memory.
        """
        return max(map(len, self.parts)) <= 2 * _MOST_ROWS

    def reach(self, scale: float) -> float:
        """Largest distance of a validation row to the nearest training row of its region.

        0 if no region contains both kinds of rows.
        """
        rows, held_out = self.residuals.X * self.residuals.X.dtype.type(scale), self.residuals.held_out
        distances = np.concatenate(
            [nearest(rows[part[held_out[part]]], rows[part[~held_out[part]]]) for part in self.parts]
        )
        return float(distances[np.isfinite(distances)].max(initial=0.0))


def _parts_of(partition: Partition, X: np.ndarray) -> list[np.ndarray]:
    """Return the indices of the rows of `X` in each region."""
    regions = partition.assign(X)
    return [np.flatnonzero(regions == one) for one in range(partition.n_regions)]


class _Choice(NamedTuple):
    """Width and alpha of corrections, and the ratio of the validation errors with and without them."""

    scale: float
    alpha: float
    share: float


def _choose(kernel: Kernel, regions: _Regions, n_jobs: int | None) -> _Choice | None:
    """Return the width and alpha of least validation error in some of the regions.

    The result is None if the corrections gain too little in these regions, or if a region has too many rows.
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
    return _Choice(2.0**halvings, float(_ALPHAS[index]), share) if share < 1 - _GAIN else None


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
        factor = _factor(self._matrix, alpha, roots)
        solved = solve_factored(factor, roots * self._targets)
        slopes = solve_factored(factor, -alpha * solved)
        return roots * solved, roots * slopes


class _Trained(NamedTuple):
    """Corrections of all regions of a partition, before shrinkage.

    Attributes
    ----------
    regions : _Regions
    chosen : _Choice
    coefs : ndarray of shape (n, t)
        Coefficients in the order of the regions.
    validation_outputs : ndarray of shape (v, t)
        Corrections that were learned without the validation rows, at these rows in the order of the residuals.
    inverses : list of ndarray
        As in `LearnedCorrections`.
    """

    regions: _Regions
    chosen: _Choice
    coefs: np.ndarray
    validation_outputs: np.ndarray
    inverses: list[np.ndarray]

    @classmethod
    def of(cls, kernel: Kernel, chosen: _Choice, regions: _Regions, n_jobs: int | None) -> _Trained | None:
        """Learn the corrections of all regions; None if rounding errors exceed alpha in a region outside the choice."""
        residuals = regions.residuals

        def fit(part: np.ndarray) -> _RegionFit:
            return _region_fit(kernel, chosen, residuals, part, np.flatnonzero(regions.left_out[part]))

        try:
            fits = run_tasks(fit, regions.parts, n_jobs)
        except np.linalg.LinAlgError:
            return None
        outputs = np.empty_like(residuals.errors)
        for part, found in zip(regions.parts, fits, strict=True):
            rows = part[residuals.held_out[part]]
            outputs[rows] = residuals.training_fit_errors[rows] - found.validation_errors
        coefs, inverses = np.concatenate([one.coefs for one in fits]), [one.inverse for one in fits]
        return cls(regions, chosen, coefs, outputs[residuals.held_out], inverses)

    def model(self, factor: float) -> PartitionModel:
        """Return the model of the partition; its coefficients are multiplied by `factor`, in place."""
        # In place, because a copy would add to the peak memory.
        np.multiply(self.coefs, factor, out=self.coefs)
        ends = np.cumsum([part.size for part in self.regions.parts])
        return PartitionModel(self.regions.partition, np.concatenate(self.regions.parts), ends, self.coefs)


class _Mean(NamedTuple):
    """The mean of corrections of several partitions, after shrinkage.

    Attributes
    ----------
    members : tuple of _Trained
    shrinkage : float
        Factor of the mean, between 0 and 1.
    errors : ndarray of shape (v, t)
        Errors at the validation rows, in the order of the residuals.
    share : float
        Squared error of the validation rows over that without corrections.
    """

    members: tuple[_Trained, ...]
    shrinkage: float
    errors: np.ndarray
    share: float

    @classmethod
    def of(cls, residuals: Residuals, members: tuple[_Trained, ...]) -> _Mean:
        rows, tiny = np.flatnonzero(residuals.held_out), np.finfo(np.float64).tiny
        before, counted = residuals.training_fit_errors[rows], residuals.count(rows)
        outputs = np.mean([one.validation_outputs for one in members], axis=0)
        moment = float(counted @ (before * outputs).sum(axis=1))
        shrinkage = float(np.clip(moment / max(residuals.loss(rows, outputs), tiny), 0, 1))
        errors = before - shrinkage * outputs
        return cls(members, shrinkage, errors, residuals.loss(rows, errors) / max(residuals.loss(rows, before), tiny))

    def learned(self, kernel: Kernel, residuals: Residuals) -> LearnedCorrections:
        """Return the corrections, whose coefficients overwrite those of the members."""
        regions, chosen, *_ = self.members[0]
        X, keys = regions.residuals.X, residuals.keys[residuals.held_out]
        by_key = np.argsort(keys)
        corrections = Corrections(
            kernel,
            regions.root,
            chosen.scale,
            X * X.dtype.type(chosen.scale),
            tuple(one.model(self.shrinkage / len(self.members)) for one in self.members),
            keys[by_key],
            self.errors[by_key],
            regions.reach(chosen.scale),
            chosen.alpha,
            self.shrinkage,
        )
        inverses = tuple(one.inverses for one in self.members)
        return LearnedCorrections(corrections, residuals, regions.left_out, inverses)


class _RegionFit(NamedTuple):
    """Corrections of one region.

    Attributes
    ----------
    coefs : ndarray of shape (r, t)
        Coefficients of the residuals of the fit to all rows.
    validation_errors : ndarray of shape (v, t)
        Errors at the validation rows, defined as in `_Probe`.
    inverse : ndarray of shape (r, h)
        As in `LearnedCorrections`.
    """

    coefs: np.ndarray
    validation_errors: np.ndarray
    inverse: np.ndarray


def _region_fit(
    kernel: Kernel, chosen: _Choice, residuals: Residuals, part: np.ndarray, columns: np.ndarray
) -> _RegionFit:
    r"""Return the corrections of a region with the rows `part`, and the `columns` (h,) of its inverse.

    Notes
    -----
    Let ``U^T U`` be ``S K S + alpha I`` with the validation rows last, U its Cholesky factor, e the residuals of the
    training fit, and ``u = U^{-T} S e``. The corrections that are learned at the training rows alone then have the
    errors :math:`S_V^{-1} U_{VV}^T u_V` at the validation rows. So one factorisation gives these errors, the
    coefficients of all rows, and the columns of the inverse.
    """
    # A region may be empty, since planes do not separate equal rows.
    if not part.size:
        return _RegionFit(residuals.errors[part], residuals.training_fit_errors[part], np.zeros((0, 0)))
    # The training rows of the columns follow the others: the products of U^-T with the columns of the identity are zero
    # above them.
    held_out, has_column = residuals.held_out[part], np.isin(np.arange(part.size), columns)
    order = np.argsort(np.where(held_out, 2, has_column), kind="stable")
    rows, first = part[order], int((~held_out).sum())
    X, roots = residuals.X[rows] * residuals.X.dtype.type(chosen.scale), np.sqrt(residuals.count(rows))[:, None]
    factor = _region_factor(kernel, X, chosen.alpha, roots)
    both = np.concatenate([residuals.errors[rows], residuals.training_fit_errors[rows]], axis=1)
    solved = (roots * both).astype(factor.dtype)
    solve_transposed(factor, solved)
    of_all, of_training = np.split(solved, 2, axis=1)
    errors = np.triu(factor[first:, first:]).T @ of_training[first:] / roots[first:]
    solve_upper(factor, of_all)
    coefs = np.empty(of_all.shape)
    coefs[order] = roots * of_all
    return _RegionFit(coefs, errors, _columns_of_inverse(factor, order, columns))


def _columns_of_inverse(factor: np.ndarray, order: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return `columns` (h,) of ``(U^T U)^{-1}`` as (r, h), for the factor U (r, r) of rows in an `order` (r,)."""
    places = np.argsort(order)[columns]
    solved = np.zeros((len(factor), columns.size), factor.dtype)
    if columns.size:
        solved[places, np.arange(columns.size)] = 1.0
        first = int(places.min())
        solve_transposed(factor[first:, first:], solved[first:])
        solve_upper(factor, solved)
    inverse = np.empty_like(solved)
    inverse[order] = solved
    return inverse


def _region_factor(kernel: Kernel, X: np.ndarray, alpha: float, roots: np.ndarray) -> np.ndarray:
    """Return the Cholesky factor U of ``S K S + alpha I`` for the rows `X`; `roots` is the diagonal of S.

    It is in float64 if rounding errors of float32 exceed alpha. Entries below its diagonal are arbitrary.
    """
    try:
        matrix = kernel_matrix(kernel, X)
        return _factor(matrix, alpha, roots.astype(matrix.dtype))
    except np.linalg.LinAlgError:
        return _factor(kernel_matrix(kernel, X.astype(np.float64)), alpha, roots)


def _factor(matrix: np.ndarray, alpha: float, roots: np.ndarray) -> np.ndarray:
    """Cholesky factor U of ``S K S + alpha I``; the entries below its diagonal are arbitrary."""
    factor = matrix.copy() if (roots == 1).all() else matrix * (roots * roots.T)
    factor[np.diag_indices_from(factor)] += factor.dtype.type(alpha)
    if not factorise(factor):
        raise np.linalg.LinAlgError
    return factor


def kernel_matrix(kernel: Kernel, X: np.ndarray) -> np.ndarray:
    """Kernel values (n, n) of the pairs of rows, with zeros for most pairs below the diagonal.

    Values are as `kernel_values` returns them. The zeros save a third of the time; a factorisation does not read them.
    """
    matrix = np.zeros((len(X), len(X)), X.dtype)
    for first in range(0, len(X), _BLOCK_ROWS):
        rows = slice(first, first + _BLOCK_ROWS)
        block = kernel_values(kernel, X[rows], X[first:])
        matrix = matrix.astype(np.promote_types(matrix.dtype, block.dtype), copy=False)
        matrix[rows, first:] = block
    return matrix


def kernel_values(kernel: Kernel, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Kernel values (n, k), in float32 for float32 rows if the kernel allows, else in float64.

    The rounding error of float32 is far below all alphas. If some values are tiny, the result is in float64, because a
    factorisation in float32 would multiply them to subnormal numbers, which take many times as long.
    """
    if not (len(X) and len(Y)):
        return np.zeros((len(X), len(Y)))
    single = kernel.in_single_precision(X, Y) if X.dtype == np.float32 else None
    if single is None:
        return kernel(X.astype(np.float64), Y.astype(np.float64))
    return single if single.min() >= _LEAST_SINGLE else single.astype(np.float64)
