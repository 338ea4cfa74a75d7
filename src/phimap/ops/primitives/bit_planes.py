"""Operations on numbers of a few bits in bit planes, 64 columns to a word, on the host: unpack, transpose, count."""

from __future__ import annotations

from typing import Any

import numpy as np

from phimap.ops.base import Ops
from phimap.ops.primitive import host_primitive


@host_primitive
def unpack(ops: Ops, planes: np.ndarray, weights: np.ndarray, offset: Any, first: int, out: np.ndarray) -> None:
    """Set `out` (r, k) to ``offset + sum_q weights[q] * bit_q`` for the k columns from `first`, a multiple of 64.

    `planes` is uint64 (q, r, w). `weights` (q,) and the number `offset` have the dtype of `out`.
    """
    out[...] = offset
    for plane, weight in zip(planes, weights, strict=True):
        out += weight * _bits(plane)[:, first : first + out.shape[1]]


@host_primitive
def transpose_bits(ops: Ops, plane: np.ndarray, out: np.ndarray) -> None:
    """Set `out` (64 w or fewer, ceil(n / 64)) to the transpose of the bits of `plane`, uint64 (n, w)."""
    bits = np.zeros((out.shape[0], 64 * out.shape[1]), np.uint8)
    bits[:, : plane.shape[0]] = _bits(plane)[:, : out.shape[0]].T
    out[...] = np.packbits(bits, axis=1, bitorder="little").view("<u8")


@host_primitive
def count_ones(ops: Ops, plane: np.ndarray) -> np.ndarray:
    """Return the number of ones in each row of `plane`, uint64 (r, w), as float64 (r,)."""
    return _bits(plane).sum(axis=1, dtype=np.float64)


@unpack.override("numpy")
def _(ops: Ops, planes: np.ndarray, weights: np.ndarray, offset: Any, first: int, out: np.ndarray) -> None:
    from phimap.ops.compiled import packed

    packed.unpack(planes, weights, offset, first, out)


@transpose_bits.override("numpy")
def _(ops: Ops, plane: np.ndarray, out: np.ndarray) -> None:
    from phimap.ops.compiled import packed

    packed.transpose(plane, out)


@count_ones.override("numpy")
def _(ops: Ops, plane: np.ndarray) -> np.ndarray:
    from phimap.ops.compiled import packed

    out = np.empty(plane.shape[0])
    packed.ones(plane, out)
    return out


def _bits(plane: np.ndarray) -> np.ndarray:
    """Return the bits of a plane, uint64 (r, w), as uint8 (r, 64 w)."""
    return np.unpackbits(np.ascontiguousarray(plane, "<u8").view(np.uint8), axis=1, bitorder="little")
