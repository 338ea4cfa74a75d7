"""Chains of random signs and Walsh-Hadamard transforms."""

from __future__ import annotations

from phimap.ops.base import Array, Ops
from phimap.ops.primitive import primitive


@primitive
def hadamard_blocks(ops: Ops, X: Array, signs: Array, scale: Array) -> Array:
    """Return the results (r, s) of blocks of signs and Walsh-Hadamard transforms for the rows of dense `X` (r, d).

    `signs` is int8 (B, t, p), `scale` is (s,) with s <= B p. Block b multiplies a row, padded with zeros to p, by
    ``H D_{b,0} ... H D_{b,t-1}`` (H unnormalised, ``D_{b,j} = diag(signs[b, j])``, the last factor applied first).
    The first s of the B p results, times `scale`, are returned.
    """
    n_blocks, n_factors, width = signs.shape
    rows = X.shape[0]
    Y = ops.pad_signed(X, signs[:, n_factors - 1])
    for factor in range(n_factors - 1, -1, -1):
        Y = ops.fwht(Y.reshape(rows * n_blocks, width)).reshape(rows, n_blocks, width)
        if factor:
            Y = Y * signs[:, factor - 1]
    return Y.reshape(rows, n_blocks * width)[:, : scale.shape[0]] * scale


@hadamard_blocks.override("numpy")
def _(ops: Ops, X: Array, signs: Array, scale: Array) -> Array:
    from phimap.ops.compiled import hadamard

    # The compiled loop does not check bounds.
    n_blocks, _, width = signs.shape
    if X.shape[1] > width or width & (width - 1) or scale.shape[0] > n_blocks * width:
        raise ValueError("`signs` must be of blocks that hold a row and all results. Fit the map again.")
    out = ops.empty((X.shape[0], scale.shape[0]))
    hadamard.hadamard_blocks(X, signs, scale, out)
    return out
