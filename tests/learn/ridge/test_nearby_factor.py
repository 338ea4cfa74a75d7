"""Solutions by the factor of a nearby system, against dense linear algebra."""

from __future__ import annotations

import numpy as np
import pytest

from phimap.learn.blocks.triangle import BlockTriangle
from phimap.learn.ridge.cholesky import BlockedCholesky
from phimap.learn.ridge.conjugate_gradient_steps import expected_steps, solve_from_nearby

SIZE, N_ROWS = 400, 2000


@pytest.fixture
def systems(rng, monkeypatch):
    """A of rows with a falling spectrum, A' without a tenth of them, and right-hand sides; at any order."""
    monkeypatch.setattr("phimap.learn.ridge.conjugate_gradient_steps._STEPS_PER_FEATURE", 0.2)
    Z = rng.standard_normal((N_ROWS, SIZE)) / np.arange(1, SIZE + 1)
    whole, part = Z.T @ Z, Z[N_ROWS // 10 :].T @ Z[N_ROWS // 10 :]
    return whole, part, Z.T @ rng.standard_normal((N_ROWS, 3))


@pytest.mark.parametrize("ratio", [0.1, 1.0, 10.0])
def test_solution_is_that_of_the_system(systems, ratio):
    whole, part, rhs = systems
    factor = BlockedCholesky(BlockTriangle.from_dense(part), 1e-2)
    W = solve_from_nearby(BlockTriangle.from_dense(whole), rhs, 1e-2 * ratio, factor)
    assert W is not None
    exact = np.linalg.solve(whole + 1e-2 * ratio * np.eye(SIZE), rhs)
    np.testing.assert_allclose(W, exact, rtol=0, atol=1e-9 * np.abs(exact).max())


def test_shifts_far_apart_and_columns_in_number_are_left_to_a_factorisation(systems):
    whole, part, rhs = systems
    matrix, factor = BlockTriangle.from_dense(whole), BlockedCholesky(BlockTriangle.from_dense(part), 1e-2)
    assert solve_from_nearby(matrix, rhs, 10.0, factor) is None
    assert solve_from_nearby(matrix, np.repeat(rhs, 30, axis=1), 1e-2, factor) is None


def test_a_different_matrix_is_given_up(systems, rng):
    """The number of steps is what the shifts say; these systems have nothing to do with each other."""
    _, part, rhs = systems
    other = rng.standard_normal((SIZE, SIZE))
    factor = BlockedCholesky(BlockTriangle.from_dense(part), 1e-2)
    assert solve_from_nearby(BlockTriangle.from_dense(other @ other.T), rhs, 1e-2, factor) is None


@pytest.mark.parametrize("ratio", [0.2, 1.0, 5.0])
def test_expected_steps_are_about_those_taken(systems, ratio, monkeypatch):
    whole, part, rhs = systems
    steps = []
    matmul = BlockTriangle.matmul
    monkeypatch.setattr(BlockTriangle, "matmul", lambda *a: steps.append(1) or matmul(*a))
    factor = BlockedCholesky(BlockTriangle.from_dense(part), 1e-2)
    solve_from_nearby(BlockTriangle.from_dense(whole), rhs, 1e-2 * ratio, factor)
    assert 0.5 * expected_steps(ratio) < len(steps) < 1.8 * expected_steps(ratio)


def test_recurrence_that_ends_too_early_is_not_trusted(systems, monkeypatch):
    whole, part, rhs = systems
    matrix, factor = BlockTriangle.from_dense(whole), BlockedCholesky(BlockTriangle.from_dense(part), 1e-2)
    monkeypatch.setattr("phimap.learn.ridge.conjugate_gradient_steps.ConjugateGradientState.residual", 0.0)
    assert solve_from_nearby(matrix, rhs, 1e-2, factor) is None
