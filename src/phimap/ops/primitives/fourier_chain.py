"""Products of entries of several Fourier transforms of one row."""

from __future__ import annotations

import numpy as np

from phimap.ops.base import Array, Ops
from phimap.ops.primitive import primitive


@primitive
def signed_transforms(ops: Ops, X: Array, signs: Array) -> Array:
    """Fourier transforms of `X` (r, d) dense under several sign patterns: complex (r, J, L // 2 + 1).

    `signs` is int8 (J, L): pattern j transforms x times ``signs[j, :d]``, padded with zeros to L.
    """
    # An overflow is found in the features, and reported there.
    with np.errstate(over="ignore", invalid="ignore"):
        return ops.rfft(ops.pad_signed(X[:, None], signs))


@primitive
def fourier_chain(
    ops: Ops, transformed: Array, rows: Array, orientations: Array, scale: float, out: Array, first: int
) -> None:
    """Write products of entries of the first j transforms of each row, as real numbers.

    ``scale * prod_l transformed[:, l, rows[l]]`` (r, k) for `transformed` complex (r, J, p), `rows` intp and
    `orientations` int8 (j, k), which is -1 where the entry is conjugated first: the real parts to columns `first` to
    ``first + k``, the imaginary parts to the next k.
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

    # The compiled loop reads and writes where it is told to; a damaged model file may name any place.
    inside = rows.min(initial=0) >= 0 and rows.max(initial=0) < transformed.shape[2]
    if not inside or rows.shape[0] > transformed.shape[1] or rows.shape != orientations.shape:
        raise ValueError("`rows` must hold frequencies of the transforms. Fit the map again.")
    if first + 2 * rows.shape[1] > out.shape[1]:
        raise ValueError("`out` must have a column for each part of a product. Fit the map again.")
    fourier_chain.fourier_chain(transformed, rows, orientations, ops.dtype.type(scale), out, first)
