"""Fourier transforms of real rows and sampled products of them; one row for each lane of a vector at a time.

For every frequency, the entries of a group of rows are contiguous and form a vector, so reading random frequencies
needs no gather instructions. A row x of even length N is read as N / 2 complex numbers ``x[2 j] + i x[2 j + 1]``. If Z
is their transform, the N / 2 + 1 Fourier coefficients of the real row are

    X_k = E_k + w^k O_k,   E_k = (Z_k + conj(Z_{-k})) / 2,   O_k = (Z_k - conj(Z_{-k})) / 2i,   w = exp(-2 pi i / N).

A row of odd length is read as N complex numbers. A product gives a pair of features, its real and imaginary part. The
next transform reads the features as such pairs, so that they need not be written as rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import sparse

from phimap.ops.compiled.convolution import WinogradStages, forward, stages_of
from phimap.ops.compiled.fourier_steps import times
from phimap.ops.compiled.jit import compiled, inlined
from phimap.ops.compiled.vectors import BYTES, add, broadcast, lanes_of, load, multiply, store, subtract, transpose

# Number of features of each row that the buffer of `_write_product` holds. The buffer holds features of a group of
# rows, one row for each lane. It is transposed into the rows of the output each time it is full.
_TOGETHER = 256


@dataclass(frozen=True)
class LaneTransforms:
    """Fourier transforms of real rows of one length.

    Attributes
    ----------
    values : ndarray of shape (groups, 2 lanes (length // 2 + 1))
        For each frequency up to half the length, the real parts of a group of rows, then the imaginary parts. A
        single row is copied to every lane of its group.
    shape : tuple of int
        Number of rows and number of frequencies.
    """

    values: np.ndarray
    shape: tuple[int, int]


@dataclass(frozen=True)
class _RealTransform:
    """The plan for transforming real rows of one length.

    Attributes
    ----------
    stages : WinogradStages
        Stages of the complex transform.
    step : int
        Distance of consecutive entries of a row, in vectors: 1 if two entries form a complex number (even length), 2 if
        each entry is the real part of one (odd length).
    places : ndarray of intp
        Position at which the stages leave each frequency.
    turns : ndarray of shape (n, 2)
        Half the real and imaginary parts of ``w^k``; empty if rows have odd length.
    """

    stages: WinogradStages
    step: int
    places: np.ndarray
    turns: np.ndarray


@lru_cache(maxsize=16)
def _real_transform(length: int, dtype: np.dtype) -> _RealTransform:
    step = 1 + length % 2
    half = length * step // 2
    stages = stages_of(half, dtype)
    angles = -2 * math.pi / length * np.arange(half // 2 + 1 if step == 1 else 0)
    turns = 0.5 * np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    return _RealTransform(stages, step, np.argsort(stages.order), turns.astype(dtype))


def transforms(X: Any, signs: np.ndarray) -> LaneTransforms:
    """Transform the rows of `X` (r, d), dense or CSR, times ``signs[:d]``, padded with zeros to `length`.

    `signs` is int8 (length,), with `length` a product of powers of 2, 3 and 5. Time O(r length log(length)); scratch
    for one group of rows.
    """
    if X.shape[1] > signs.shape[0]:
        raise ValueError(f"`signs` must have {X.shape[1]} entries or more, got {signs.shape[0]}. Fit the map again.")
    made, chosen, factors = _prepared(X.shape[0], signs, X.dtype)
    arguments = factors, chosen.step, chosen.stages.radices, chosen.stages.twiddles, chosen.places, chosen.turns
    if sparse.issparse(X):
        _csr_transforms(X.data, X.indices, X.indptr, *arguments, made.values)
    else:
        _dense_transforms(np.ascontiguousarray(X), *arguments, made.values)
    return made


def product_transforms(
    A: LaneTransforms, columns_a: np.ndarray, orientations_a: np.ndarray,
    B: LaneTransforms, columns_b: np.ndarray, orientations_b: np.ndarray,
    scale: float, signs: np.ndarray,
) -> LaneTransforms:  # fmt: skip
    """Return the `transforms` of the features that `write_product` would write, without writing them."""
    _check_samples(columns_a, orientations_a, columns_b, orientations_b)
    if 2 * columns_a.shape[0] > signs.shape[0]:
        raise ValueError("`signs` must have an entry for each part of a product. Fit the map again.")
    made, chosen, factors = _prepared(max(A.shape[0], B.shape[0]), signs, A.values.dtype)
    inside = _product_transforms(
        A.values, columns_a, orientations_a, B.values, columns_b, orientations_b, A.values.dtype.type(scale),
        factors, chosen.step, chosen.stages.radices, chosen.stages.twiddles, chosen.places, chosen.turns, made.values,
    )  # fmt: skip
    _check_inside(inside)
    return made


def write_product(
    A: LaneTransforms, columns_a: np.ndarray, orientations_a: np.ndarray,
    B: LaneTransforms, columns_b: np.ndarray, orientations_b: np.ndarray,
    scale: float, out: np.ndarray, first: int,
) -> None:  # fmt: skip
    """Write ``scale * A[:, columns_a] * B[:, columns_b]`` with real and imaginary parts alternating.

    Entries with orientation -1 are conjugated first; A or B may have a single row. Columns are intp (k,), orientations
    int8 (k,), 1 or -1. Writes 2 k columns of `out` (r, m) from `first` on. Time O(r k).
    """
    _check_samples(columns_a, orientations_a, columns_b, orientations_b)
    if first + 2 * columns_a.shape[0] > out.shape[1]:
        raise ValueError("`out` must have a column for each part of a product. Fit the map again.")
    inside = _write_product(
        A.values, columns_a, orientations_a, B.values, columns_b, orientations_b, A.values.dtype.type(scale), out, first
    )
    _check_inside(inside)


def _check_samples(*arrays: np.ndarray) -> None:
    if len({array.shape for array in arrays}) > 1:
        raise ValueError("`rows` and `orientations` must belong together. Fit the map again.")


def _check_inside(inside: bool) -> None:
    # Compiled code checks the columns but cannot raise this error; a damaged model file may contain any index.
    if not inside:
        raise ValueError("`rows` must hold frequencies of the transforms. Fit the map again.")


def _prepared(n_rows: int, signs: np.ndarray, dtype: np.dtype) -> tuple[LaneTransforms, _RealTransform, np.ndarray]:
    """Return uninitialised transforms, the plan for computing them, and the signs in the floating dtype."""
    lanes = BYTES // dtype.itemsize
    n_frequencies = signs.shape[0] // 2 + 1
    values = np.empty((-(-n_rows // lanes), 2 * lanes * n_frequencies), dtype)
    return LaneTransforms(values, (n_rows, n_frequencies)), _real_transform(signs.shape[0], dtype), signs.astype(dtype)


@compiled
def _dense_transforms(X, factors, step, radices, twiddles, places, turns, transformed):
    """Compute the result of `transforms` for dense X in `transformed`."""
    n, d = X.shape
    lanes = lanes_of(X)
    flat = X.reshape(-1)
    values = np.empty(2 * lanes * places.shape[0], X.dtype)
    ones = load(np.ones(lanes, X.dtype), 0)
    for group in range(transformed.shape[0]):
        first = lanes * group
        n_rows = min(lanes, n - first)
        whole = d - d % lanes if n_rows == lanes and step == 1 else 0
        for j in range(0, whole, lanes):
            transpose(flat, first * d + j, d, load(factors, j), values, lanes * j, lanes, ones)
        values[lanes * whole :] = 0
        for lane in range(n_rows):
            for j in range(whole, d):
                values[lanes * step * j + lane] = factors[j] * X[first + lane, j]
        if n == 1:
            _fill(values)
        forward(values, radices, twiddles)
        _take_apart(values, places, turns, transformed[group])


@compiled
def _csr_transforms(data, indices, indptr, factors, step, radices, twiddles, places, turns, transformed):
    """Compute the result of `transforms` for a CSR matrix, whose column indices may be duplicate or unsorted."""
    n = indptr.shape[0] - 1
    lanes = lanes_of(data)
    values = np.empty(2 * lanes * places.shape[0], data.dtype)
    for group in range(transformed.shape[0]):
        first = lanes * group
        n_rows = min(lanes, n - first)
        values[:] = 0
        for lane in range(n_rows):
            for entry in range(indptr[first + lane], indptr[first + lane + 1]):
                j = indices[entry]
                values[lanes * step * j + lane] += factors[j] * data[entry]
        if n == 1:
            _fill(values)
        forward(values, radices, twiddles)
        _take_apart(values, places, turns, transformed[group])


@compiled
def _product_transforms(
    A, columns_a, orientations_a, B, columns_b, orientations_b, scale,
    factors, step, radices, twiddles, places, turns, transformed,
):  # fmt: skip
    """Compute the result of `product_transforms` in `transformed`; return False if a column is out of bounds."""
    lanes = lanes_of(transformed)
    k = columns_a.shape[0]
    values = np.empty(2 * lanes * places.shape[0], transformed.dtype)
    for group in range(transformed.shape[0]):
        a, b = A[min(group, A.shape[0] - 1)], B[min(group, B.shape[0] - 1)]
        if step == 1:
            values[2 * lanes * k :] = 0
        else:
            values[:] = 0
        for j in range(k):
            i, last = 2 * lanes * columns_a[j], 2 * lanes * columns_b[j]
            if not (0 <= i < a.shape[0] and 0 <= last < b.shape[0]):
                return False
            real, imag = _product(a, i, orientations_a[j], b, last, orientations_b[j], scale)
            i = 2 * lanes * step * j
            store(values, i, multiply(real, broadcast(factors[2 * j])))
            store(values, i + lanes * step, multiply(imag, broadcast(factors[2 * j + 1])))
        forward(values, radices, twiddles)
        _take_apart(values, places, turns, transformed[group])
    return True


@compiled
def _write_product(A, columns_a, orientations_a, B, columns_b, orientations_b, scale, out, first):
    """Compute the result of `write_product` in `out`; return False if a column is out of bounds."""
    n, m = out.shape
    lanes = lanes_of(out)
    k = columns_a.shape[0]
    flat = out.reshape(-1)
    values = np.empty(lanes * _TOGETHER, out.dtype)
    ones = load(np.ones(lanes, out.dtype), 0)
    for group in range((n + lanes - 1) // lanes):
        a, b = A[min(group, A.shape[0] - 1)], B[min(group, B.shape[0] - 1)]
        n_rows = min(lanes, n - lanes * group)
        for start in range(0, k, _TOGETHER // 2):
            stop = min(start + _TOGETHER // 2, k)
            for j in range(start, stop):
                i, last = 2 * lanes * columns_a[j], 2 * lanes * columns_b[j]
                if not (0 <= i < a.shape[0] and 0 <= last < b.shape[0]):
                    return False
                real, imag = _product(a, i, orientations_a[j], b, last, orientations_b[j], scale)
                i = 2 * lanes * (j - start)
                store(values, i, real)
                store(values, i + lanes, imag)
            width = 2 * (stop - start)
            whole = width - width % lanes if n_rows == lanes else 0
            place = lanes * group * m + first + 2 * start
            for c in range(0, whole, lanes):
                transpose(values, lanes * c, lanes, ones, flat, place + c, m, ones)
            for lane in range(n_rows):
                for c in range(whole, width):
                    flat[place + lane * m + c] = values[lanes * c + lane]
    return True


@inlined
def _product(a, i, orientation_a, b, j, orientation_b, scale):
    """Return the parts of ``scale * a_i * b_j``, where an entry with orientation -1 is conjugated first."""
    lanes = lanes_of(a)
    x, p = multiply(load(a, i), broadcast(scale)), multiply(load(a, i + lanes), broadcast(scale * orientation_a))
    y, q = load(b, j), multiply(load(b, j + lanes), broadcast(type(scale)(orientation_b)))
    return times(x, p, y, q)


@compiled
def _fill(values):
    """Copy the first row of a group to every lane."""
    for i in range(0, values.shape[0], lanes_of(values)):
        store(values, i, broadcast(values[i]))


@compiled
def _take_apart(values, places, turns, result):
    """Set `result` to the Fourier coefficients of real rows, from the complex transform in the order of the stages."""
    lanes = lanes_of(values)
    half = places.shape[0]
    if turns.shape[0] == 0:
        for k in range(half // 2 + 1):
            i, j = 2 * lanes * places[k], 2 * lanes * k
            store(result, j, load(values, i))
            store(result, j + lanes, load(values, i + lanes))
        return
    middle = broadcast(values.dtype.type(0.5))
    for k in range(half // 2 + 1):
        i, j = 2 * lanes * places[k], 2 * lanes * places[(half - k) % half]
        a, p, b, q = load(values, i), load(values, i + lanes), load(values, j), load(values, j + lanes)
        even, even_imag = multiply(middle, add(a, b)), multiply(middle, subtract(p, q))
        odd, odd_imag = times(add(p, q), subtract(b, a), broadcast(turns[k, 0]), broadcast(turns[k, 1]))
        i, j = 2 * lanes * k, 2 * lanes * (half - k)
        store(result, i, add(even, odd))
        store(result, i + lanes, add(even_imag, odd_imag))
        store(result, j, subtract(even, odd))
        store(result, j + lanes, subtract(odd_imag, even_imag))
