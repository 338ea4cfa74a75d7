"""Products of several Fourier transforms, sampled at independent frequencies."""

from __future__ import annotations

from phimap.ops.compiled.jit import compiled


@compiled
def fourier_chain(transformed, rows, orientations, scale, out, first):
    """Write the real parts of ``scale * prod_l transformed[:, l, rows[l]]``, then the imaginary parts.

    Entries with orientation -1 are conjugated first. transformed (n, J, p) is complex; rows is intp (j, k), with j at
    most J and entries below p; orientations is int8 (j, k), 1 or -1; out (n, m) and the scalar scale have the real
    dtype. Writes the 2 k columns of `out` from `first` on. Time O(n j k).
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
