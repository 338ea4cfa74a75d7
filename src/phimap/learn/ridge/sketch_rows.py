"""A sample of the rows of a stream that represents all rows in the sketch of the Gram matrix."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from phimap.learn.blocks.blocks import FeatureRows
from phimap.learn.ridge.normal_equations import NormalEquations, NormalSums
from phimap.learn.rows.samples import CAPACITY
from phimap.learn.rows.validation import ValidationRows, n_held_out

#: Number of random rows in a sketch, if the stream has at least `SAMPLED_FROM` rows. This is 16 rows for each of 1,024
#: directions. The sample then at most doubles the condition number of the preconditioned matrix, which costs a pass or
#: two.
SKETCH_ROWS = 16 * 1024
SAMPLED_FROM = 4 * SKETCH_ROWS
# Least number of features for which `solver="auto"` may take passes. With fewer features it takes a factorisation if
# the triangles fit the memory.
_LEAST_FEATURES = 8192


def rows_in_passes(loss: str, solver: str, kernel: Any, width: int) -> int:
    """Number of random rows that the first pass should keep because the solution may take passes.

    `width` is the number of features, unless `kernel` is a map with a width of its own.
    """
    m = getattr(kernel, "n_components", None) or width
    in_passes = solver == "cg" or (solver == "auto" and m > _LEAST_FEATURES)
    return CAPACITY + SKETCH_ROWS if loss == "squared" and in_passes else 0


def is_sampled(validation: ValidationRows) -> bool:
    """Whether the sketch is made from a sample of the rows. If there are few rows, all of them are sketched."""
    kept, n_rows = validation.wider_sample, validation.n_rows
    return n_rows >= SAMPLED_FROM and kept is not None and kept.keys.size >= n_held_out(n_rows) + SKETCH_ROWS


class SketchRows:
    r"""A sketch's rows: random rows, weighted to represent all rows that are not extreme, and the extreme rows.

    .. math:: \sum_i w_i z_i z_i^T \approx c \sum_{i \in S} w_i z_i z_i^T + \sum_{i \in F} w_i z_i z_i^T

    Parameters
    ----------
    sample : FeatureRows
        S; contains no extreme rows.
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
        """Estimate of the sum of ``w z z^T V`` over all rows (m, k)."""
        first, *more = (rows.block.gram_times(V, rows.weights_or_ones, self._n_jobs) for rows in self._parts)
        for image in more:
            first += image
        return first

    def estimate(self, system: NormalEquations) -> NormalEquations:
        """Estimate the equations of a system from the rows of the sketch.

        The equations are centred by the mean of the sketch's rows. With the mean of all rows the Gram matrix would not
        be positive definite. No row of the sketch is a held-out random row, so only extreme rows may be left out.
        """
        extreme = [rows for rows in system.held_out if rows is self._extreme]
        return NormalEquations(self._sums, self._n_jobs, extreme)
