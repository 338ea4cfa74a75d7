"""Products of many transforms, sampled at independent frequencies."""

from __future__ import annotations

from phimap.ops.compiled.jit import compiled


@compiled
def fourier_chain(transformed, rows, orientations, scale, out, first):
    """Write the parts of ``scale * prod_l transformed[:, l, rows[l]]``: the real ones, then the imaginary ones.

    Entries whose orientation is -1 are conjugated first. transformed (n, J, p) complex; rows intp (j, k) with j at most
    J and entries below p; orientations int8 (j, k), 1 or -1; out (n, m) and the scalar scale of the real dtype.
    Overwrites the 2 k columns of `out` from `first` on. O(n j k).
    """
    j, k = rows.shape
    for i in range(out.shape[0]):
        real, imag = out[i, first : first + k], out[i, first + k : first + 2 * k]
        real[:] = scale
        imag[:] = 0
        for factor in range(j):
            entries, row, orientation = transformed[i, factor], rows[factor], orientations[factor]
            for c in range(k):
                value = entries[row[c]]
                x, y = value.real, value.imag * orientation[c]
                a, b = real[c], imag[c]
                real[c] = a * x - b * y
                imag[c] = a * y + b * x
