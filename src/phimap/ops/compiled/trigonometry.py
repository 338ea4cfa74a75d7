"""Cosines and sines of a tile of projections, computed in one pass with explicit vector instructions.

Method. With q the integer nearest to 2x/pi, the remainder ``r = x - q pi/2`` satisfies |r| <= pi/4. Two polynomials
give ``cos r`` and ``sin r``; the last two bits of q determine which of them is ``cos x``, and its sign. There are no
branches, so each step acts on a whole vector of elements. The vectors are explicit because compiler versions differ in
which loops they vectorise.

Range reduction (Cody and Waite). pi/2 is split into three parts: pi/2 rounded to a multiple of 2^-a, the remainder
rounded to a multiple of 2^-b, and the rest in working precision. The products of q with the first two parts and the
subtractions of these products are exact; only the last subtraction rounds.

- float32, a = 10, b = 21: exact for |q| < 2^13; the parts sum to pi/2 within 5.4e-15.
- float64, a = 26, b = 53: exact for |q| < 2^26; the parts sum to pi/2 within 1.5e-33.

`limit` returns the largest |x| allowed, which keeps q within these bounds. For larger |x| the results are meaningless.

Polynomials, in z = r^2: ``sin r = r + r z S(z)`` and ``cos r = 1 - z/2 + z^2 C(z)``. S and C minimise the largest
absolute error over |r| <= pi/4 plus a margin (6e-4 in float32, 1e-7 in float64), since rounding may give a neighbouring
q. They come from a Remez exchange with 40 digits and weights r^3 and r^4; the coefficients were rounded to working
precision one at a time, lowest first, and the remaining coefficients fitted again. The errors of the rounded
polynomials for sine and cosine are 1.8e-9 and 1.1e-10 in float32, 1.6e-18 and 4.8e-20 in float64, so rounding errors
dominate: for `scale` = 1 the total error is below 1.5e-7 in float32 and below 3e-16 in float64.

References
----------
Cody and Waite, Software Manual for the Elementary Functions (1980), chapter 8.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from phimap.ops.compiled.jit import compiled, inlined
from phimap.ops.compiled.vectors import (
    CONTRACT,
    LONG_BYTES,
    Vector,
    add,
    lanes_of_long,
    larger,
    load_long,
    multiply,
    store,
)

_LIMITS = {np.dtype(np.float32): 2.0**13, np.dtype(np.float64): 2.0**26}

# `_PARTS` are three numbers whose sum is pi/2. `_SINE` and `_COSINE` are the coefficients of the polynomials S and C,
# lowest first.
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
    """Return the largest |x| for which the error bounds of `cos_sin` and `cos_shift` hold: 2^13 or 2^26."""
    return _LIMITS[np.dtype(dtype)]


def _both(_, vector):
    """Return the operation that maps x to cos x, sin x and ``|x|``, the last as an integer with the same bits."""
    dtype = np.dtype(vector.dtype.name)
    nmant = np.finfo(dtype).nmant
    bits = Vector(types.Integer.from_bitwidth(vector.dtype.bitwidth, signed=True), vector.n_bytes)

    def generate(context, builder, signature, arguments):
        (x,) = arguments
        reals, integers = context.get_value_type(vector), context.get_value_type(bits)

        def real(value):
            return ir.Constant(reals, [float(dtype.type(value))] * vector.lanes)

        def integer(value):
            return ir.Constant(integers, [value] * vector.lanes)

        def times_plus(a, b, c):
            return builder.fadd(builder.fmul(a, b, flags=CONTRACT), c, flags=CONTRACT)

        def polynomial(coefficients):
            value = real(coefficients[-1])
            for coefficient in coefficients[-2::-1]:
                value = times_plus(value, z, real(coefficient))
            return value

        # Adding 1.5 * 2^(mantissa bits) rounds to an integer, which the last bits hold in two's complement.
        shift = real(1.5 * 2.0**nmant)
        shifted = times_plus(x, real(2 / math.pi), shift)
        q = builder.fsub(shifted, shift)
        r = x
        for part in _PARTS[dtype]:
            r = times_plus(q, real(-float.fromhex(part)), r)
        z = builder.fmul(r, r)
        sine = times_plus(builder.fmul(r, z), polynomial(_SINE[dtype]), r)
        cosine = times_plus(z, real(-0.5), real(1))
        cosine = times_plus(builder.fmul(z, z), polynomial(_COSINE[dtype]), cosine)

        quarter = builder.bitcast(shifted, integers)
        is_odd = builder.icmp_signed("!=", builder.and_(quarter, integer(1)), integer(0))
        to_sign = integer(vector.dtype.bitwidth - 2)

        def with_sign(value, turn):
            sign = builder.shl(builder.and_(turn, integer(2)), to_sign)
            return builder.bitcast(builder.xor(builder.bitcast(value, integers), sign), reals)

        cos_x = with_sign(builder.select(is_odd, sine, cosine), builder.add(quarter, integer(1)))
        sin_x = with_sign(builder.select(is_odd, cosine, sine), quarter)
        magnitude = builder.and_(builder.bitcast(x, integers), integer(np.iinfo(f"i{dtype.itemsize}").max))
        return context.make_tuple(builder, signature.return_type, (cos_x, sin_x, magnitude))

    return types.Tuple((vector, vector, bits))(vector), generate


#: ``cosine_and_sine(vector)``: the cosines and sines of a vector, and the bits of its magnitudes.
cosine_and_sine: Any = intrinsic(_both)


@inlined
def _write_at(row, shift, scale, target, half, j, peaks):
    """Write a vector of cosines and, `half` columns further, a vector of sines; return the updated `peaks`."""
    x = load_long(row, j)
    if shift is not None:
        x = add(x, load_long(shift, j))
    c, s, bits = cosine_and_sine(x)
    factors = load_long(scale, j)
    store(target, j, multiply(factors, c))
    if half is not None:
        store(target, half + j, multiply(factors, s))
    return larger(peaks, bits)


@compiled
def _fill(projected, shift, scale, out, first, half, peak):
    """Write `scale` times the cosines of projected + shift, and the sines unless `half` is None; `shift` may be None.

    Updates `peak`, the bits of the largest magnitude in each lane.
    """
    n, k = projected.shape
    lanes = lanes_of_long(projected)
    peaks = load_long(peak, 0)
    for i in range(n):
        row, target = projected[i], out[i, first:]
        for j in range(0, k - lanes + 1, lanes):
            peaks = _write_at(row, shift, scale, target, half, j, peaks)
        if k % lanes:
            # The last vector overlaps the previous vector, and writes the same values there.
            peaks = _write_at(row, shift, scale, target, half, k - lanes, peaks)
    store(peak, 0, peaks)


@compiled
def cos_sin_slopes(features, slopes, out):
    """Write ``cos * slopes of sin - sin * slopes of cos`` (n, k) to `out`; cosines are the first k columns.

    features (n, 2 k), slopes (n, 2 k) and out (n, k) have one floating dtype and contiguous rows.
    """
    n, k = out.shape
    for i in range(n):
        cosine, sine, of_cosine, of_sine = features[i, :k], features[i, k:], slopes[i, :k], slopes[i, k:]
        row = out[i]
        for j in range(k):
            row[j] = cosine[j] * of_sine[j] - sine[j] * of_cosine[j]


def cos_sin(projected: np.ndarray, scale: np.ndarray, out: np.ndarray, first: int, half: int) -> float:
    """Write ``scale * cos(P)`` to columns of `out` from `first` and ``scale * sin(P)`` from ``first + half``.

    projected P (n, k), scale (k,) and out (n, m) have one floating dtype and contiguous rows. Returns the largest |P|,
    or NaN if P contains NaN. If the largest |P| is not at most `limit`, the results are meaningless.
    """
    return _write(projected, None, scale, out, first, half)


def cos_shift(projected: np.ndarray, shift: np.ndarray, scale: np.ndarray, out: np.ndarray, first: int) -> float:
    """Write ``scale * cos(P + shift)`` to columns of `out` from `first`.

    projected P (n, k), shift (k,), scale (k,) and out (n, m) have one floating dtype and contiguous rows. Returns the
    largest |P + shift|; see `cos_sin`.
    """
    return _write(projected, shift, scale, out, first, None)


def _write(
    projected: np.ndarray, shift: np.ndarray | None, scale: np.ndarray, out: np.ndarray, first: int, half: int | None
) -> float:
    """Implement `cos_sin` (`shift` is None) and `cos_shift` (`half` is None: no sines)."""
    n, k = projected.shape
    # Compiled code does not check bounds, so an index that is too large would overwrite other memory.
    last = first + (half or 0) + k
    if last > out.shape[1]:
        raise IndexError(f"columns up to {last} do not fit an output of {out.shape[1]} columns.")
    lanes = LONG_BYTES // projected.itemsize
    peak = np.zeros(lanes, f"i{projected.itemsize}")
    if k < lanes:
        # A tile narrower than a vector is padded to one vector in each row.
        results = np.empty((n, 2 * lanes), out.dtype)
        wide_shift = None if shift is None else _widened(shift, lanes)
        _fill(
            _widened(projected, lanes),
            wide_shift,
            _widened(scale, lanes),
            results,
            0,
            None if half is None else lanes,
            peak,
        )
        out[:, first : first + k] = results[:, :k]
        if half is not None:
            out[:, half + first : half + first + k] = results[:, lanes : lanes + k]
    else:
        _fill(projected, shift, scale, out, first, half, peak)
    return float(peak.max().view(projected.dtype))


def _widened(values: np.ndarray, width: int) -> np.ndarray:
    """Return `values` with its last axis padded with zeros to `width`."""
    return np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, width - values.shape[-1])])
