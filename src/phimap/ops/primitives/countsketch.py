"""CountSketch: add coordinates into buckets with signs."""

from __future__ import annotations

from phimap.ops.base import Array, Ops
from phimap.ops.primitive import primitive


@primitive
def countsketch(ops: Ops, X: Array, buckets: Array, signs: Array, width: int, out: Array, first: int = 0) -> None:
    """Add coordinates into `width` buckets: column ``buckets[j, l]`` gets ``signs[j, l] X[:, j]`` for all j and l.

    `X` (r, d) is dense or CSR, `buckets` is intp (d, k), `signs` is (d, k). The result is written to `out` from column
    `first` on.
    """
    X, columns = ops.dense(X), out[:, first : first + width]
    columns[...] = 0
    for copy in range(buckets.shape[1]):
        ops.add_columns(columns, buckets[:, copy], X * signs[:, copy])


@countsketch.override("numpy")
def _(ops: Ops, X: Array, buckets: Array, signs: Array, width: int, out: Array, first: int = 0) -> None:
    from phimap.ops.compiled.countsketch import countsketch_csr, countsketch_dense

    # The compiled loop does not check bounds; a damaged model file may contain any index.
    inside = buckets.shape == signs.shape and buckets.shape[0] == X.shape[1]
    columns = out[:, first : first + width]
    if inside and ops.is_sparse(X):
        # The CSR loop checks only the buckets that it uses, because there may be a million buckets and few entries.
        inside = countsketch_csr(X.data, X.indices, X.indptr, buckets, signs, columns)
    elif inside:
        inside = buckets.min() >= 0 and buckets.max() < width
        if inside:
            countsketch_dense(X, buckets, signs, columns)
    if not inside:
        raise ValueError("`buckets` must hold columns of the sketch, for each of `X`. Fit the map again.")
