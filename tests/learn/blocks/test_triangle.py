"""Packed symmetric matrices, against dense ones."""

from __future__ import annotations

import numpy as np
import pytest

from phimap.learn.blocks.triangle import BlockTriangle

EPS = np.finfo(np.float64).eps
# Orders below, at and above a multiple of the block, and a single row.
SIZES = [(1, 8), (7, 8), (24, 8), (45, 8)]


def symmetric(size: int, rng: np.random.Generator) -> np.ndarray:
    A = rng.standard_normal((size, size))
    return A + A.T


@pytest.mark.parametrize(("size", "block"), SIZES)
def test_packed_matrix_is_the_dense_one(size, block, rng):
    A, v, B = symmetric(size, rng), rng.standard_normal(size), rng.standard_normal((size, 3))
    packed = BlockTriangle.from_dense(A, block)
    lowered = BlockTriangle(size, packed.data, block, downdate=v)
    rows, columns = rng.integers(size, size=(2, 9))
    A = (A + A.T) / 2
    np.testing.assert_array_max_ulp(packed.to_dense(), A, maxulp=2)
    np.testing.assert_array_equal(packed.entries(rows, columns), packed.to_dense()[np.ix_(rows, columns)])
    atol = 8 * EPS * size * (np.linalg.norm(A, 2) + v @ v) * np.linalg.norm(B, 2)
    np.testing.assert_allclose(lowered.to_dense(), A - np.outer(v, v), rtol=0, atol=atol)
    np.testing.assert_allclose(lowered.diagonal(), np.diagonal(A) - v**2, rtol=0, atol=atol)
    np.testing.assert_allclose(lowered.matmul(B), (A - np.outer(v, v)) @ B, rtol=0, atol=atol)


@pytest.mark.parametrize(("size", "block"), SIZES)
@pytest.mark.parametrize("sign", [1, -1])
def test_products_of_rows_and_whole_matrices_are_added(size, block, sign, rng):
    A, Z = symmetric(size, rng), rng.standard_normal((11, size))
    packed = BlockTriangle.from_dense(A, block)
    packed.add_products(Z, sign, n_jobs=2)
    packed.add(A, sign)
    # Sums of 12 products and a number of A.
    atol = 16 * EPS * (np.square(Z).sum() + np.abs(A).max())
    np.testing.assert_allclose(packed.to_dense(), A + sign * (Z.T @ Z + A), rtol=0, atol=atol)


def test_wrong_shapes_are_errors():
    with pytest.raises(ValueError, match="`data` must be float64 of shape"):
        BlockTriangle(5, np.zeros(3))
    with pytest.raises(ValueError, match="`downdate` must have shape"):
        BlockTriangle(5, BlockTriangle.zeros(5).data, downdate=np.zeros(4))
