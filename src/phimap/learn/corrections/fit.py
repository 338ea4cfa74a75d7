"""Fit of corrections: they are learned in each region from residuals, and kept if they lower the validation error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from phimap._random import RandomState, named_streams
from phimap.config import memory_budget, thread_count
from phimap.kernels import Kernel
from phimap.learn.corrections.choice import Choice, choose
from phimap.learn.corrections.corrections import Corrections, PartitionModel
from phimap.learn.corrections.partition import Partition
from phimap.learn.corrections.region_fit import RegionFit, fit_region
from phimap.learn.corrections.regions import MOST_ROWS, Regions
from phimap.learn.corrections.residuals import TILE_ROWS, Residuals
from phimap.ops import run_tasks

# Number of square matrices for a region that are in memory at once.
_ARRAYS = 3
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


def corrections_memory(n_components: int) -> int:
    """Peak bytes of a thread that learns corrections: the matrices of a region and tiles of outputs."""
    return 8 * (_ARRAYS * (2 * MOST_ROWS) ** 2 + 2 * TILE_ROWS * n_components)


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
    return 8 * n_left_out * MOST_PARTITIONS * MOST_ROWS


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
    compared, and ``n_r^2`` for each row of `left_out` in them. The choice takes three to twelve factorisations for each
    root in each region of the subset, in float32 for float32 rows.
    """
    choices = list[tuple[Choice, Regions]]()
    may_leave = np.isin(residuals.keys, [] if left_out is None else left_out)
    for root in roots:
        regions = Regions.of(residuals, root, may_leave, n_jobs)
        if (chosen := choose(kernel, regions, n_jobs)) is not None and chosen.share < 1 - _GAIN:
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


class _Trained(NamedTuple):
    """Corrections of all regions of a partition, before shrinkage.

    Attributes
    ----------
    regions : Regions
    chosen : Choice
    coefs : ndarray of shape (n, t)
        Coefficients in the order of the regions.
    validation_outputs : ndarray of shape (v, t)
        Corrections that were learned without the validation rows, at these rows in the order of the residuals.
    inverses : list of ndarray
        As in `LearnedCorrections`.
    """

    regions: Regions
    chosen: Choice
    coefs: np.ndarray
    validation_outputs: np.ndarray
    inverses: list[np.ndarray]

    @classmethod
    def of(cls, kernel: Kernel, chosen: Choice, regions: Regions, n_jobs: int | None) -> _Trained | None:
        """Learn the corrections of all regions; None if rounding errors exceed alpha in a region outside the choice."""
        residuals = regions.residuals

        def fit(part: np.ndarray) -> RegionFit:
            return fit_region(kernel, chosen.scale, chosen.alpha, residuals, part, regions.left_out[part])

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
