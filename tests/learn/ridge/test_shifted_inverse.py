"""Functions of a matrix from Lanczos recurrences, against its eigendecomposition."""

from __future__ import annotations

import numpy as np
import pytest

from phimap.learn.blocks.triangle import BlockTriangle
from phimap.learn.ridge.cholesky import BlockedCholesky
from phimap.learn.ridge.shifted_inverse import ExactShiftedInverse, LanczosShiftedInverse
from tests.support.statistics import is_mean

EPS = np.finfo(np.float64).eps
SHIFT = 0.01
SHIFTS = np.geomspace(SHIFT, 10.0, 7)
# (1 + SHIFT) / SHIFT: with it Lanczos gains at least a factor of ((sqrt(101) - 1) / (sqrt(101) + 1))^2 = 0.67 in a
# quadrature per step and 0.82 in a vector, so that its 96 steps leave 2e-8 of a vector and rounding of the rest.
CONDITION = 101.0
VECTOR_ERROR = 2 * 0.82**96


def matrix(size: int, rng: np.random.Generator) -> np.ndarray:
    """Eigenvalues between 0 and 1, some of them zero."""
    basis, _ = np.linalg.qr(rng.standard_normal((size, size)))
    return (basis * np.linspace(-0.1, 1.0, size).clip(0)) @ basis.T


def lanczos(A: np.ndarray, B: np.ndarray, settled=lambda inverse: False, **options) -> LanczosShiftedInverse:
    factor = BlockedCholesky(BlockTriangle.from_dense(A, 64), SHIFT)
    return LanczosShiftedInverse(factor, SHIFT, B, settled, **options)


def test_exact_functions_are_those_of_the_inverse(rng):
    A, B, P = matrix(40, rng), rng.standard_normal((40, 2)), rng.standard_normal((5, 40))
    found = ExactShiftedInverse(BlockTriangle.from_dense(A, 16), B, lambda vectors: P @ vectors)
    inverses = np.linalg.inv(A + SHIFTS[:, None, None] * np.eye(40))
    rtol = 64 * EPS * 40 * CONDITION
    np.testing.assert_allclose(
        found.projected_solutions(SHIFTS), P @ inverses @ B, rtol=rtol, atol=rtol * np.abs(B).sum() / SHIFT
    )
    np.testing.assert_allclose(found.rhs_form(SHIFTS), np.einsum("it,gij,jt->g", B, inverses, B), rtol=rtol)
    np.testing.assert_allclose(found.rhs_form(SHIFTS, power=2), np.square(inverses @ B).sum(axis=(1, 2)), rtol=rtol)
    np.testing.assert_allclose(found.trace(SHIFTS), np.trace(inverses, axis1=1, axis2=2), rtol=rtol)
    np.testing.assert_allclose(found.diagonals(SHIFTS), np.diagonal(inverses, axis1=1, axis2=2), rtol=rtol)


def test_recurrences_agree_with_eigenvalues(rng):
    A, B, P = matrix(150, rng), rng.standard_normal((150, 3)), rng.standard_normal((4, 150))
    B[:, 1] = 0.0
    exact = ExactShiftedInverse(BlockTriangle.from_dense(A, 64), B, lambda vectors: P @ vectors)
    found = lanczos(A, B, project=lambda vectors: P @ vectors)
    rtol = 64 * EPS * 150 * CONDITION
    np.testing.assert_allclose(found.rhs_form(SHIFTS), exact.rhs_form(SHIFTS), rtol=rtol)
    np.testing.assert_allclose(found.rhs_form(SHIFTS, power=2), exact.rhs_form(SHIFTS, power=2), rtol=rtol)
    atol = (VECTOR_ERROR + rtol) * np.linalg.norm(P, 2) * np.linalg.norm(B, 2) / SHIFT
    np.testing.assert_allclose(found.projected_solutions(SHIFTS), exact.projected_solutions(SHIFTS), rtol=0, atol=atol)
    assert not found.projected_solutions(SHIFTS)[:, :, 1].any()


def test_quadratic_forms_are_accurate_near_the_shift(rng):
    A, R = matrix(150, rng), rng.standard_normal((150, 6))
    exact = ExactShiftedInverse(BlockTriangle.from_dense(A, 64), R[:, :1], R=R)
    found = lanczos(A, R[:, :1], R=R)
    inverse = np.linalg.inv(A + SHIFT * np.eye(150))
    expected = np.einsum("ik,ij,jk->k", R, inverse, R)
    rtol = 64 * EPS * 150 * CONDITION
    at = np.array([SHIFT])
    np.testing.assert_allclose(exact.quadratic_forms(at)[0], expected, rtol=rtol)
    np.testing.assert_allclose(found.quadratic_forms(at)[0], expected, rtol=rtol)
    near = SHIFT * np.array([0.1, 0.3, 3.0, 10.0])
    np.testing.assert_allclose(found.quadratic_forms(near), exact.quadratic_forms(near), rtol=0.02)


def test_shifts_below_that_of_the_factor(rng):
    A, B = matrix(120, rng), rng.standard_normal((120, 2))
    A += 0.1 * np.eye(120)
    below = np.array([SHIFT / 10, SHIFT / 2])
    exact = ExactShiftedInverse(BlockTriangle.from_dense(A, 64), B)
    np.testing.assert_allclose(lanczos(A, B).rhs_form(below), exact.rhs_form(below), rtol=64 * EPS * 120 * CONDITION)


def test_one_probe_is_an_unbiased_trace(rng):
    A = matrix(24, rng)
    expected = np.trace(np.linalg.inv(A + 0.1 * np.eye(24)))

    def estimate(draw) -> float:
        return lanczos(A, np.zeros((24, 1)), probes=draw()[:, None]).trace(np.array([0.1]))[0]

    signs = [estimate(lambda: 2.0 * rng.integers(2, size=24) - 1.0) for _ in range(150)]
    assert is_mean(np.array(signs), expected)
    # Entries of another variance are no probes.
    assert not is_mean(np.array([estimate(lambda: rng.uniform(-1, 1, 24)) for _ in range(150)]), expected)


def test_recurrences_end_with_their_space_or_when_settled(rng):
    # Solving with a diagonal matrix mixes no entries, so that two of them span their space to the bit.
    eigenvalues = np.linspace(0.0, 1.0, 100)
    B = np.zeros((100, 1))
    B[[50, 99]] = 1.0
    found = lanczos(np.diag(eigenvalues), B)
    assert found.n_steps == 2
    expected = (1 / (eigenvalues[[50, 99]] + SHIFTS[:, None])).sum(axis=1)
    np.testing.assert_allclose(found.rhs_form(SHIFTS), expected, rtol=64 * EPS * 100 * CONDITION)
    looks = []
    lanczos(
        matrix(100, rng),
        rng.standard_normal((100, 1)),
        lambda inverse: looks.append(inverse.n_steps) or len(looks) == 2,
    )
    assert looks == [4, 8]


@pytest.mark.parametrize("size", [1, 3])
def test_orders_below_the_steps_between_looks(size, rng):
    A, B = matrix(size, rng), rng.standard_normal((size, 1))
    exact = ExactShiftedInverse(BlockTriangle.from_dense(A), B)
    np.testing.assert_allclose(lanczos(A, B).rhs_form(SHIFTS), exact.rhs_form(SHIFTS), rtol=64 * EPS * CONDITION)


@pytest.mark.parametrize("rank", [12, 9])
def test_a_thin_factor_gives_the_functions_of_its_product(rng, rank):
    """Mutants: no part outside of the span of the factor, in any of the functions."""
    F = rng.standard_normal((40, rank)) @ rng.standard_normal((rank, 12))
    B, R, P = (rng.standard_normal(shape) for shape in ((40, 2), (40, 3), (5, 40)))
    matrix, chosen = BlockTriangle.from_dense(F @ F.T, 16), np.array([3, 17, 30])
    thin = ExactShiftedInverse(matrix, B, lambda vectors: P @ vectors, R, factor=F)
    exact = ExactShiftedInverse(matrix, B, lambda vectors: P @ vectors, R)
    for name in ("projected_solutions", "rhs_form", "quadratic_forms", "trace", "diagonals"):
        np.testing.assert_allclose(getattr(thin, name)(SHIFTS), getattr(exact, name)(SHIFTS), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(thin.rhs_form(SHIFTS, 2), exact.rhs_form(SHIFTS, 2), rtol=1e-7)
    np.testing.assert_allclose(thin.block(0.1, chosen), exact.block(0.1, chosen), rtol=1e-7, atol=1e-9)
