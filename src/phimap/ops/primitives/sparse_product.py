"""Products with sparse matrices that have a few entries in each row."""

from __future__ import annotations

from phimap.ops.base import Array, Ops
from phimap.ops.primitive import primitive


@primitive
def sparse_product(ops: Ops, X: Array, columns: Array, entries: Array) -> Array:
    """Return the product (r, s) of dense `X` (r, d) and the transpose of a sparse matrix (s, d).

    Row c of the matrix has entry ``entries[l, c]`` in column ``columns[l, c]``, for all l; entries with the same column
    add up. `columns` is intp (q, s), `entries` is (q, s), with q at least 1.
    """
    out = ops.columns(X, columns[0]) * entries[0]
    for place in range(1, columns.shape[0]):
        out += ops.columns(X, columns[place]) * entries[place]
    return out


@sparse_product.override("numpy")
def _(ops: Ops, X: Array, columns: Array, entries: Array) -> Array:
    from phimap.ops.compiled import sparse_product

    # The compiled loop does not check bounds; a damaged model file may contain any index.
    if columns.shape != entries.shape or columns.min() < 0 or columns.max() >= X.shape[1]:
        raise ValueError("`columns` must hold columns of `X`, one for each entry. Fit the map again.")
    out = ops.empty((X.shape[0], columns.shape[1]))
    # A block of directions is a non-contiguous slice, with which the compiled loop would be slower.
    sparse_product.sparse_product(X, ops.contiguous(columns), ops.contiguous(entries), out)
    return out
