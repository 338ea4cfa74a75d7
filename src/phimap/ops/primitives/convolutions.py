"""Cyclic convolutions of rows with given generators."""

from __future__ import annotations

from phimap.ops.base import Array, Ops
from phimap.ops.primitive import primitive


@primitive
def convolution_transforms(ops: Ops, X: Array, factors: Array, length: int) -> Array:
    """Return the real Fourier transforms of the rows of `X` (r, d) times `factors` (d,), for `convolutions`.

    The products are padded with zeros to `length`, which is even and a product of powers of 2, 3 and 5. `X` is dense.
    The format of the result depends on the backend.
    """
    return ops.rfft(X * factors, length)


@primitive
def convolutions(ops: Ops, transformed: Array, rows: int, generators: Array, offset: int, scale: Array) -> Array:
    """Return scaled cyclic convolutions (`rows`, s) of rows with generators (B, length), side by side.

    `transformed` is the result of `convolution_transforms` for `rows` rows. Of each convolution only the entries from
    `offset` on are used. `scale` is (s,) with s <= B (length - offset).
    """
    n_generators, length = generators.shape
    values = ops.irfft(transformed[:, None, :] * ops.rfft(generators), length)[:, :, offset:]
    return values.reshape(rows, n_generators * (length - offset))[:, : scale.shape[0]] * scale


@convolution_transforms.override("numpy")
def _(ops: Ops, X: Array, factors: Array, length: int) -> Array:
    from phimap.ops.compiled.convolution import lane_transforms

    # The compiled loop does not check bounds.
    if not X.shape[1] == factors.shape[0] <= length:
        raise ValueError("`factors` must be one for each column, and no more than `length`. Fit the map again.")
    return lane_transforms(ops.contiguous(X), factors, length)


@convolutions.override("numpy")
def _(ops: Ops, transformed: Array, rows: int, generators: Array, offset: int, scale: Array) -> Array:
    from phimap.ops.compiled import convolution

    # The compiled loop does not check bounds.
    n_generators, length = generators.shape
    if not 0 <= offset < length or scale.shape[0] > n_generators * (length - offset):
        raise ValueError("`generators` must have an entry from `offset` on for each of `scale`. Fit the map again.")
    out = ops.empty((rows, scale.shape[0]))
    convolution.convolutions(transformed, generators, offset, scale, out)
    return out
