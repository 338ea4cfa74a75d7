"""What makes stochastic gradients of all directions equally long: the regularised Gram matrix of a sample of rows."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from phimap.learn.blocks.triangle import BlockTriangle
from phimap.learn.doubly_stochastic.blocks import BlockedMap
from phimap.ops import Array, ops_for, single_threaded_blas
from phimap.records import Record, of_floats, of_number

#: Rows of the sample, and others on which its level is judged.
SAMPLE_ROWS, JUDGING_ROWS = 2048, 1024
#: Random rows that a preconditioner can use.
ROWS = SAMPLE_ROWS + JUDGING_ROWS
# Half decades of the level.
_STEP = 10**-0.5
# The rows that judge may say so much against a level. Above it the sample knows too little of the directions below.
_MOST_NORM = 30.0
# Steps of the power iteration, after which the norm is known to some percent.
_POWERS = 15


@dataclass(frozen=True)
class SamplePreconditioner(Record):
    r"""``P = level (Z_S^T Z_S / s + level I)^-1 = I - Z_S^T (Z_S Z_S^T + s level I)^-1 Z_S`` of s sample rows.

    Z has a further column of ones, which belongs to the intercept. P is applied from the sample rows and an s x s
    matrix, whatever the number of features.

    Attributes
    ----------
    rows : array or CSR matrix of shape (s, n_features)
        Scaled rows of the sample.
    factor : ndarray of shape (s, s)
        Lower Cholesky factor of ``Z_S Z_S^T + s level I``.
    level : float
        Directions whose curvature is above it are shortened to it.
    """

    rows: Array = field(metadata=of_floats("s", None))
    factor: np.ndarray = field(metadata=of_floats("s", "s"))
    level: float = field(metadata=of_number(least=0))

    @classmethod
    def of_sample(
        cls, blocks: BlockedMap, rows: Array, penalty: float, rng: np.random.Generator, n_jobs: int | None
    ) -> SamplePreconditioner:
        """For random scaled rows (r, n_features), a third of which judge; `penalty` is that of the mean loss.

        The level is the least, by half decades, at which the Gram matrix of the judging rows, preconditioned and over
        the level, has a norm below 30.
        """
        size = min(SAMPLE_ROWS, -(-2 * rows.shape[0] // 3))
        others = slice(size, size + JUDGING_ROWS) if rows.shape[0] > size else slice(0, size)
        sample, judging = rows[:size], rows[others]
        ops = ops_for(rows)
        gram = BlockTriangle.zeros(size + judging.shape[0])
        for _, parts in blocks.features(ops, (sample, judging), n_jobs):
            gram.add_products(np.concatenate([ops.to_host(part) for part in parts]).T, 1, n_jobs)
        products = gram.to_dense() + 1.0
        own, cross, judged = products[:size, :size], products[:size, size:], products[size:, size:]
        start = rng.standard_normal(judged.shape[0])
        least = max(penalty, float(np.finfo(ops.dtype).eps))
        factor, level = None, 1.0
        with single_threaded_blas():
            while (found := _shifted_factor(own, size * level)) is not None:
                if factor is not None and _norm(found, cross, judged, level, start) > _MOST_NORM:
                    break
                factor, chosen = found, level
                if level <= least:
                    break
                level = max(level * _STEP, least)
        assert factor is not None
        return cls(sample, factor, chosen)

    def solve(self, h: np.ndarray) -> np.ndarray:
        """``(Z_S Z_S^T + s level I)^-1 h`` for `h` (s, t)."""
        with single_threaded_blas():
            return cho_solve((self.factor, True), h)


def _shifted_factor(gram: np.ndarray, shift: float) -> np.ndarray | None:
    """The lower Cholesky factor of `gram` with a shifted diagonal; None where rounding leaves it none."""
    shifted = gram.copy()
    shifted.flat[:: len(gram) + 1] += shift
    try:
        return cho_factor(shifted, lower=True, overwrite_a=True)[0]
    except LinAlgError:
        return None


def _norm(factor: np.ndarray, cross: np.ndarray, judged: np.ndarray, level: float, start: np.ndarray) -> float:
    """The norm of ``Z_J P Z_J^T / (j level)`` of j judging rows, by power iteration."""
    vector, norm = start, 0.0
    for _ in range(_POWERS):
        vector = vector / np.linalg.norm(vector)
        vector = judged @ vector - cross.T @ cho_solve((factor, True), cross @ vector)
        norm = float(np.linalg.norm(vector))
        if norm == 0:
            break
    return norm / (len(judged) * level)
