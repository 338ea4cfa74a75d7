"""Rounding of features to codes of a few bits, to the nearest code or stochastically, by hashes of row and column."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from phimap.ops.base import Array, Ops
from phimap.ops.primitive import host_primitive


@host_primitive
def row_keys(ops: Ops, X: Array) -> np.ndarray:
    """Return a hash of the content of each row of `X` (r, d), dense, CSR or tensor: uint64 (r,).

    Equal rows have equal hashes, regardless of dtype, storage format and backend.
    """
    values = np.ascontiguousarray(ops.dense(X), dtype=np.float64)
    hashes = mixed(mixed(values.view(np.uint64)) + np.arange(values.shape[1], dtype=np.uint64))
    return mixed((hashes * (values != 0)).sum(axis=1, dtype=np.uint64))


@host_primitive
def pack_rounded(
    ops: Ops, Z: Array, keys: np.ndarray, dither: np.ndarray, peak: float, planes: np.ndarray, rows: int = 64
) -> None:
    """Round `Z` (r, m), of entries in [-peak, peak], stochastically to codes; set their bits in `planes` (q, r, w).

    The q-bit code c represents the value ``peak * (2 c / (2^q - 1) - 1)``. An entry is rounded to one of the two
    adjacent codes, with probabilities for which the expected value is the entry itself. The random number is a hash of
    the row's key in `keys`, uint64 (r,), and the column's key in `dither`, uint64 (m,). An override may process `rows`
    rows at a time.
    """
    last = 2 ** planes.shape[0] - 1
    chance = (mixed(keys[:, None] ^ dither) >> np.uint64(11)).astype(np.int64) * 2.0**-53
    _write_planes(_codes(Z, peak, last, chance), planes)


@host_primitive
def pack_nearest(ops: Ops, Z: Array, peak: float, planes: np.ndarray, rows: int = 64) -> None:
    """Round `Z` (r, m) to the codes with the nearest values, and set their bits in `planes` (q, r, w).

    Codes represent the same values as in `pack_rounded`. Entries outside [-peak, peak] get the first or last code. An
    override may process `rows` rows at a time.
    """
    _write_planes(_codes(Z, peak, 2 ** planes.shape[0] - 1, 0.5), planes)


def _codes(Z: Array, peak: float, last: int, chance: np.ndarray | float) -> np.ndarray:
    return np.floor((Z.astype(np.float64) + peak) * (0.5 * last / peak) + chance).clip(0, last).astype(np.uint8)


def _write_planes(codes: np.ndarray, planes: np.ndarray) -> None:
    bits = np.zeros((codes.shape[0], 64 * planes.shape[2]), np.uint8)
    for k in range(planes.shape[0]):
        bits[:, : codes.shape[1]] = codes >> k & 1
        planes[k] = np.packbits(bits, axis=1, bitorder="little").view("<u8")


@row_keys.override("numpy")
def _(ops: Ops, X: Array) -> np.ndarray:
    from phimap.ops.compiled.packed import hash_csr, hash_dense

    out = np.empty(X.shape[0], np.uint64)
    if ops.is_sparse(X):
        hash_csr(X.data.astype(np.float64), X.indices, X.indptr, out)
    else:
        hash_dense(np.ascontiguousarray(X, dtype=np.float64), out)
    return out


@pack_rounded.override("numpy")
def _(
    ops: Ops, Z: Array, keys: np.ndarray, dither: np.ndarray, peak: float, planes: np.ndarray, rows: int = 64
) -> None:
    from phimap.ops.compiled.packed import round_codes

    # The compiled loop does not check bounds.
    if dither.shape != Z.shape[1:] or keys.shape != Z.shape[:1]:
        raise ValueError("`dither` must be that of the features. Fit the map again.")
    last = 2 ** planes.shape[0] - 1
    _pack_parts(lambda part, codes: round_codes(Z[part], keys[part], dither, peak, last, codes), Z, planes, rows)


@pack_nearest.override("numpy")
def _(ops: Ops, Z: Array, peak: float, planes: np.ndarray, rows: int = 64) -> None:
    from phimap.ops.compiled.packed import nearest_codes

    last = 2 ** planes.shape[0] - 1
    _pack_parts(lambda part, codes: nearest_codes(Z[part], peak, last, codes), Z, planes, rows)


def _pack_parts(write: Callable[[slice, np.ndarray], None], Z: Array, planes: np.ndarray, rows: int) -> None:
    """Pack the codes that `write` computes for `rows` rows of `Z` at a time."""
    from phimap.ops.compiled.packed import pack_codes

    # The compiled loop does not check bounds.
    if planes.shape[1:] != (len(Z), -(-Z.shape[1] // 64)):
        raise ValueError("`planes` must be those of the features. Fit the map again.")
    codes = np.empty((min(rows, len(Z)), Z.shape[1]), np.uint8)
    for start in range(0, len(Z), rows):
        part = slice(start, start + rows)
        few = codes[: len(Z[part])]
        write(part, few)
        pack_codes(few, planes[:, part])


def mixed(state: np.ndarray) -> np.ndarray:
    """Return a hash of uint64 `state`: the output function of SplitMix64 (Steele, Lea and Flood 2014, Figure 13)."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))
