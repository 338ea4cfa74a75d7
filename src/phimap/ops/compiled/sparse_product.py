"""Products with matrices of a few numbers a row."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True, error_model="numpy")
def sparse_product(X, columns, entries, out):
    """Set ``out[i, c]`` to the sum over l of ``entries[c, l] * X[i, columns[c, l]]``.

    X (n, d), entries (s, q) and out (n, s) of one floating dtype; columns intp (s, q) from 0 to d - 1. Overwrites
    `out`. O(n s q).
    """
    for i in range(X.shape[0]):
        x, row = X[i], out[i]
        for c in range(columns.shape[0]):
            total = entries[c, 0] * x[np.uintp(columns[c, 0])]
            for place in range(1, columns.shape[1]):
                total += entries[c, place] * x[np.uintp(columns[c, place])]
            row[c] = total
