"""Scatter and gather of coordinates: the parts of a sketch that BLAS does not have."""

from __future__ import annotations

import numba
import numpy as np

# Indices are made unsigned, which spares numba the test for negative ones: the loops then take half as long.


@numba.njit(nogil=True, cache=True, error_model="numpy")
def countsketch_dense(X, buckets, signs, out):
    """Set ``out[i, c]`` to the sum of ``signs[j, l] * X[i, j]`` over the (j, l) with ``buckets[j, l] = c``.

    X (n, d), signs (d, k) and out (n, m) of one floating dtype; buckets intp (d, k) with entries below m.
    Overwrites `out`. O(n (d k + m)).
    """
    n, d = X.shape
    k = np.uintp(buckets.shape[1])
    for i in range(n):
        row = out[i]
        row[:] = 0
        for j in range(np.uintp(d)):
            x = X[i, j]
            for copy in range(k):
                row[np.uintp(buckets[j, copy])] += signs[j, copy] * x


@numba.njit(nogil=True, cache=True, error_model="numpy")
def countsketch_csr(data, indices, indptr, buckets, signs, out):
    """Do as `countsketch_dense` for the CSR matrix with these arrays, duplicates and any order allowed.

    data (nnz,), signs (d, k) and out (n, m) of one floating dtype; indices (nnz,) and indptr (n + 1,) int32 or
    int64; buckets intp (d, k) with entries below m. Overwrites `out`. O(nnz k + n m).
    """
    k = np.uintp(buckets.shape[1])
    for i in range(out.shape[0]):
        row = out[i]
        row[:] = 0
        for entry in range(np.uintp(indptr[i]), np.uintp(indptr[i + 1])):
            j = np.uintp(indices[entry])
            x = data[entry]
            for copy in range(k):
                row[np.uintp(buckets[j, copy])] += signs[j, copy] * x


@numba.njit(nogil=True, cache=True, error_model="numpy")
def gather_product(A, columns_a, B, columns_b, scale, out, first):
    """Write ``scale * A[:, columns_a] * B[:, columns_b]`` to the columns of `out` from `first`.

    A (n or 1, p), B (n or 1, q), out (n, m) and the scalar scale of one floating dtype; columns_a, columns_b intp (k,)
    with ``first + k <= m``.
    """
    k = columns_a.shape[0]
    for i in range(out.shape[0]):
        a, b, row = A[min(i, A.shape[0] - 1)], B[min(i, B.shape[0] - 1)], out[i, first : first + k]
        for j in range(k):
            row[j] = (scale * a[np.uintp(columns_a[j])]) * b[np.uintp(columns_b[j])]


@numba.njit(nogil=True, cache=True, error_model="numpy")
def fourier_product(A, columns_a, orientations_a, B, columns_b, orientations_b, scale, out, first):
    """Write the parts of ``scale * A[:, columns_a] * B[:, columns_b]``, each real part before its imaginary.

    Entries whose orientation is -1 are conjugated first. A (n or 1, p) and B (n or 1, q) complex; out (n, m) and the
    scalar scale of their real dtype; columns_a, columns_b intp (k,); orientations_a, orientations_b int8 (k,), 1 or -1.
    Overwrites 2 k columns of `out` from `first` on; ``first + 2 k <= m``.
    """
    k = columns_a.shape[0]
    for i in range(out.shape[0]):
        a, b, row = A[min(i, A.shape[0] - 1)], B[min(i, B.shape[0] - 1)], out[i, first : first + 2 * k]
        for j in range(k):
            x, y = a[np.uintp(columns_a[j])], b[np.uintp(columns_b[j])]
            x_real, x_imag = scale * x.real, scale * x.imag * orientations_a[j]
            y_imag = y.imag * orientations_b[j]
            row[2 * j] = x_real * y.real - x_imag * y_imag
            row[2 * j + 1] = x_real * y_imag + x_imag * y.real
