"""Features that take a few values only: written dense where they are computed, packed and multiplied on the host."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from phimap.ops.base import Array, Ops

#: Rows of the first factor of inner products that are multiplied at a time.
PRODUCT_ROWS = 96


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

    values, below, above = (np.ascontiguousarray(ops.to_host(part)) for part in (projected, lower, upper))
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


def coded(planes: Sequence[np.ndarray]) -> np.ndarray:
    """The codes of rows as the second factor of `write_products`: no more bytes than the planes, but for padding.

    `planes` are uint64 (n, w): one of bits, or two of what is not zero and of what is negative.
    """
    from phimap.ops.compiled.lookup_products import n_groups, words_of_codes, write_codes

    are_signs = len(planes) == 2
    codes = np.empty((n_groups(planes[0].shape[1]), len(planes[0]), words_of_codes(are_signs)), np.uint64)
    write_codes(planes[0], planes[-1], are_signs, codes)
    return codes


def write_products(
    planes: Sequence[np.ndarray],
    codes: np.ndarray,
    first: int,
    affine: tuple[float, np.ndarray, np.ndarray, float],
    out: np.ndarray,
    image: np.ndarray | None = None,
) -> None:
    """Write to `out` (r, n) what `affine` makes of the inner products of rows with rows `first` on of coded ones.

    `planes` of at most `PRODUCT_ROWS` rows; `codes` of `coded`. With affine (w, left, right, s), left (r,) and right
    (n,), the inner product c, which is exact, becomes ``(w c + left + right) s``. `image` (n, r) is set to the
    transpose.
    """
    from phimap.ops.compiled.lookup_products import lookup_products, write_affine, write_both

    counts = np.empty((out.shape[1], PRODUCT_ROWS), np.int32)
    lookup_products(planes[0], planes[-1], codes, first, len(planes) == 2, counts)
    if image is None:
        write_affine(counts, *affine, out)
    else:
        write_both(counts, *affine, out, image)
