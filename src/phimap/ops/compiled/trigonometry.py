"""Cosines and sines of a tile of projections, in one pass that the compiler turns into vector instructions.

Method. With q the integer nearest to 2x/pi, the remainder ``r = x - q pi/2`` lies within pi/4. Two polynomials
give ``cos r`` and ``sin r``, and the last two bits of q say which of them, with which sign, is ``cos x``. Nothing
branches, so each step acts on a whole vector of elements.

Range reduction (Cody and Waite). pi/2 is cut into three parts: rounded to a multiple of 2^-a, the rest rounded to
a multiple of 2^-b, and what then remains in working precision. The first two products ``q * part`` and the
differences taken with them are exact; only the last subtraction rounds.

- float32, a = 10, b = 21: exact for |q| < 2^13; the parts meet pi/2 to 5.4e-15.
- float64, a = 26, b = 53: exact for |q| < 2^26; the parts meet pi/2 to 1.5e-33.

`limit` is the largest |x| allowed, within those bounds. Beyond it the results mean nothing.

Polynomials, in z = r^2: ``sin r = r + r z S(z)`` and ``cos r = 1 - z/2 + z^2 C(z)``. S and C minimise the largest
absolute error over |r| <= pi/4 plus the slack by which rounding may misjudge q (6e-4 in float32, 1e-7 in float64):
a Remez exchange with 40 digits and weights r^3 and r^4, the coefficients rounded to working precision one at a
time, lowest first, and the others fitted again. The rounded polynomials err by 1.8e-9 and 1.1e-10 in float32, by
1.6e-18 and 4.8e-20 in float64, so that rounding is the only error that counts: for `scale` = 1 it is below 1.5e-7
in float32 and below 3e-16 in float64.

References
----------
Cody and Waite, Software Manual for the Elementary Functions (1980), chapter 8.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba.extending import overload

_LIMITS = {np.dtype(np.float32): 2.0**13, np.dtype(np.float64): 2.0**26}

# The parts of pi/2, then S and C with the lowest coefficient first.
_PARTS = {
    np.dtype(np.float32): ("0x1.92p+0", "0x1.fb8p-12", "-0x1.5dde98p-23"),
    np.dtype(np.float64): ("0x1.921fb54p+0", "0x1.10b462p-30", "-0x1.cb3b399d747f2p-55"),
}
_SINE = {
    np.dtype(np.float32): (-0.16666650772094727, 0.008331982418894768, -0.00019495942979119718),
    np.dtype(np.float64): (
        -0.166666666666666,
        0.008333333333316218,
        -0.00019841269825742678,
        2.755731248233989e-06,
        -2.505059085975042e-08,
        1.588805750658451e-10,
    ),
}
_COSINE = {
    np.dtype(np.float32): (0.04166664555668831, -0.00138873013202101, 2.4430670237052254e-05),
    np.dtype(np.float64): (
        0.0416666666666666,
        -0.0013888888888874474,
        2.4801587289671547e-05,
        -2.755731440103726e-07,
        2.0875729282654404e-09,
        -1.1359934342332943e-11,
    ),
}


def limit(dtype: Any) -> float:
    """Return the largest the magnitude of x for which `cos_sin` and `cos_shift` hold their error: 2^13 or 2^26."""
    return _LIMITS[np.dtype(dtype)]


def _turns(dtype: np.dtype) -> Callable:
    """Return the function x -> (cos x, sin x, bits of the magnitude of x) for scalars of one precision."""
    real = dtype.type
    integer = np.int32 if dtype.itemsize == 4 else np.int64
    inverse = real(2 / math.pi)
    # Adding 1.5 * 2^(mantissa bits) leaves the nearest integer, in two's complement, in the last bits.
    shift = real(1.5 * 2.0 ** np.finfo(dtype).nmant)
    part_1, part_2, part_3 = (real(float.fromhex(part)) for part in _PARTS[dtype])
    half, one, zero = real(0.5), real(1), real(0)
    sine = tuple(real(c) for c in reversed(_SINE[dtype]))
    cosine = tuple(real(c) for c in reversed(_COSINE[dtype]))
    magnitude = integer(np.iinfo(integer).max)

    def turns(x):
        shifted = x * inverse + shift
        q = shifted - shift
        r = ((x - q * part_1) - q * part_2) - q * part_3
        z = r * r
        s = zero
        for coefficient in sine:
            s = s * z + coefficient
        c = zero
        for coefficient in cosine:
            c = c * z + coefficient
        s = r + (r * z) * s
        c = (one - half * z) + (z * z) * c
        quarter = real(shifted).view(integer)
        odd = (quarter & 1) != 0
        a, b = (s, c) if odd else (c, s)
        a = -a if ((quarter + 1) & 2) != 0 else a
        b = -b if (quarter & 2) != 0 else b
        return a, b, real(x).view(integer) & magnitude

    return turns


def _cos_sin_bits(x: Any) -> tuple[Any, Any, Any]:
    """Return cos x, sin x and the bits of |x| as an integer: ordered as |x|, with NaN the largest."""
    return _turns(np.dtype(type(x)))(x)


@overload(_cos_sin_bits, jit_options={"fastmath": {"contract"}})
def _compile_cos_sin_bits(x):
    return _turns(np.dtype(x.name))


@numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def _cos_sin(projected, scale, out, first, half):
    """Fill `out` as `cos_sin` says; return the bits of the largest |P|."""
    n, k = projected.shape
    peak = 0
    for i in range(n):
        row = projected[i]
        cosines = out[i, first : first + k]
        sines = out[i, half + first : half + first + k]
        for j in range(k):
            c, s, bits = _cos_sin_bits(row[j])
            cosines[j] = scale[j] * c
            sines[j] = scale[j] * s
            peak = max(peak, bits)
    return peak


@numba.njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract"})
def _cos_shift(projected, shift, scale, out, first):
    """Fill `out` as `cos_shift` says; return the bits of the largest |P + shift|."""
    n, k = projected.shape
    peak = 0
    for i in range(n):
        row = projected[i]
        cosines = out[i, first : first + k]
        for j in range(k):
            c, _, bits = _cos_sin_bits(row[j] + shift[j])
            cosines[j] = scale[j] * c
            peak = max(peak, bits)
    return peak


def cos_sin(projected: np.ndarray, scale: np.ndarray, out: np.ndarray, first: int, half: int) -> float:
    """Write ``scale * cos(P)`` to columns of `out` from `first` and ``scale * sin(P)`` from ``first + half``.

    projected (n, k), scale (k,) and out (n, m) of one floating dtype, rows contiguous. Overwrites `out`. Returns
    the largest |P|, infinity or NaN if there is one: where it exceeds `limit` the values mean nothing.
    """
    _check_room(out, first + half + projected.shape[1])
    return _magnitude(_cos_sin(projected, scale, out, first, half), projected.dtype)


def cos_shift(projected: np.ndarray, shift: np.ndarray, scale: np.ndarray, out: np.ndarray, first: int) -> float:
    """Write ``scale * cos(P + shift)`` to columns of `out` from `first`.

    projected (n, k), shift (k,), scale (k,) and out (n, m) of one floating dtype, rows contiguous. Overwrites
    `out`. Returns the largest |P + shift|, as `cos_sin`.
    """
    _check_room(out, first + projected.shape[1])
    return _magnitude(_cos_shift(projected, shift, scale, out, first), projected.dtype)


def _check_room(out: np.ndarray, last: int) -> None:
    """Compiled code checks no bounds: a column too far would write over other memory."""
    if last > out.shape[1]:
        raise IndexError(f"columns up to {last} do not fit an output of {out.shape[1]} columns.")


def _magnitude(bits: int, dtype: np.dtype) -> float:
    """The non-negative float whose bits these are."""
    return float(np.array(bits, dtype=f"i{dtype.itemsize}").view(dtype))
