"""Distances between rows, as sums over the columns of powers of differences."""

from __future__ import annotations

from phimap.ops.compiled.jit import compiled, inlined

# Number of columns of the output that are computed together, so that their sums stay in the nearest cache.
_BLOCK = 1024


@inlined
def _add_squares(row, a, b, c, e, first, second, third, fourth):
    for k in range(row.size):
        p, q, r, s = a - first[k], b - second[k], c - third[k], e - fourth[k]
        row[k] += (p * p + q * q) + (r * r + s * s)


@inlined
def _add_sizes(row, a, b, c, e, first, second, third, fourth):
    for k in range(row.size):
        row[k] += (abs(a - first[k]) + abs(b - second[k])) + (abs(c - third[k]) + abs(e - fourth[k]))


@compiled
def sums_of_differences(X, columns, power, out):
    """Write ``sum_j |X[i, j] - columns[j, l]|^power`` to ``out[i, l]``; `power` is 1 or 2.

    X (n, d), columns (d, m) and out (n, m) have one floating dtype; `columns` holds the other m rows, transposed. Time
    O(n m d).
    """
    d = X.shape[1]
    for start in range(0, out.shape[1], _BLOCK):
        stop = min(start + _BLOCK, out.shape[1])
        for i in range(X.shape[0]):
            row = out[i, start:stop]
            row[:] = 0
            for j in range(0, d - d % 4, 4):
                a, b, c, e = X[i, j], X[i, j + 1], X[i, j + 2], X[i, j + 3]
                first, second = columns[j, start:stop], columns[j + 1, start:stop]
                third, fourth = columns[j + 2, start:stop], columns[j + 3, start:stop]
                if power == 1:
                    _add_sizes(row, a, b, c, e, first, second, third, fourth)
                else:
                    _add_squares(row, a, b, c, e, first, second, third, fourth)
            for j in range(d - d % 4, d):
                x, column = X[i, j], columns[j, start:stop]
                for k in range(row.size):
                    size = abs(x - column[k])
                    row[k] += size if power == 1 else size * size
