"""Cyclic convolutions of rows with given generators, by Fourier transforms of several rows at once.

A group of rows, one for each lane of a vector, is transformed together, so that every step acts on whole vectors. The
length may be any even product of powers of 2, 3 and 5. A row x of N real numbers is read as N / 2 complex numbers
``x[2 j] + i x[2 j + 1]``. If Z is their transform, the transform of a convolution is ``A_k Z_k + B_k conj(Z_{-k})``,
where A and B depend only on the generator. The transform of the real row is therefore not needed.

A forward stage splits a sequence of n numbers into R sequences of m = n / R (decimation in frequency). The inverse
undoes the stages in reverse order. Frequencies are not sorted: A and B are stored in the order in which the forward
stages leave the frequencies.

References
----------
Gentleman, Sande (1966), *Fast Fourier transforms: for fun and profit*.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from phimap.ops.compiled.fourier_steps import forward_step, inverse_step, times
from phimap.ops.compiled.jit import compiled
from phimap.ops.compiled.vectors import (
    BYTES,
    add,
    broadcast,
    lanes_of,
    load,
    multiply,
    multiply_add,
    multiply_subtract,
    store,
    transpose,
)


@dataclass(frozen=True)
class WinogradStages:
    """The stages of the Fourier transforms of one length.

    Attributes
    ----------
    radices : ndarray of intp
        Radix R of each stage.
    twiddles : ndarray of floats
        For each stage and each of its m steps, the real and imaginary parts of the R - 1 twiddle factors.
    order : ndarray of intp, shape (length,)
        Frequencies in the order in which the forward stages leave them.
    opposite : ndarray of intp, shape (length,)
        For each position in `order`, the position of the negative frequency.
    """

    radices: np.ndarray
    twiddles: np.ndarray
    order: np.ndarray
    opposite: np.ndarray


@lru_cache(maxsize=16)
def stages_of(length: int, dtype: np.dtype) -> WinogradStages:
    """Plan the stages of complex transforms whose length is a product of powers of 2, 3 and 5."""
    radices, rest = [], length
    for radix in (4, 2, 3, 5):
        while rest % radix == 0:
            radices.append(radix)
            rest //= radix
    if rest != 1:
        raise ValueError(
            f"`generators` must have a length that is a product of 2, 3 and 5, got {2 * length}. Fit again."
        )
    parts, order, width, done = [np.empty(0)], np.zeros(1, np.intp), length, 1
    for radix in radices:
        steps = width // radix
        angles = -2 * math.pi / width * np.outer(np.arange(steps), np.arange(1, radix))
        parts.append(np.stack([np.cos(angles), np.sin(angles)], axis=-1).ravel())
        order = (order[:, None] + done * np.arange(radix)).ravel()
        width, done = steps, done * radix
    opposite = np.argsort(order)[-order % length]
    return WinogradStages(np.array(radices, np.intp), np.concatenate(parts).astype(dtype), order, opposite)


def lane_transforms(X: np.ndarray, factors: np.ndarray, length: int) -> np.ndarray:
    """Transform the rows of `X` (n, d) times `factors` (d,), padded with zeros to `length`, for `convolutions`.

    `length` is an even product of powers of 2, 3 and 5. Row g of the result (groups, lanes length) holds, for each
    frequency, the real parts of the g-th group of rows, then their imaginary parts.
    """
    # Compiled code does not check bounds; a damaged model file may contain any length.
    if length % 2 or X.shape[1] > length:
        raise ValueError(f"`generators` must have an even length of {X.shape[1]} or more, got {length}. Fit again.")
    lanes = BYTES // X.itemsize
    transformed = np.empty((-(-X.shape[0] // lanes), lanes * length), X.dtype)
    stages = stages_of(length // 2, X.dtype)
    _lane_transforms(X, factors, stages.radices, stages.twiddles, transformed)
    return transformed


def convolutions(
    transformed: np.ndarray, generators: np.ndarray, offset: int, scale: np.ndarray, out: np.ndarray
) -> None:
    """Set `out` (n, s) to `scale` (s,) times cyclic convolutions of n rows, generator by generator.

    `transformed` is the result of `lane_transforms` for the n rows; generators is (B, length). Of each convolution only
    the entries from `offset` on are used, s in total. Time O(n B length log(length)); scratch for one group of rows.
    """
    n_generators, length = generators.shape
    if not 0 <= offset < length or out.shape[1] > n_generators * (length - offset) or scale.shape != out.shape[1:]:
        raise ValueError("`offset`, `scale` and `generators` must belong together. Fit the map again.")
    half = length // 2
    stages = stages_of(half, out.dtype)
    even, odd = (np.fft.fft(generators[:, parity::2], axis=1)[:, stages.order] / half for parity in (0, 1))
    delay = np.exp(-2j * math.pi / half * stages.order)
    direct, opposite = even + 0.5j * (1 - delay) * odd, 0.5j * (1 + delay) * odd
    parts = np.stack([direct.real, direct.imag, opposite.real, opposite.imag], axis=-1).astype(out.dtype)
    _convolutions(transformed, parts, stages.opposite, offset, scale, stages.radices, stages.twiddles, out)


@compiled
def _lane_transforms(X, factors, radices, twiddles, transformed):
    """Compute the result of `lane_transforms` in `transformed`."""
    n, d = X.shape
    lanes = lanes_of(X)
    flat = X.reshape(-1)
    ones = load(np.ones(lanes, X.dtype), 0)
    for group in range(transformed.shape[0]):
        first = lanes * group
        values = transformed[group]
        n_rows = min(lanes, n - first)
        whole = d - d % lanes if n_rows == lanes else 0
        for j in range(0, whole, lanes):
            transpose(flat, first * d + j, d, load(factors, j), values, lanes * j, lanes, ones)
        values[lanes * whole :] = 0
        for lane in range(n_rows):
            for j in range(whole, d):
                values[lanes * j + lane] = factors[j] * X[first + lane, j]
        forward(values, radices, twiddles)


@compiled
def _convolutions(transformed, parts, opposite, offset, scale, radices, twiddles, out):
    """Compute the result of `convolutions` in `out`; parts (B, length / 2, 4) holds A and B of all generators."""
    n, s = out.shape
    n_generators, half, _ = parts.shape
    lanes = lanes_of(out)
    values, flat = np.empty(2 * lanes * half, out.dtype), out.reshape(-1)
    ones = load(np.ones(lanes, out.dtype), 0)
    step = 2 * half - offset
    for group in range(transformed.shape[0]):
        first = lanes * group
        n_rows = min(lanes, n - first)
        for g in range(n_generators):
            _multiply_transforms(transformed[group], parts[g], opposite, values)
            inverse(values, radices, twiddles)
            start = g * step
            width = min(step, s - start)
            whole = width - width % lanes if n_rows == lanes else 0
            for c in range(0, whole, lanes):
                factors = load(scale, start + c)
                transpose(values, lanes * (offset + c), lanes, ones, flat, first * s + start + c, s, factors)
            for lane in range(n_rows):
                for c in range(whole, width):
                    out[first + lane, start + c] = scale[start + c] * values[lanes * (offset + c) + lane]


@compiled
def _multiply_transforms(transformed, parts, opposite, values):
    """Set `values` to the transforms of a group's convolutions with the generator of `parts` (length / 2, 4)."""
    lanes = lanes_of(values)
    for k in range(parts.shape[0]):
        i, j = 2 * lanes * k, 2 * lanes * opposite[k]
        a, p = times(load(transformed, i), load(transformed, i + lanes), broadcast(parts[k, 0]), broadcast(parts[k, 1]))
        b, q = load(transformed, j), load(transformed, j + lanes)
        real, imag = broadcast(parts[k, 2]), broadcast(parts[k, 3])
        store(values, i, add(a, multiply_add(b, real, multiply(q, imag))))
        store(values, i + lanes, add(p, multiply_subtract(b, imag, multiply(q, real))))


@compiled
def forward(x, radices, twiddles):
    """Transform the sequence of complex vectors x in place."""
    lanes = lanes_of(x)
    length = x.shape[0] // (2 * lanes)
    width, factors = length, 0
    for radix in radices:
        steps = width // radix
        if steps == 1:
            for start in range(0, length, width):
                forward_step(x, start, 1, radix, None, 0)
            return
        for start in range(0, length, width):
            for k in range(steps):
                forward_step(x, start + k, steps, radix, twiddles, factors + 2 * k * (radix - 1))
        factors += 2 * steps * (radix - 1)
        width = steps


@compiled
def inverse(x, radices, twiddles):
    """Apply the inverse of `forward` times the length.

    A forward transform of numbers with exchanged real and imaginary parts is an inverse transform, so the steps
    exchange the parts when they read and write.
    """
    lanes = lanes_of(x)
    length = x.shape[0] // (2 * lanes)
    steps, factors = 1, twiddles.shape[0]
    for radix in radices[::-1]:
        width = steps * radix
        factors -= 2 * steps * (radix - 1)
        if steps == 1:
            for start in range(0, length, width):
                inverse_step(x, start, 1, radix, None, 0)
        else:
            for start in range(0, length, width):
                for k in range(steps):
                    inverse_step(x, start + k, steps, radix, twiddles, factors + 2 * k * (radix - 1))
        steps = width
