"""Some rows that stand for all of a stream where its Gram matrix is sketched."""

from __future__ import annotations

import numpy as np

from phimap.learn.blocks.blocks import FeatureRows
from phimap.learn.ridge.normal_equations import NormalEquations, NormalSums, counts, gram_times, moments_of

#: Rows at random of which a sketch is made, where there are `SAMPLED_FROM` rows or more. With 16 rows for each of 1,024
#: directions the preconditioned matrix has at most about twice the condition number, which costs a pass or two.
SKETCH_ROWS = 16 * 1024
SAMPLED_FROM = 4 * SKETCH_ROWS


class SketchRows:
    r"""Random rows, weighted so that they count like all rows that are not outlying, and the outlying rows as they are.

    .. math:: \sum_i w_i z_i z_i^T \approx c \sum_{i \in S} w_i z_i z_i^T + \sum_{i \in F} w_i z_i z_i^T

    Parameters
    ----------
    sample : Rows
        S, of which no row is outlying.
    outlying : Rows or None
        F: a sample would miss most of them, and what they add is like nothing else.
    system : NormalEquations
        Of all rows.
    n_jobs : int or None

    Notes
    -----
    **Error.** With s rows in S and d directions in the sketch, eigenvalues that the sketch knows are off by a relative
    ``O(sqrt(d / s))``. What is made of the sketch is a preconditioner, so this costs iterations and moves no solution.

    **Cost.** ``4 s m k`` flops for k directions, where all n rows take ``4 n m k``.
    """

    def __init__(self, sample: FeatureRows, outlying: FeatureRows | None, system: NormalEquations, n_jobs: int | None):
        self._sample, self._outlying, self._n_jobs = sample, outlying, n_jobs
        far = 0.0 if outlying is None else counts(outlying).sum()
        own = counts(sample)
        self._weights = own * ((system.weight - far) / own.sum())
        self._moments = moments_of(sample.block, sample.targets, self._weights, n_jobs)
        if outlying is not None:
            more = moments_of(outlying.block, outlying.targets, counts(outlying), n_jobs)
            self._moments = NormalSums(*(near + far for near, far in zip(self._moments, more, strict=True)))

    def image(self, V: np.ndarray) -> np.ndarray:
        """About the sum of ``w z z^T V`` (m, k) over all rows."""
        image = gram_times(self._sample.block, V, self._weights, self._n_jobs)
        if self._outlying is not None:
            image += gram_times(self._outlying.block, V, counts(self._outlying), self._n_jobs)
        return image

    def estimate(self, system: NormalEquations) -> NormalEquations:
        """A system's equations as these rows see them.

        They have a mean of their own: about that of all rows their Gram matrix would not be positive definite. Random
        rows that the system leaves out are none of these, and leave these as many as they are.
        """
        return NormalEquations(
            self._moments, self._n_jobs, [rows for rows in system.left_out if rows is self._outlying]
        )
