"""The blocked factorisation, against dense linear algebra."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg

from phimap.learn.blocks.triangle import BlockTriangle
from phimap.learn.ridge.cholesky import BlockedCholesky, NotPositiveDefiniteError
from tests.support.memory import traced

EPS = np.finfo(np.float64).eps
# Orders below, at and above a multiple of the block, and a single row.
SIZES = [(1, 8), (7, 8), (24, 8), (45, 8)]


def symmetric(size: int, rng: np.random.Generator) -> np.ndarray:
    """A positive definite matrix with eigenvalues of 1 and more."""
    A = rng.standard_normal((size, size))
    return A @ A.T + np.eye(size)


@pytest.mark.parametrize(("size", "block"), SIZES)
def test_factor_solves(size, block, rng):
    A, B, shift = symmetric(size, rng), rng.standard_normal((size, 3)), 0.5
    factor = BlockedCholesky(BlockTriangle.from_dense(A, block), shift)
    shifted = A + shift * np.eye(size)
    upper = linalg.cholesky(shifted)
    atol = 16 * EPS * size * np.linalg.cond(shifted) * np.linalg.norm(B)
    np.testing.assert_allclose(factor.solve(B), np.linalg.solve(shifted, B), rtol=0, atol=atol)
    np.testing.assert_allclose(factor.solve(B[:, 0]), np.linalg.solve(shifted, B[:, 0]), rtol=0, atol=atol)
    np.testing.assert_allclose(factor.solve_lower(B), np.linalg.solve(upper.T, B), rtol=0, atol=atol)
    np.testing.assert_allclose(factor.solve_upper(B), np.linalg.solve(upper, B), rtol=0, atol=atol)
    expected = np.linalg.slogdet(shifted)[1]
    np.testing.assert_allclose(factor.log_determinant(), expected, atol=16 * EPS * size * np.linalg.cond(shifted))


def test_rank_one_term_is_part_of_the_matrix(rng):
    A, v = symmetric(30, rng), rng.standard_normal(30)
    raised = BlockTriangle.from_dense(A + np.outer(v, v), 8)
    factor = BlockedCholesky(BlockTriangle(30, raised.data, 8, downdate=v))
    B = rng.standard_normal((30, 2))
    atol = 16 * EPS * 30 * np.linalg.cond(A) * (1 + v @ v) * np.linalg.norm(B)
    np.testing.assert_allclose(factor.solve(B), np.linalg.solve(A, B), rtol=0, atol=atol)


def test_arguments_are_only_read_and_buffers_are_used(rng):
    packed, B = BlockTriangle.from_dense(symmetric(20, rng), 8), rng.standard_normal((20, 2))
    kept, right = packed.data.copy(), B.copy()
    factor = BlockedCholesky(packed, 1.0)
    expected = factor.solve(B)
    np.testing.assert_array_equal(packed.data, kept)
    np.testing.assert_array_equal(B, right)
    again = BlockedCholesky(packed, 1.0, out=factor.data)
    assert again.data is factor.data
    np.testing.assert_array_equal(again.solve(B), expected)
    in_place = BlockedCholesky(packed, 1.0, out=packed.data)
    np.testing.assert_array_equal(in_place.solve(B), expected)


def test_number_of_threads_changes_no_bit(rng):
    # Blocks large enough for BLAS to use its threads, if it were let.
    A = symmetric(300, rng)
    packed, B = BlockTriangle.from_dense(A, 128), rng.standard_normal((300, 5))
    one, two = (BlockedCholesky(packed, n_jobs=n_jobs) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.data, two.data)
    np.testing.assert_array_equal(one.solve(B), two.solve(B))
    np.testing.assert_array_equal(packed.matmul(B, 1), packed.matmul(B, 2))


def test_many_right_hand_sides_are_solved_like_few(rng):
    """So many are divided among threads, in rows and in columns of the factor."""
    A, B = symmetric(1300, rng), rng.standard_normal((1300, 600))
    one, two = (BlockedCholesky(BlockTriangle.from_dense(A, 256), n_jobs=n_jobs) for n_jobs in (1, 2))
    few = np.concatenate([one.solve_lower(B[:, start : start + 60]) for start in range(0, 600, 60)], axis=1)
    np.testing.assert_allclose(one.solve_lower(B), few, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(two.solve_lower(B), one.solve_lower(B))


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
@pytest.mark.parametrize("at", [0, 13])
def test_bad_pivot_names_its_block(bad, at):
    A = np.eye(20)
    A[at, at] = bad
    with pytest.raises(NotPositiveDefiniteError, match=rf"rows {at // 8 * 8} to .*larger `alpha`"):
        BlockedCholesky(BlockTriangle.from_dense(A, 8), 0.5)


def test_a_wrong_shape_is_an_error():
    with pytest.raises(ValueError, match=r"`B` must have shape \(5, k\)"):
        BlockedCholesky(BlockTriangle.from_dense(np.eye(5))).solve(np.zeros((4, 1)))


@pytest.mark.parametrize("size", [1, 511, 512, 513, 1300])
def test_blocks_of_the_default_side_agree_with_scipy(size, rng):
    G = rng.standard_normal((size, 40))
    A = G @ G.T + 40 * np.eye(size)
    largest = 40 + np.linalg.norm(G, 2) ** 2
    condition = largest / 40
    B = rng.standard_normal((size, 2))
    packed = BlockTriangle.from_dense(A)
    assert packed.data.nbytes <= 4 * size * (size + packed.block) + 8 * packed.block**2
    factor, oracle = BlockedCholesky(packed), linalg.cho_factor(A)
    # Backward stable solves err by a modest multiple of eps times size times condition.
    atol = EPS * size * condition * np.linalg.norm(B, 2)
    np.testing.assert_allclose(factor.solve(B), linalg.cho_solve(oracle, B), rtol=0, atol=atol)
    expected = 2 * np.log(np.diagonal(oracle[0])).sum()
    np.testing.assert_allclose(factor.log_determinant(), expected, rtol=EPS * size * condition)
    np.testing.assert_allclose(packed.matmul(B), A @ B, rtol=0, atol=EPS * size * largest * 8)


def test_a_given_buffer_is_all_the_memory(rng):
    packed = BlockTriangle.from_dense(symmetric(600, rng), 50)
    buffer = np.empty_like(packed.data)

    BlockedCholesky(packed, 1.0, n_jobs=1)
    # Blocks in flight, and lists of them; the factor itself only where no buffer is given.
    assert traced(lambda: BlockedCholesky(packed, 1.0, n_jobs=1, out=buffer)).peak < packed.data.nbytes / 4
    assert traced(lambda: BlockedCholesky(packed, 1.0, n_jobs=1)).peak > packed.data.nbytes
