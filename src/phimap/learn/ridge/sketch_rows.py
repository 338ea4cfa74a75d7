"""A sample of the rows that represents all rows of a stream where its Gram matrix is sketched."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from phimap.learn.blocks.blocks import FeatureRows
from phimap.learn.ridge.normal_equations import NormalEquations, NormalSums
from phimap.learn.rows.samples import CAPACITY
from phimap.learn.rows.validation import ValidationRows, n_held_out

#: Number of random rows in a sketch, if the stream has at least `SAMPLED_FROM` rows. With 16 rows for each of 1,024
#: directions the condition number of the preconditioned matrix at most doubles, which costs a pass or two.
SKETCH_ROWS = 16 * 1024
SAMPLED_FROM = 4 * SKETCH_ROWS
# With fewer features a factorisation is chosen wherever its triangles fit the memory.
_LEAST_FEATURES = 8192


def rows_in_passes(loss: str, solver: str, kernel: Any, width: int) -> int:
    """Random rows that a first pass should keep, in case the solution takes passes.

    `width` is the number of features, unless `kernel` is a map with a width of its own.
    """
    m = getattr(kernel, "n_components", None) or width
    in_passes = solver == "cg" or (solver == "auto" and m > _LEAST_FEATURES)
    return CAPACITY + SKETCH_ROWS if loss == "squared" and in_passes else 0


def is_sampled(validation: ValidationRows) -> bool:
    """Whether the sketch is made of a sample of the rows: fewer rows are all sketched."""
    kept, n_rows = validation.wider_sample, validation.n_rows
    return n_rows >= SAMPLED_FROM and kept is not None and kept.keys.size >= n_held_out(n_rows) + SKETCH_ROWS


class SketchRows:
    r"""Random rows, weighted to represent all rows that are not extreme, and the extreme rows with their own weights.

    .. math:: \sum_i w_i z_i z_i^T \approx c \sum_{i \in S} w_i z_i z_i^T + \sum_{i \in F} w_i z_i z_i^T

    Parameters
    ----------
    sample : FeatureRows
        S, without extreme rows.
    extreme : FeatureRows or None
        F. A random sample would miss most of these rows, and their features are unlike those of other rows.
    system : NormalEquations
        The equations of all rows.
    n_jobs : int or None

    Notes
    -----
    **Error.** With s rows in S and d directions in the sketch, the eigenvalues of the sketch have a relative error of
    ``O(sqrt(d / s))``. The sketch only serves a preconditioner, so this costs iterations but no accuracy.

    **Cost.** ``4 s m k`` flops for k directions, in place of ``4 n m k`` with all n rows.
    """

    def __init__(self, sample: FeatureRows, extreme: FeatureRows | None, system: NormalEquations, n_jobs: int | None):
        own = sample.weights_or_ones
        extreme_weight = 0.0 if extreme is None else extreme.weights_or_ones.sum()
        weighted = sample._replace(weights=own * ((system.weight - extreme_weight) / own.sum()))
        self._extreme, self._n_jobs = extreme, n_jobs
        self._parts = [weighted] if extreme is None else [weighted, extreme]
        sums = [NormalSums.of(rows.block, rows.targets, rows.weights_or_ones, n_jobs) for rows in self._parts]
        self._sums = NormalSums(*(reduce(np.add, terms) for terms in zip(*sums, strict=True)))

    def image(self, V: np.ndarray) -> np.ndarray:
        """Estimate of the sum of ``w z z^T V`` (m, k) over all rows."""
        first, *more = (rows.block.gram_times(V, rows.weights_or_ones, self._n_jobs) for rows in self._parts)
        for image in more:
            first += image
        return first

    def estimate(self, system: NormalEquations) -> NormalEquations:
        """The equations of a system as these rows estimate them.

        They are centred by the mean of these rows: with the mean of all rows the Gram matrix would not be positive
        definite. Held-out random rows are not among these rows, so only extreme rows may be left out.
        """
        extreme = [rows for rows in system.held_out if rows is self._extreme]
        return NormalEquations(self._sums, self._n_jobs, extreme)
