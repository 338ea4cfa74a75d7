"""Complex numbers added at chosen frequencies of other spectra."""

from __future__ import annotations

import numba


@numba.njit(nogil=True, cache=True, error_model="numpy")
def add_at(Z, factors, places, out):
    """Set `out` to zeros plus ``Z[i, b, l] * factors[b, l]`` in column ``places[b, l]`` of row i, for all b and l.

    Z (n, B, h) and out (n, k) complex, factors (B, h) complex, places intp (B, h) below k.
    """
    n, n_blocks, half = Z.shape
    for i in range(n):
        row = out[i]
        row[:] = 0
        for b in range(n_blocks):
            for j in range(half):
                row[places[b, j]] += Z[i, b, j] * factors[b, j]
