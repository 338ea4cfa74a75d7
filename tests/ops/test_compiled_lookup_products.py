"""Inner products by tables of sums: those of the numbers that the bits stand for."""

from __future__ import annotations

import numpy as np
import pytest

from phimap.ops import host
from phimap.ops.compiled.lookup_products import _FIELDS, _GROUPS, _LANES, _WORDS
from phimap.ops.primitives.bit_products import PRODUCT_ROWS, coded, write_products

# Words of a row beyond which sums no longer fit their fields.
LONG = _GROUPS * _WORDS


def draw(n, width, rng, are_signs):
    plane = rng.integers(0, 2**64, (n, width), dtype=np.uint64)
    return [plane, plane & rng.integers(0, 2**64, (n, width), dtype=np.uint64)] if are_signs else [plane]


def numbers(planes):
    bits = [np.unpackbits(plane.view(np.uint8), axis=1, bitorder="little").astype(float) for plane in planes]
    return bits[0] if len(bits) == 1 else bits[0] - 2 * bits[1]


def by_tables(left, right, first=0, affine=None, both=False):
    n, n_other = len(left[0]), len(right[0]) - first
    out, image = np.full((n, n_other), np.nan), np.full((n_other, n), np.nan) if both else None
    affine = affine or (1.0, np.zeros(n), np.zeros(n_other), 1.0)
    write_products(host(), left, coded(host(), right), first, affine, out, image)
    if both:
        np.testing.assert_array_equal(image, out.T)
    return out


@pytest.mark.parametrize("are_signs", [False, True])
@pytest.mark.parametrize(("n", "n_other", "width"), [(1, 1, 1), (2, 33, 2), (95, 17, 3), (96, 129, 4), (64, 257, 7)])
def test_tables_give_the_products_of_the_numbers(n, n_other, width, are_signs, rng):
    left, right = draw(n, width, rng, are_signs), draw(n_other, width, rng, are_signs)
    expected = numbers(left) @ numbers(right).T
    np.testing.assert_array_equal(by_tables(left, right), expected)
    np.testing.assert_array_equal(by_tables(left, right, first=n_other // 2, both=True), expected[:, n_other // 2 :])


@pytest.mark.parametrize("width", [1, _WORDS, LONG, LONG + 1])
def test_largest_sums_do_not_overflow(width):
    assert PRODUCT_ROWS == _FIELDS * _LANES
    full = np.full((PRODUCT_ROWS, width), 2**64 - 1, dtype=np.uint64)
    none, few = np.zeros_like(full), full[:2]
    np.testing.assert_array_equal(by_tables([full], [few]), 64 * width)
    np.testing.assert_array_equal(by_tables([full, none], [few, none[:2]]), 64 * width)
    np.testing.assert_array_equal(by_tables([full, full], [few, none[:2]]), -64 * width)


def test_codes_take_the_bytes_of_the_planes(rng):
    for are_signs in (False, True):
        planes = draw(10, 6, rng, are_signs)
        assert coded(host(), planes).nbytes == sum(plane.nbytes for plane in planes)
