"""Compiled cosines and sines against a longer precision, over the whole range that they promise."""

from __future__ import annotations

import numpy as np
import pytest

from phimap.ops import host
from phimap.ops.compiled.trigonometry import cos_shift, cos_sin, limit
from phimap.ops.primitives.cosines import cos_sin_slopes

# The error that the module states for unit scale. It leaves room for one rounding of the remainder, one of the
# result and two inside the polynomial: 2.5 eps(1) / 2 in float32.
ERRORS = {np.float32: 1.5e-7, np.float64: 3e-16}
LONGER = {np.float32: np.float64, np.float64: np.longdouble}
DTYPES = [
    np.float32,
    pytest.param(
        np.float64,
        marks=pytest.mark.skipif(
            np.finfo(np.longdouble).eps >= np.finfo(np.float64).eps, reason="no precision longer than float64 here"
        ),
    ),
]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def hard_arguments(dtype: type, rng: np.random.Generator) -> np.ndarray:
    """Arguments (n, 64) of both signs: every scale, neighbours of multiples of pi/4, zeros, tiny ones, the limit."""
    largest = limit(dtype)
    uniform = rng.uniform(0, largest, 4096)
    every_scale = 2.0 ** rng.uniform(-30, np.log2(largest), 4096)
    eighths = np.concatenate([np.arange(2048), rng.integers(int(largest), size=2048)]) * (np.pi / 4)
    eighths = eighths[eighths < largest].astype(dtype)
    neighbours = [np.nextafter(eighths, dtype(sign * np.inf)) for sign in (-1, 1)]
    information = np.finfo(dtype)
    special = np.array([0, information.tiny, information.smallest_subnormal, information.eps, largest], dtype)
    x = np.concatenate([uniform, every_scale, eighths, *neighbours, special]).astype(dtype)
    x = np.concatenate([x, -x])
    return np.resize(x, (-(-x.size // 64), 64))


@pytest.mark.parametrize("dtype", DTYPES)
def test_error_of_cosines_and_sines(dtype, rng):
    x = hard_arguments(dtype, rng)
    out = np.full((x.shape[0], 128), np.nan, dtype)
    peak = cos_sin(x, np.ones(64, dtype), out, 0, 64)
    assert peak == limit(dtype)
    longer = x.astype(LONGER[dtype])
    assert np.abs(out[:, :64] - np.cos(longer)).max() < ERRORS[dtype]
    assert np.abs(out[:, 64:] - np.sin(longer)).max() < ERRORS[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
def test_sines_keep_their_digits_near_zero(dtype, rng):
    x = rng.uniform(-1, 1, (8, 64)).astype(dtype) * dtype(2.0**-12)
    out = np.empty((8, 128), dtype)
    cos_sin(x, np.ones(64, dtype), out, 0, 64)
    # sin x is x to x^2 / 6, so the last addition alone rounds: half a unit, and one more for the polynomial.
    error = np.abs(out[:, 64:] - np.sin(x.astype(LONGER[dtype])))
    assert np.all(error <= np.finfo(dtype).eps * np.abs(x))


@pytest.mark.parametrize("dtype", DTYPES)
def test_error_of_shifted_cosines(dtype, rng):
    x = hard_arguments(dtype, rng)[:, :33].copy()
    x = np.clip(x, -limit(dtype) / 2, limit(dtype) / 2)
    shift = rng.uniform(0, 2 * np.pi, 33).astype(dtype)
    out = np.full((x.shape[0], 33), np.nan, dtype)
    peak = cos_shift(x, shift, np.ones(33, dtype), out, 0)
    # The sum is rounded to working precision before its cosine is taken.
    shifted = x + shift
    assert peak == np.abs(shifted).max()
    assert np.abs(out - np.cos(shifted.astype(LONGER[dtype]))).max() < ERRORS[dtype]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scales_and_columns(dtype, rng):
    x = rng.standard_normal((5, 7)).astype(dtype)
    scale, shift = rng.uniform(0.5, 2, 7).astype(dtype), rng.uniform(0, 6, 7).astype(dtype)
    out = np.full((5, 30), 9, dtype)
    cos_sin(x, scale, out, 2, 11)
    wide = x.astype(np.float64)
    # The stated error of a cosine and one rounding of its product with the scale.
    bound = scale * (ERRORS[dtype] + np.finfo(dtype).eps)
    assert np.all(np.abs(out[:, 2:9] - scale * np.cos(wide)) <= bound)
    assert np.all(np.abs(out[:, 13:20] - scale * np.sin(wide)) <= bound)
    out[:, 2:9] = out[:, 13:20] = 9
    cos_shift(x, shift, scale, out, 23)
    assert np.all(np.abs(out[:, 23:] - scale * np.cos((x + shift).astype(np.float64))) <= bound)
    assert np.all(out[:, :23] == 9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, -np.nan, 3e38])
@pytest.mark.parametrize("column", [0, 17, 36])
def test_peak_reports_what_is_out_of_range(column, value, dtype):
    # 37 columns: the odd one lies in a vector, or in the remainder after the last vector.
    x = np.ones((3, 37), dtype)
    x[1, column] = value
    scale = np.ones(37, dtype)
    # Compiled code is silent; the same code without the compiler warns.
    with np.errstate(over="ignore", invalid="ignore"):
        peaks = [
            cos_sin(x, scale, np.empty((3, 74), dtype), 0, 37),
            cos_shift(x, np.zeros(37, dtype), scale, np.empty((3, 37), dtype), 0),
        ]
    np.testing.assert_array_equal(peaks, np.abs(dtype(value)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_give_the_same_bits_in_any_slice(dtype, rng):
    x = (100 * rng.standard_normal((40, 35))).astype(dtype)
    scale, shift = rng.uniform(0.5, 2, 35).astype(dtype), rng.uniform(0, 6, 35).astype(dtype)
    whole, shifted = np.empty((40, 70), dtype), np.empty((40, 35), dtype)
    cos_sin(x, scale, whole, 0, 35)
    cos_shift(x, shift, scale, shifted, 0)
    for rows in (slice(0, 1), slice(7, 30), slice(39, 40)):
        part = np.empty_like(whole[rows])
        cos_sin(x[rows], scale, part, 0, 35)
        np.testing.assert_array_equal(part, whole[rows])
        part = np.empty_like(shifted[rows])
        cos_shift(x[rows], shift, scale, part, 0)
        np.testing.assert_array_equal(part, shifted[rows])


def test_empty_tiles():
    assert cos_sin(np.empty((0, 3)), np.ones(3), np.empty((0, 6)), 0, 3) == 0
    assert cos_shift(np.empty((2, 0)), np.empty(0), np.empty(0), np.empty((2, 4)), 0) == 0


def test_slopes_of_another_shape_are_refused():
    """Compiled code does not check bounds."""
    features, out = np.zeros((3, 8), np.float32), np.zeros((3, 4), np.float32)
    for wrong in (features[:2], features[:, :6]):
        with pytest.raises(ValueError, match=r"must have shape \(3, 8\)"):
            cos_sin_slopes(host(np.float32), features, wrong, out)
