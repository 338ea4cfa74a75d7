"""Pairs of Walsh-Hadamard transforms, with a permutation and a diagonal matrix of gains between them."""

from __future__ import annotations

from phimap.ops.base import Array, Ops
from phimap.ops.primitive import primitive


@primitive
def fastfood_blocks(ops: Ops, X: Array, signs: Array, permutations: Array, gains: Array, scale: Array) -> Array:
    """Return the results (r, s) of blocks of two Walsh-Hadamard transforms for the rows of dense `X` (r, d).

    `signs` (int8), `permutations` (intp) and `gains` are (B, p); `scale` is (s,) with s <= B p. Block b multiplies a
    row, padded with zeros to p, by ``H diag(gains[b]) P_b H diag(signs[b])``, where H is unnormalised and
    ``(P_b y)[j] = y[permutations[b, j]]``. The first s of the B p results, times `scale`, are returned.
    """
    rows, (n_blocks, width) = X.shape[0], signs.shape
    Y = ops.fwht(ops.pad_signed(X, signs).reshape(rows * n_blocks, width)).reshape(rows, n_blocks * width)
    places = permutations + width * ops.arange(n_blocks)[:, None]
    Y = ops.columns(Y, places.reshape(-1)) * gains.reshape(-1)
    Y = ops.fwht(ops.contiguous(Y.reshape(rows * n_blocks, width)))
    return Y.reshape(rows, n_blocks * width)[:, : scale.shape[0]] * scale


@fastfood_blocks.override("numpy")
def _(ops: Ops, X: Array, signs: Array, permutations: Array, gains: Array, scale: Array) -> Array:
    from phimap.ops.compiled import fastfood

    # The compiled loop does not check bounds; a damaged model file may contain any index.
    n_blocks, width = signs.shape
    if permutations.shape != signs.shape or gains.shape != signs.shape:
        raise ValueError("`signs`, `permutations` and `gains` must have one shape. Fit the map again.")
    if X.shape[1] > width or width & (width - 1) or scale.shape[0] > n_blocks * width:
        raise ValueError("`signs` must be of blocks that hold a row and all results. Fit the map again.")
    if permutations.min() < 0 or permutations.max() >= permutations.shape[1]:
        raise ValueError("`permutations` must hold columns of the padded rows. Fit the map again.")
    out = ops.empty((X.shape[0], scale.shape[0]))
    fastfood.fastfood_blocks(X, signs, permutations, gains, scale, out)
    return out
