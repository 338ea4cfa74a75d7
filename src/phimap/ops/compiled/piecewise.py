"""Piecewise linear functions of columns."""

from __future__ import annotations

from phimap.ops.compiled.jit import compiled


@compiled
def piecewise_linear(X, knots, inverses, levels, out):
    """Write to ``out[i, j]`` the function of column j at ``X[i, j]``; see the primitive of this name."""
    k = knots.shape[1]
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            x = X[i, j]
            # The piece is the last one that begins at or below x.
            low, high = 0, k
            while low < high:
                middle = (low + high) // 2
                if knots[j, middle] <= x:
                    low = middle + 1
                else:
                    high = middle
            if low == 0:
                out[i, j] = levels[j, 0]
            else:
                share = min((x - knots[j, low - 1]) * inverses[j, low - 1], 1)
                out[i, j] = levels[j, low - 1] + share * (levels[j, low] - levels[j, low - 1])
