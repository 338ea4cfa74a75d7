"""Products and factors in place, on blocks of larger arrays, against NumPy."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from phimap.ops import blas

SHAPES = [(1, 1, 1), (3, 5, 2), (8, 1, 7), (40, 33, 21)]
# Largest relative errors, by dtype.
CLOSE = {np.float32: 1e-3, np.float64: 1e-11}


def block(rng: np.random.Generator, *shape: int, dtype: type = np.float64) -> np.ndarray:
    """A block within a larger array, whose other entries are not numbers."""
    h, w = shape
    array = np.full((h + 2, w + 3), np.nan, dtype)
    array[1 : h + 1, 2 : w + 2] = rng.standard_normal(shape)
    return array[1 : h + 1, 2 : w + 2]


def outside(part: np.ndarray) -> np.ndarray:
    """Whether the larger array is as it was around the block."""
    whole = part.base.copy()
    whole[1 : part.shape[0] + 1, 2 : part.shape[1] + 2] = np.nan
    return np.isnan(whole).all()


@pytest.mark.parametrize(("k", "h", "w"), SHAPES)
def test_products_are_taken_from_a_block(k, h, w, rng):
    left, right, target = block(rng, k, h), block(rng, k, w), block(rng, h, w)
    expected = target - left.T @ right
    blas.subtract_products(target, left, right)
    np.testing.assert_allclose(target, expected, rtol=1e-13, atol=1e-13)
    assert outside(target)


@pytest.mark.parametrize(("k", "h", "w"), SHAPES)
def test_gram_matrix_is_taken_from_the_upper_triangle(k, h, w, rng):
    factor, target = block(rng, k, h), block(rng, h, h)
    before, expected = target.copy(), target - factor.T @ factor
    blas.subtract_gram(target, factor)
    np.testing.assert_allclose(np.triu(target), np.triu(expected), rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(np.tril(target, -1), np.tril(before, -1))
    assert outside(target)


@pytest.mark.parametrize("dtype", CLOSE)
@pytest.mark.parametrize(("k", "h", "w"), SHAPES)
def test_gram_matrix_and_product_with_a_triangle(k, h, w, dtype, rng):
    rows, upper = block(rng, h, k, dtype=dtype), block(rng, k, k, dtype=dtype)
    expected = rows @ np.triu(upper)
    found = blas.gram(rows)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, np.triu(rows.T @ rows), rtol=CLOSE[dtype], atol=CLOSE[dtype])
    blas.multiply_upper(rows, upper)
    np.testing.assert_allclose(rows, expected, rtol=CLOSE[dtype], atol=CLOSE[dtype])
    assert outside(rows)
    assert outside(upper)


@pytest.mark.parametrize("dtype", CLOSE)
@pytest.mark.parametrize(("k", "h", "w"), SHAPES)
def test_factor_its_inverse_and_its_solutions(k, h, w, dtype, rng):
    A, target, other = block(rng, k, k, dtype=dtype), block(rng, k, w, dtype=dtype), block(rng, k, w, dtype=dtype)
    A[...] = A @ A.T + k * np.eye(k, dtype=dtype)
    matrix, close = A.astype(np.float64), {"rtol": CLOSE[dtype], "atol": CLOSE[dtype]}
    lower, upper, right, of_other = np.tril(A, -1), np.linalg.cholesky(matrix).T, target.copy(), other.copy()
    assert blas.factorise(A)
    np.testing.assert_allclose(np.triu(A), upper, **close)
    solution = blas.solve_factored(A, right)
    assert solution.dtype == dtype
    np.testing.assert_allclose(solution, np.linalg.solve(matrix, right), **close)
    blas.solve_transposed(A, target)
    np.testing.assert_allclose(target, np.linalg.solve(upper.T, right), **close)
    blas.solve_upper(A, other)
    np.testing.assert_allclose(other, np.linalg.solve(upper, of_other), **close)
    blas.invert_upper(A)
    np.testing.assert_allclose(np.triu(A), np.linalg.inv(upper), **close)
    np.testing.assert_array_equal(np.tril(A, -1), lower)
    assert outside(A)
    assert outside(target)
    assert outside(other)


def test_single_rows_of_any_stride(rng):
    row, target = rng.standard_normal(5), rng.standard_normal((5, 5))
    expected = target - np.outer(row, row)
    blas.subtract_products(target, row[None], row[None])
    np.testing.assert_allclose(target, expected, rtol=1e-14)


@pytest.mark.parametrize("bad", [np.zeros((4, 4), np.float32), np.zeros((4, 8))[:, ::2], np.zeros((4, 4))[::-1]])
def test_arrays_that_the_library_cannot_read(bad):
    with pytest.raises(AssertionError):
        blas.subtract_gram(np.zeros((4, 4)), bad)


def test_pivot_that_is_not_positive(rng):
    assert not blas.factorise(np.diag([1.0, -1.0, 1.0]))


def test_other_threads_run_meanwhile(rng):
    """A thread that only counts must not wait for the product."""
    A = rng.standard_normal((1500, 1500))
    C, counted, done = np.zeros((1500, 1500)), [], threading.Event()

    def count():
        while not done.is_set():
            counted.append(time.perf_counter())
            time.sleep(0)

    watcher = threading.Thread(target=count)
    watcher.start()
    begin = time.perf_counter()
    blas.subtract_products(C, A, A)
    end = time.perf_counter()
    done.set()
    watcher.join()
    assert sum(begin + 0.1 * (end - begin) < moment < end - 0.1 * (end - begin) for moment in counted) > 0
