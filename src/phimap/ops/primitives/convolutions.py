"""Cyclic convolutions of rows with given generators."""

from __future__ import annotations

from phimap.ops.base import Array, Ops
from phimap.ops.primitive import primitive


@primitive
def convolution_transforms(ops: Ops, X: Array, factors: Array, length: int) -> Array:
    """Transform the rows of `X` (r, d) times `factors` (d,), padded with zeros to `length`, for `convolutions`.

    `X` is dense, `length` an even product of 2, 3 and 5. The result is the backend's own.
    """
    return ops.rfft(X * factors, length)


@primitive
def convolutions(ops: Ops, transformed: Array, rows: int, generators: Array, offset: int, scale: Array) -> Array:
    """Convolve rows cyclically with generators (B, length), side by side and scaled: (`rows`, s).

    `transformed` is what `convolution_transforms` made of as many rows; of each convolution the entries from `offset`
    on are used, `scale` is (s,) with s <= B (length - offset).
    """
    n_generators, length = generators.shape
    values = ops.irfft(transformed[:, None, :] * ops.rfft(generators), length)[:, :, offset:]
    return values.reshape(rows, n_generators * (length - offset))[:, : scale.shape[0]] * scale


@convolution_transforms.override("numpy")
def _(ops: Ops, X: Array, factors: Array, length: int) -> Array:
    from phimap.ops.compiled.convolution import lane_transforms

    return lane_transforms(ops.contiguous(X), factors, length)


@convolutions.override("numpy")
def _(ops: Ops, transformed: Array, rows: int, generators: Array, offset: int, scale: Array) -> Array:
    from phimap.ops.compiled import convolution

    out = ops.empty((rows, scale.shape[0]))
    convolution.convolutions(transformed, generators, offset, scale, out)
    return out
