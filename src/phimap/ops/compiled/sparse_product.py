"""Products with sparse matrices that have a few entries in each row."""

from __future__ import annotations

import numpy as np

from phimap.ops.compiled.jit import compiled


@compiled
def sparse_product(X, columns, entries, out):
    """Set ``out[i, c]`` to the sum over l of ``entries[l, c] * X[i, columns[l, c]]``.

    X (n, d), entries (q, s) and out (n, s) have one floating dtype; columns is intp (q, s) with entries from 0 to
    d - 1. Time O(n s q). The first three terms of a sum are added in one expression, since adding to `out` term by term
    takes several times as long.
    """
    q = columns.shape[0]
    first, second, third = columns[0], columns[min(1, q - 1)], columns[min(2, q - 1)]
    a, b, c = entries[0], entries[min(1, q - 1)], entries[min(2, q - 1)]
    for i in range(X.shape[0]):
        x, row = X[i], out[i]
        if q == 1:
            for k in range(row.shape[0]):
                row[k] = a[k] * x[np.uintp(first[k])]
        elif q == 2:
            for k in range(row.shape[0]):
                row[k] = a[k] * x[np.uintp(first[k])] + b[k] * x[np.uintp(second[k])]
        else:
            for k in range(row.shape[0]):
                row[k] = a[k] * x[np.uintp(first[k])] + b[k] * x[np.uintp(second[k])] + c[k] * x[np.uintp(third[k])]
        for place in range(3, q):
            for k in range(row.shape[0]):
                row[k] += entries[place, k] * x[np.uintp(columns[place, k])]
