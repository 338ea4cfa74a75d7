"""Inner products by tables: those that counting bits gives."""

from __future__ import annotations

import numpy as np
import pytest

from phimap.ops.bits import write_products
from phimap.ops.compiled import byte_vectors
from phimap.ops.compiled.lookup_products import _BLOCKS, _WORDS, BIT_TABLES, SIGN_TABLES, lookup_products
from phimap.ops.compiled.packed import bit_products, finish, finish_both, sign_products

needs_lookups = pytest.mark.skipif(not byte_vectors.HAS_LOOKUPS, reason="needs a processor with AVX2")
# Words of a row beyond which sums of bits, and of signs, no longer fit 16 bits.
LONG = 1023


def draw(n, width, rng, are_signs):
    plane = rng.integers(0, 2**64, (n, width), dtype=np.uint64)
    return [plane, plane & rng.integers(0, 2**64, (n, width), dtype=np.uint64)] if are_signs else [plane]


def by_tables(left, right, upper=False):
    out = np.full((len(left[0]), len(right[0])), np.nan)
    are_signs = len(left) == 2
    tables = SIGN_TABLES if are_signs else BIT_TABLES
    lookup_products(left[0], left[-1], right[0], right[-1], tables, are_signs, upper, out)
    return out


def by_counting(left, right):
    out = np.full((len(left[0]), len(right[0])), np.nan)
    if len(left) == 2:
        sign_products(left[0], left[1], right[0], right[1], out)
    else:
        bit_products(left[0], right[0], out)
    return out


@needs_lookups
@pytest.mark.parametrize("are_signs", [False, True])
@pytest.mark.parametrize(
    ("n", "n_other", "width"), [(1, 1, 1), (2, 33, 2), (7, 128, 3), (5, 129, 4), (64, 257, 7), (3, 2, 2 * LONG + 5)]
)
def test_tables_give_what_counting_gives(n, n_other, width, are_signs, rng):
    left, right = draw(n, width, rng, are_signs), draw(n_other, width, rng, are_signs)
    np.testing.assert_array_equal(by_tables(left, right), by_counting(left, right))


@needs_lookups
@pytest.mark.parametrize("are_signs", [False, True])
def test_upper_triangle(are_signs, rng):
    planes = draw(261, 2, rng, are_signs)
    np.testing.assert_array_equal(np.triu(by_tables(planes, planes, upper=True)), np.triu(by_counting(planes, planes)))


@needs_lookups
@pytest.mark.parametrize("width", [1, 3, LONG, LONG + 1])
def test_largest_sums_do_not_overflow(width):
    assert _WORDS * _BLOCKS == LONG
    full, none = np.full((2, width), 2**64 - 1, dtype=np.uint64), np.zeros((2, width), np.uint64)
    np.testing.assert_array_equal(by_tables([full], [full]), 64 * width)
    np.testing.assert_array_equal(by_tables([full, none], [full, none]), 64 * width)
    np.testing.assert_array_equal(by_tables([full, full], [full, none]), -64 * width)


@needs_lookups
@pytest.mark.parametrize("are_signs", [False, True])
def test_processors_without_tables_count(are_signs, rng, monkeypatch):
    left, right = draw(9, 5, rng, are_signs), draw(40, 5, rng, are_signs)
    results = []
    for has_lookups in (True, False):
        monkeypatch.setattr(byte_vectors, "HAS_LOOKUPS", has_lookups)
        results.append(np.full((9, 40), np.nan))
        write_products(left, right, False, results[-1])
    np.testing.assert_array_equal(*results)


def test_counts_become_products_on_both_sides(rng):
    counts, left, above = rng.standard_normal((37, 50)), rng.standard_normal(37), rng.standard_normal(50)
    expected = (3.0 * counts + left[:, None] + above) * 0.5
    block, image = counts.copy(), np.empty((50, 37))
    finish_both(block, 3.0, left, above, 0.5, image, False)
    finish(counts, 3.0, left, above, 0.5)
    for found in (block, counts, image.T):
        np.testing.assert_allclose(found, expected, rtol=1e-15)


def test_the_upper_triangle_becomes_a_symmetric_matrix(rng):
    square, ones = rng.standard_normal((37, 37)), rng.standard_normal(37)
    expected = 2.0 * square + ones[:, None] + ones
    finish_both(square, 2.0, ones, ones, 1.0, square, True)
    np.testing.assert_allclose(square, np.triu(expected) + np.triu(expected, 1).T, rtol=1e-15)
