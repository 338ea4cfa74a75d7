"""Products with sparse matrices whose non-zero entries are 1 and -1."""

from __future__ import annotations

import numpy as np

from phimap.ops.base import Array, Ops
from phimap.ops.primitive import primitive


@primitive
def signed_sums(ops: Ops, X: Array, indices: Array, bounds: Array) -> Array:
    """Return signed sums (r, s) of columns of dense `X` (r, d).

    Result c is the sum of the columns ``indices[bounds[2 c]:bounds[2 c + 1]]`` minus the sum of the columns
    ``indices[bounds[2 c + 1]:bounds[2 c + 2]]``. `indices` is int32 (nnz,), `bounds` is intp (2 s + 1,).
    """
    d, s = X.shape[1], bounds.shape[0] // 2
    pieces = np.repeat(np.arange(2 * s), np.diff(ops.to_host(bounds)))
    matrix = ops.zeros((1, s * d))
    ops.add_columns(matrix, ops.constant(pieces // 2 * d) + indices, ops.constant(1.0 - 2 * (pieces % 2))[None])
    return ops.matmul(X, matrix.reshape(s, d).T)


@signed_sums.override("numpy")
def _(ops: Ops, X: Array, indices: Array, bounds: Array) -> Array:
    from phimap.ops.compiled import signed_sums

    # The compiled loop does not check bounds; a damaged model file may contain any index.
    inside = not indices.size or (indices.min() >= 0 and indices.max() < X.shape[1])
    if not inside or bounds[0] != 0 or bounds[-1] != indices.size or (np.diff(bounds) < 0).any():
        raise ValueError("`indices` and `bounds` must hold columns of `X`, piece by piece. Fit the map again.")
    out = ops.empty((X.shape[0], bounds.shape[0] // 2))
    signed_sums.signed_sums(X, indices, bounds, out)
    return out


@signed_sums.override("torch")
def _(ops: Ops, X: Array, indices: Array, bounds: Array) -> Array:
    # The dense product of the generic body would mostly multiply zeros.
    import torch

    pieces = torch.arange(bounds.shape[0] - 1, device=X.device).repeat_interleave(bounds[1:] - bounds[:-1])
    places = torch.stack([pieces // 2, indices.long()])
    shape = bounds.shape[0] // 2, X.shape[1]
    W = torch.sparse_coo_tensor(places, (1 - 2 * (pieces % 2)).to(X.dtype), shape, check_invariants=True)
    return (W @ X.T).T.contiguous()
