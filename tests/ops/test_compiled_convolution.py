"""Compiled convolutions against Fourier transforms in float64."""

from __future__ import annotations

import numpy as np
import pytest

from phimap.ops.compiled.convolution import convolutions, lane_transforms

# Every radix, first and last, alone and together; 2 has no stage at all.
LENGTHS = [2, 4, 6, 8, 10, 12, 30, 64, 90, 128, 200, 800]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def draw(rng, n, d, length, offset, dtype, cut=0):
    """Rows, factors of their columns, generators and scale."""
    s = 3 * (length - offset) - cut
    parts = [rng.standard_normal(shape) for shape in ((n, d), d, (3, length), s)]
    return [part.astype(dtype) for part in parts]


def convolve(X, factors, generators, offset, scale):
    out = np.full((X.shape[0], scale.shape[0]), np.nan, X.dtype)
    convolutions(lane_transforms(X, factors, generators.shape[1]), generators, offset, scale, out)
    return out


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(("rows", "share"), [(1, 1.0), (13, 0.6)])
def test_convolutions_are_those_of_fourier_transforms(rows, share, length, dtype, rng):
    offset = length // 3
    X, factors, generators, scale = draw(rng, rows, max(1, int(share * length)), length, offset, dtype, cut=1)
    padded = np.zeros((rows, length))
    padded[:, : X.shape[1]] = X.astype(float) * factors
    products = np.fft.rfft(padded)[:, None] * np.fft.rfft(generators.astype(float))
    expected = np.fft.irfft(products, n=length)[:, :, offset:].reshape(rows, -1)[:, : scale.shape[0]] * scale
    # An entry rounds by a few eps a stage of the two transforms, of the norms of row and generator.
    norms = np.linalg.norm(padded, axis=1)[:, None] * np.linalg.norm(generators, axis=1).max() * np.abs(scale)
    bound = 8 * np.finfo(dtype).eps * np.log2(2 * length) * norms
    assert np.all(np.abs(convolve(X, factors, generators, offset, scale) - expected) <= bound)


@pytest.mark.parametrize("rows", [slice(0, 1), slice(3, 19), slice(5, 21)])
def test_rows_give_the_same_bits_in_any_slice(rows, rng):
    X, factors, generators, scale = draw(rng, 21, 50, 60, 0, np.float32)
    # A row is not disturbed by the others, however large they are.
    large = X * np.where(np.arange(21) % 2, 1e20, 1).astype(np.float32)[:, None]
    for values in (X, large):
        whole = convolve(values, factors, generators, 0, scale)
        np.testing.assert_array_equal(convolve(values[rows], factors, generators, 0, scale), whole[rows])
    np.testing.assert_array_equal(whole[::2], convolve(X, factors, generators, 0, scale)[::2])


@pytest.mark.parametrize(
    ("length", "d", "match"), [(14, 5, "product of 2, 3 and 5, got 14"), (15, 5, "even"), (8, 9, "even length of 9")]
)
def test_lengths_that_do_not_serve_are_refused(length, d, match):
    with pytest.raises(ValueError, match=match):
        lane_transforms(np.ones((2, d)), np.ones(d), length)


@pytest.mark.parametrize(("offset", "s"), [(-1, 4), (8, 0), (2, 7)])
def test_parts_that_do_not_belong_together_are_refused(offset, s):
    transformed = lane_transforms(np.ones((2, 8)), np.ones(8), 8)
    with pytest.raises(ValueError, match="must belong together"):
        convolutions(transformed, np.ones((1, 8)), offset, np.ones(s), np.empty((2, s)))
