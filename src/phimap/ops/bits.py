"""Features that take a few values only: written dense where they are computed, packed and multiplied on the host."""

from __future__ import annotations

import numpy as np

from phimap.ops.base import Array, Ops


def write_ternary(
    ops: Ops, projected: Array, lower: Array | None, upper: Array, closed: bool, scale: float, out: Array, first: int
) -> None:
    """Write `scale` where `projected` (r, k) is above `upper` (k,), ``-scale`` where below `lower`, else 0.

    Into columns `first` on of `out`. Without `lower` nothing is below; `closed` counts a value equal to it as below.
    """
    columns = out[:, first : first + projected.shape[1]]
    columns[...] = projected > upper
    if lower is not None:
        columns -= 1.0 * (projected <= lower if closed else projected < lower)
    columns *= scale


def pack_ternary(
    ops: Ops, projected: Array, lower: Array, upper: Array, closed: bool, planes: np.ndarray, first: int
) -> None:
    """Set the bits of columns `first` on of `planes`, uint64 (q, r, w): see the compiled function of this name."""
    from phimap.ops.compiled import packed

    values, below, above = (ops.to_host(part) for part in (projected, lower, upper))
    packed.pack_ternary(values, below, above, closed, planes, first)


def pack_rounded(
    ops: Ops, Z: Array, keys: np.ndarray, dither: np.ndarray, peak: float, planes: np.ndarray, rows: int = 64
) -> None:
    """Round `Z` (r, m), of entries up to `peak`, to codes by chance and set their bits in `planes` (q, r, w).

    The q-bit code c stands for ``peak * (2 c / (2^q - 1) - 1)``; of the two nearest the upper one is taken with the
    probability that leaves the mean as it is. Chance is a hash of the row's key in `keys`, uint64 (r,), and of the
    column's in `dither`, uint64 (m,).
    """
    from phimap.ops.compiled.packed import pack_codes, round_codes

    host = ops.to_host(Z)
    codes = np.empty((min(rows, len(host)), host.shape[1]), np.uint8)
    for start in range(0, len(host), rows):
        part = slice(start, start + rows)
        few = codes[: len(host[part])]
        round_codes(host[part], keys[part], dither, peak, 2 ** planes.shape[0] - 1, few)
        pack_codes(few, planes[:, part])


def row_keys(ops: Ops, X: Array) -> np.ndarray:
    """A hash uint64 (r,) of the content of each row of `X` (r, d), dense, CSR or tensor.

    Equal for equal numbers, whatever the dtype that holds them, the storage or the backend.
    """
    from phimap.ops.compiled.packed import hash_csr, hash_dense

    out = np.empty(X.shape[0], np.uint64)
    if ops.is_sparse(X):
        hash_csr(X.data.astype(np.float64), X.indices, X.indptr, out)
    else:
        hash_dense(np.ascontiguousarray(ops.to_host(X), dtype=np.float64), out)
    return out


def write_products(left: list[np.ndarray], right: list[np.ndarray], upper: bool, out: np.ndarray) -> None:
    """Write the inner products of rows to `out`, float64 (a, b): exact, whatever the processor.

    `left` and `right` are planes uint64 (a, w) and (b, w): one each of bits, or two each of what is not zero and of
    what is negative. With `upper` they are the same, and only the upper triangle is sure to be written.
    """
    from phimap.ops.compiled.byte_vectors import HAS_LOOKUPS

    are_signs = len(left) == 2
    if HAS_LOOKUPS:
        from phimap.ops.compiled.lookup_products import BIT_TABLES, SIGN_TABLES, lookup_products

        tables = SIGN_TABLES if are_signs else BIT_TABLES
        lookup_products(left[0], left[-1], right[0], right[-1], tables, are_signs, upper, out)
        return
    from phimap.ops.compiled.packed import bit_products, sign_products

    if are_signs:
        sign_products(left[0], left[1], right[0], right[1], out)
    else:
        bit_products(left[0], right[0], out)
