"""Products with matrices of few entries, all 1 or -1, by additions."""

from __future__ import annotations

import numba
import numpy as np

# Rows transposed together, so that an addition is one of whole vectors. With 32 or 128 it took longer.
_GROUP = 64


@numba.njit(nogil=True, cache=True, error_model="numpy")
def signed_sums(X, indices, bounds, out):
    """Set ``out[:, c]`` to a sum of columns of `X` less a sum of others.

    X (n, d) and out (n, s) of one floating dtype; indices int32 (nnz,) from 0 to d - 1; bounds intp (2 s + 1,), from
    0 to nnz, not decreasing. Added for c are the columns ``indices[bounds[2 c]:bounds[2 c + 1]]``, subtracted those
    from there to ``bounds[2 c + 2]``. Overwrites `out`. O(n nnz) additions; scratch of `_GROUP` rows.
    """
    n, d = X.shape
    group, total = np.zeros((d, _GROUP), X.dtype), np.empty(_GROUP, X.dtype)
    for first in range(0, n, _GROUP):
        rows, results = X[first : first + _GROUP], out[first : first + _GROUP]
        for r in range(rows.shape[0]):
            for j in range(d):
                group[j, r] = rows[r, j]
        for c in range(out.shape[1]):
            start, middle, stop = bounds[2 * c], bounds[2 * c + 1], bounds[2 * c + 2]
            total[:] = 0
            _add(group, indices[middle:stop], total)
            for r in range(_GROUP):
                total[r] = -total[r]
            _add(group, indices[start:middle], total)
            for r in range(rows.shape[0]):
                results[r, c] = total[r]


@numba.njit(nogil=True, cache=True, error_model="numpy")
def _add(group, indices, total):
    """Add rows of group (d, `_GROUP`) to total (`_GROUP`,), four at a time to load and store the total less often."""
    n = indices.shape[0]
    fours = n - n % 4
    for e in range(0, fours, 4):
        one, two = group[indices[e]], group[indices[e + 1]]
        three, four = group[indices[e + 2]], group[indices[e + 3]]
        for r in range(_GROUP):
            total[r] += (one[r] + two[r]) + (three[r] + four[r])
    for e in range(fours, n):
        one = group[indices[e]]
        for r in range(_GROUP):
            total[r] += one[r]
