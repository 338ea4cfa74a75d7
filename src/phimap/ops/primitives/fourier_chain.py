"""Products of entries of several Fourier transforms of the same row."""

from __future__ import annotations

import numpy as np

from phimap.ops.base import Array, Ops
from phimap.ops.primitive import primitive


@primitive
def signed_transforms(ops: Ops, X: Array, signs: Array) -> Array:
    """Return the Fourier transforms of dense `X` (r, d) times several sign patterns: complex (r, J, L // 2 + 1).

    `signs` is int8 (J, L). Transform j is the transform of ``X * signs[j, :d]``, padded with zeros to length L.
    """
    # Overflow causes no warning here, because the caller tests the features for overflow and reports it.
    with np.errstate(over="ignore", invalid="ignore"):
        return ops.rfft(ops.pad_signed(X, signs))


@primitive
def fourier_chain(
    ops: Ops, transformed: Array, rows: Array, orientations: Array, scale: float, out: Array, first: int
) -> None:
    """Write the real and imaginary parts of products of entries of the first j transforms of each row.

    The products are ``scale * prod_l transformed[:, l, rows[l]]`` (r, k) for complex `transformed` (r, J, p), `rows`
    intp (j, k) and `orientations` int8 (j, k). Entries with orientation -1 are conjugated first. The real parts are
    written to the k columns of `out` from `first` on, the imaginary parts to the next k columns.
    """
    product: Array = scale
    for factor in range(rows.shape[0]):
        product = product * ops.oriented(ops.columns(transformed[:, factor], rows[factor]), orientations[factor])
    k = rows.shape[1]
    out[:, first : first + k] = product.real
    out[:, first + k : first + 2 * k] = product.imag


@fourier_chain.override("numpy")
def _(ops: Ops, transformed: Array, rows: Array, orientations: Array, scale: float, out: Array, first: int) -> None:
    from phimap.ops.compiled import fourier_chain

    # The compiled loop does not check bounds; a damaged model file may contain any index.
    inside = rows.min(initial=0) >= 0 and rows.max(initial=0) < transformed.shape[2]
    if not inside or rows.shape[0] > transformed.shape[1] or rows.shape != orientations.shape:
        raise ValueError("`rows` must hold frequencies of the transforms. Fit the map again.")
    if first + 2 * rows.shape[1] > out.shape[1]:
        raise ValueError("`out` must have a column for each part of a product. Fit the map again.")
    fourier_chain.fourier_chain(transformed, rows, orientations, ops.dtype.type(scale), out, first)
