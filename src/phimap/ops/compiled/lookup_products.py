"""Inner products of rows of bits, or of signs and zeros, by tables in registers that are looked up byte by byte.

A code of four bits holds four bits of a row, or two signs or zeros. For two rows of the first factor and one code's
place a table of 16 bytes has, for every code that a row of the second factor may have there, the two partial inner
products, one in each half of the byte. One instruction looks up the codes of 32 rows: 256 products of bits, or 128 of
signs and zeros. Partial products are from 0 to 4, those of signs and zeros being raised by 2: three fit a half byte,
the sums of `_PLACES` a byte, and those of `_BLOCKS` times as many 16 bits. Beyond them sums are float64, of integers
below 2^53. All of it is exact.

References
----------
Arlazarov, Dinic, Kronrod, Faradzev (1970), *On economical construction of the transitive closure of a directed graph*:
products by tables of all combinations of a few rows.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from phimap.ops.compiled.byte_vectors import (
    accumulate,
    add_bytes,
    copy_table,
    high_sums,
    load_table,
    look_up,
    low,
    shifted,
    zero_bytes,
)

# Words of a plane that are coded together, and the codes of them: 16 to a word. Sums are at most 4 * 48 = 192.
_WORDS = 3
_PLACES = 16 * _WORDS
# Sums of bytes that fit 16 bits.
_BLOCKS = (2**16 - 1) // (4 * _PLACES)
# Rows of the second factor whose codes lie side by side: four vectors.
_SIDE = 128
_BYTE = np.uint64(255)
_LOWER_PAIRS = np.uint64(0x3333333333333333)
_LOWER_HALVES = np.uint64(0x0F0F0F0F0F0F0F0F)


def _tables(are_signs: bool) -> np.ndarray:
    """256 tables of 16 bytes, flat, for the codes of two rows, the second being the upper half of the index."""
    code = np.arange(16)
    bits = (code[:, None] >> np.arange(4)) & 1
    values = bits[:, :2] * (1 - 2 * bits[:, 2:]) if are_signs else bits
    products = (values @ values.T + 2 * are_signs).astype(np.uint8)
    return (products[None, :, :] + 16 * products[:, None, :]).reshape(-1)


BIT_TABLES = _tables(False)
SIGN_TABLES = _tables(True)


@njit(nogil=True, forceinline=True)
def _coded(plane, negative, i, k, half, are_signs):
    """Sixteen codes: those of word k of row i, or the first or second half of them; 0 outside the array."""
    if i >= plane.shape[0] or k >= plane.shape[1]:
        return np.uint64(0)
    word = plane[i, k]
    if not are_signs:
        return word
    signs = negative[i, k]
    if half == 0:
        return (word & _LOWER_PAIRS) | ((signs & _LOWER_PAIRS) << np.uint64(2))
    return ((word >> np.uint64(2)) & _LOWER_PAIRS) | (signs & ~_LOWER_PAIRS)


@njit(nogil=True, forceinline=True)
def _write_codes(plane, negative, first, half, are_signs, words, codes):
    """Write the codes of all rows from word `first` on: a row's lie `_SIDE` bytes apart."""
    for side in range(0, plane.shape[0], _SIDE):
        for k in range(_WORDS):
            for r in range(_SIDE):
                words[r] = _coded(plane, negative, side + r, first + k, half, are_signs)
            for byte in range(8):
                left = side * _PLACES + (16 * k + 2 * byte) * _SIDE
                even, odd = codes[left : left + _SIDE], codes[left + _SIDE : left + 2 * _SIDE]
                shift = np.uint64(8 * byte)
                for r in range(_SIDE):
                    even[r] = words[r] >> shift
                for r in range(_SIDE):
                    odd[r] = even[r] >> 4
                for r in range(_SIDE):
                    even[r] &= 15


@njit(nogil=True, forceinline=True)
def _write_table(plane, negative, i, first, half, are_signs, tables, table):
    """Write the tables of rows i and i + 1 from word `first` on, in the order of the codes."""
    for k in range(_WORDS):
        one = _coded(plane, negative, i, first + k, half, are_signs)
        other = _coded(plane, negative, i + 1, first + k, half, are_signs)
        even = (one & _LOWER_HALVES) | ((other & _LOWER_HALVES) << np.uint64(4))
        odd = ((one >> np.uint64(4)) & _LOWER_HALVES) | (other & ~_LOWER_HALVES)
        for place in range(16 * k, 16 * k + 16, 2):
            copy_table(tables, 16 * np.intp(even & _BYTE), table, 16 * place)
            copy_table(tables, 16 * np.intp(odd & _BYTE), table, 16 * place + 16)
            even >>= np.uint64(8)
            odd >>= np.uint64(8)


@njit(nogil=True, forceinline=True)
def _three(a, b, c, codes, at):
    total = add_bytes(look_up(a, codes, at), look_up(b, codes, at + _SIDE))
    return add_bytes(total, look_up(c, codes, at + 2 * _SIDE))


@njit(nogil=True, forceinline=True)
def _add_products(table, codes, at, sums, one, other):
    """Add the products of two rows and `_SIDE` others to `sums` from `one` and from `other` on."""
    a = b = c = d = zero_bytes()
    e = f = g = h = zero_bytes()
    for place in range(0, _PLACES, 3):
        first, second, third = (
            load_table(table, 16 * place),
            load_table(table, 16 * place + 16),
            load_table(table, 16 * place + 32),
        )
        both = _three(first, second, third, codes, at)
        a, e = add_bytes(a, low(both)), add_bytes(e, shifted(both))
        both = _three(first, second, third, codes, at + 32)
        b, f = add_bytes(b, low(both)), add_bytes(f, shifted(both))
        both = _three(first, second, third, codes, at + 64)
        c, g = add_bytes(c, low(both)), add_bytes(g, shifted(both))
        both = _three(first, second, third, codes, at + 96)
        d, h = add_bytes(d, low(both)), add_bytes(h, shifted(both))
        at += 3 * _SIDE
    accumulate(sums, one, a)
    accumulate(sums, one + 32, b)
    accumulate(sums, one + 64, c)
    accumulate(sums, one + 96, d)
    accumulate(sums, other, high_sums(e, a))
    accumulate(sums, other + 32, high_sums(f, b))
    accumulate(sums, other + 64, high_sums(g, c))
    accumulate(sums, other + 96, high_sums(h, d))


@njit(nogil=True, cache=True, error_model="numpy")
def lookup_products(A, A_negative, B, B_negative, tables, are_signs, upper, out):
    """Set out float64 (a, b) to inner products of the rows of two arrays of bits, or of signs and zeros.

    A uint64 (a, w) and B (b, w) have the bits, or those of what is not zero, with the others having those of what is
    negative; C-contiguous. With `upper`, B is A and only the upper triangle of out is sure to be set. `tables` are
    `BIT_TABLES` or `SIGN_TABLES`.
    """
    n, width, halves = A.shape[0], A.shape[1], 2 if are_signs else 1
    n_columns = -(-B.shape[0] // _SIDE) * _SIDE
    words, table = np.empty(_SIDE, np.uint64), np.empty(16 * _PLACES, np.uint8)
    codes = np.empty(n_columns * _PLACES, np.uint8)
    sums = np.empty((n + n % 2) * n_columns, np.uint16)
    done = 0
    out[...] = 0.0
    while done < width:
        sums[:] = 0
        stop = min(width, done + _WORDS * (_BLOCKS // halves))
        # Products of signs and zeros are raised by 2 at each place, also at those beyond the last word.
        raised = -(-(stop - done) // _WORDS) * _PLACES * 4 if are_signs else 0
        for first in range(done, stop, _WORDS):
            for half in range(halves):
                _write_codes(B, B_negative, first, half, are_signs, words, codes)
                for i in range(0, n, 2):
                    _write_table(A, A_negative, i, first, half, are_signs, tables, table)
                    start = i // _SIDE * _SIDE if upper else 0
                    for side in range(start, n_columns, _SIDE):
                        left = i * n_columns + side
                        _add_products(table, codes, side * _PLACES, sums, left, left + n_columns)
        for i in range(n):
            totals, target = sums[i * n_columns : (i + 1) * n_columns], out[i]
            for j in range(B.shape[0]):
                target[j] += np.int32(totals[j]) - np.int32(raised)
        done = stop
