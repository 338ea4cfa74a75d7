"""Scatter and gather of coordinates: the operations of a sketch that BLAS does not provide."""

from __future__ import annotations

import numpy as np

from phimap.ops.compiled.jit import compiled

# Indices are cast to unsigned integers. Then numba omits the test for negative indices, which halves the time.


@compiled
def countsketch_dense(X, buckets, signs, out):
    """Set ``out[i, c]`` to the sum of ``signs[j, l] * X[i, j]`` over the (j, l) with ``buckets[j, l] = c``.

    X (n, d), signs (d, k) and out (n, m) have one floating dtype; buckets is intp (d, k) with entries below m.
    Time O(n (d k + m)).
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


@compiled
def countsketch_csr(data, indices, indptr, buckets, signs, out):
    """Compute `countsketch_dense` of a CSR matrix; duplicate and unsorted column indices are allowed.

    data (nnz,), signs (d, k) and out (n, m) have one floating dtype; indices (nnz,) and indptr (n + 1,) are int32 or
    int64; buckets is intp (d, k). Returns False if a bucket is not below m. Time O(nnz k + n m).
    """
    width = np.uintp(out.shape[1])
    k = np.uintp(buckets.shape[1])
    for i in range(out.shape[0]):
        row = out[i]
        row[:] = 0
        for entry in range(np.uintp(indptr[i]), np.uintp(indptr[i + 1])):
            j = np.uintp(indices[entry])
            x = data[entry]
            for copy in range(k):
                bucket = np.uintp(buckets[j, copy])
                if bucket >= width:
                    return False
                row[bucket] += signs[j, copy] * x
    return True


@compiled
def gather_product(A, columns_a, B, columns_b, scale, out, first):
    """Write ``scale * A[:, columns_a] * B[:, columns_b]`` to the columns of `out` from `first` on.

    A (n or 1, p), B (n or 1, q), out (n, m) and the scalar scale have one floating dtype; columns_a and columns_b are
    intp (k,), with ``first + k <= m``.
    """
    k = columns_a.shape[0]
    for i in range(out.shape[0]):
        a, b, row = A[min(i, A.shape[0] - 1)], B[min(i, B.shape[0] - 1)], out[i, first : first + k]
        for j in range(k):
            row[j] = (scale * a[np.uintp(columns_a[j])]) * b[np.uintp(columns_b[j])]
