"""Distances between rows, as sums over columns of differences."""

from __future__ import annotations

from phimap.ops.compiled.jit import compiled

# Number of columns of the output that are computed together: their sums stay in the nearest cache.
_BLOCK = 1024


@compiled
def sum_squares(X, columns, out):
    """Write ``sum_j (X[i, j] - columns[j, l])^2`` to ``out[i, l]``."""
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
                for k in range(row.size):
                    p, q, r, s = a - first[k], b - second[k], c - third[k], e - fourth[k]
                    row[k] += (p * p + q * q) + (r * r + s * s)
            for j in range(d - d % 4, d):
                x, column = X[i, j], columns[j, start:stop]
                for k in range(row.size):
                    row[k] += (x - column[k]) * (x - column[k])


@compiled
def sum_sizes(X, columns, out):
    """Write ``sum_j |X[i, j] - columns[j, l]|`` to ``out[i, l]``."""
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
                for k in range(row.size):
                    row[k] += (abs(a - first[k]) + abs(b - second[k])) + (abs(c - third[k]) + abs(e - fourth[k]))
            for j in range(d - d % 4, d):
                x, column = X[i, j], columns[j, start:stop]
                for k in range(row.size):
                    row[k] += abs(x - column[k])
