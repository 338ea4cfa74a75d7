"""Compiled kernels against dense matrices and plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.linalg import hadamard

from phimap.ops.compiled.activation import rectify
from phimap.ops.compiled.countsketch import countsketch_csr, countsketch_dense
from phimap.ops.compiled.hadamard import fwht, hadamard_blocks

DTYPES = [np.float32, np.float64]
# Within vectors, within tiles of 32 or 64 numbers, and beyond, with every remainder of three stages.
WIDTHS = [1, 2, 4, 8, 32, 64, 128, 256, 512, 2048, 4096]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def draw_signs(rng: np.random.Generator, shape: tuple[int, ...], dtype: type) -> np.ndarray:
    return (2 * rng.integers(2, size=shape) - 1).astype(dtype)


def dense_blocks(signs: np.ndarray) -> np.ndarray:
    """The matrix (B p, p) of the blocks, in exact integers of float64."""
    H = hadamard(signs.shape[2]).astype(np.float64)
    blocks = []
    for factors in signs:
        block = np.eye(signs.shape[2])
        for diagonal in factors[::-1]:
            block = H @ (diagonal[:, None] * block)
        blocks.append(block)
    return np.vstack(blocks)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", WIDTHS)
def test_fwht_is_the_dense_matrix(width, dtype, rng):
    X = rng.standard_normal((37, width)).astype(dtype)
    expected = X.astype(np.float64) @ hadamard(width)
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    fwht(X)
    # Each of log2(width) stages adds one rounding of a value below sqrt(width) times the norm of the row.
    bound = np.finfo(dtype).eps * np.log2(2 * width) * np.sqrt(width) * norms
    assert np.all(np.abs(X - expected) <= bound)


@pytest.mark.parametrize("width", WIDTHS)
def test_fwht_of_integers_is_exact_and_its_own_inverse(width, rng):
    X = rng.integers(-8, 9, size=(5, width)).astype(np.float32)
    Z = X.copy()
    fwht(Z)
    np.testing.assert_array_equal(Z, X @ hadamard(width).astype(np.float32))
    fwht(Z)
    np.testing.assert_array_equal(Z, width * X)


@pytest.mark.parametrize("width", [8, 64, 512])
@pytest.mark.parametrize("rows", [slice(0, 1), slice(3, 36), slice(35, 71)])
def test_rows_give_the_same_bits_in_any_slice(width, rows, rng):
    X = rng.standard_normal((71, width)).astype(np.float32)
    signs = draw_signs(rng, (2, 3, width), np.int8)
    scale = rng.standard_normal(2 * width).astype(np.float32)
    whole, part = np.empty((71, 2 * width), np.float32), np.empty((71, 2 * width), np.float32)[rows]
    hadamard_blocks(X, signs, scale, whole)
    hadamard_blocks(X[rows], signs, scale, part)
    np.testing.assert_array_equal(part, whole[rows])
    Z = X.copy()
    fwht(Z)
    part = X[rows].copy()
    fwht(part)
    np.testing.assert_array_equal(part, Z[rows])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("d", "n_blocks", "factors", "s"),
    [(1, 1, 1, 1), (1, 5, 3, 5), (5, 3, 3, 19), (64, 2, 2, 128), (100, 1, 1, 7), (300, 3, 3, 1100), (1024, 2, 2, 1025)],
)
def test_hadamard_blocks_are_the_dense_matrix(d, n_blocks, factors, s, dtype, rng):
    width = 1 << (d - 1).bit_length()
    X = rng.standard_normal((37, d)).astype(dtype)
    signs = draw_signs(rng, (n_blocks, factors, width), np.int8)
    scale = rng.uniform(0.5, 2.0, s).astype(dtype)
    out = np.full((37, s), np.nan, dtype)
    hadamard_blocks(X, signs, scale, out)
    expected = scale * (X.astype(np.float64) @ dense_blocks(signs)[:s, :d].T)
    # As for one transform, over all stages, and one rounding for the scale.
    stages = factors * np.log2(2 * width) + 1
    norms = width ** (factors / 2) * np.linalg.norm(X, axis=1, keepdims=True)
    assert np.all(np.abs(out - expected) <= np.finfo(dtype).eps * stages * norms * scale)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [1, 50])
@pytest.mark.parametrize("copies", [1, 3])
def test_countsketch_is_the_dense_matrix(copies, d, dtype, rng):
    width = 16
    X = rng.standard_normal((9, d)) * (rng.random((9, d)) < 0.4)
    X = X.astype(dtype)
    buckets = rng.integers(width, size=(d, copies), dtype=np.intp)
    signs = draw_signs(rng, (d, copies), dtype)
    matrix = np.zeros((d, width))
    np.add.at(matrix, (np.arange(d)[:, None], buckets), signs)
    dense, csr = np.full((9, width), np.nan, dtype), np.full((9, width), np.nan, dtype)
    countsketch_dense(X, buckets, signs, dense)
    compressed = sparse.csr_array(X)
    countsketch_csr(compressed.data, compressed.indices, compressed.indptr, buckets, signs, csr)
    # A bucket sums at most d * copies terms.
    bound = np.finfo(dtype).eps * d * copies * (np.abs(X).astype(np.float64) @ np.abs(matrix) + np.abs(X).max())
    assert np.all(np.abs(dense - X.astype(np.float64) @ matrix) <= bound)
    # Adding the zeros changes no sum.
    np.testing.assert_array_equal(csr, dense)


def test_countsketch_adds_duplicates_and_accepts_wide_indices():
    data, indices, indptr = np.array([1.0, 2.0, 4.0]), np.array([1, 0, 1]), np.array([0, 0, 3])
    out = np.empty((2, 3))
    countsketch_csr(data, indices, indptr, np.array([[2], [0]]), np.array([[1.0], [-1.0]]), out)
    np.testing.assert_array_equal(out, [[0, 0, 0], [-5, 0, 2]])
    for bucket in (-1, 3):
        assert not countsketch_csr(data, indices, indptr, np.array([[2], [bucket]]), np.array([[1.0], [-1.0]]), out)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", [0, 1, 2])
def test_rectify_fills_its_columns_only(order, dtype, rng):
    projected = rng.standard_normal((6, 35)).astype(dtype)
    projected[0, :4] = [0.0, -0.0, np.inf, -np.inf]
    scale = rng.uniform(0.5, 2.0, 35).astype(dtype)
    out = np.full((6, 50), 7, dtype)
    rectify(projected, order, scale, out, 3)
    positive = np.maximum(projected, 0)
    expected = (scale * (projected > 0), scale * positive, scale * positive * positive)[order]
    np.testing.assert_array_equal(out[:, 3:38], expected)
    assert np.all(out[:, :3] == 7)
    assert np.all(out[:, 38:] == 7)
