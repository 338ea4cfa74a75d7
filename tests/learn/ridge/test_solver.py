"""The ridge solver over streams of blocks: the same solution in every form and in every order."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from phimap.learn.blocks.blocks import FeatureRows, feature_block
from phimap.learn.ridge.solver import RidgeSolver

N, M = 60, 20


@pytest.fixture
def rows(rng) -> tuple[np.ndarray, np.ndarray]:
    Z = rng.standard_normal((N, M))
    return Z, Z[:, :1] + 0.1 * rng.standard_normal((N, 1)) + 3


def fed(solver: RidgeSolver, Z: np.ndarray, Y: np.ndarray, parts: int = 1) -> RidgeSolver:
    """The solver after all rows, which come in one buffer."""
    for some_Z, some_Y in zip(np.array_split(Z, parts), np.array_split(Y, parts), strict=True):
        buffer = some_Z.copy()
        solver.update(feature_block(buffer), some_Y, 1)
        buffer[...] = np.nan
    return solver


def coefficients(solver: RidgeSolver) -> np.ndarray:
    solution = solver.finish(0.5, None, 0, 1)
    assert solution.form == solver.form
    return np.concatenate([solution.coef, solution.intercept[None]])


@pytest.mark.parametrize("announced", [None, N], ids=["primal", "dual"])
@pytest.mark.parametrize("parts", [1, 4])
def test_forms_and_parts_agree(rows, announced, parts):
    Z, Y = rows
    solver = fed(RidgeSolver.start(M, 1, announced), Z, Y, parts)
    assert solver.form == ("primal" if announced is None else "dual")
    assert solver.n_rows == N
    centred = Z - Z.mean(axis=0)
    coef = np.linalg.solve(centred.T @ centred + 0.5 * np.eye(M), centred.T @ Y)
    np.testing.assert_allclose(coefficients(solver)[:-1], coef, atol=1e-10)


@pytest.mark.parametrize("announced", [10, 40])
def test_more_rows_than_announced_become_sums(rows, announced):
    Z, Y = rows
    solver = fed(RidgeSolver.start(M, 1, announced), Z[:40], Y[:40])
    assert solver.form == "dual"
    fed(solver, Z[40:], Y[40:])
    assert (solver.form, solver.n_rows, solver.rows) == ("primal", N, ())
    np.testing.assert_allclose(coefficients(solver), coefficients(fed(RidgeSolver.start(M, 1), Z, Y)), atol=1e-10)


@pytest.mark.parametrize("announced", [None, 30], ids=["primal", "dual"])
def test_merged_rows_count_once_and_can_be_taken_away(rows, announced):
    Z, Y = rows
    one = fed(RidgeSolver.start(M, 1, announced), Z[:30], Y[:30])
    other = fed(RidgeSolver.start(M, 1, announced), Z[30:], Y[30:])
    one.merge(other, 1)
    assert one.n_rows == N
    np.testing.assert_allclose(coefficients(one), coefficients(fed(RidgeSolver.start(M, 1), Z, Y)), atol=1e-10)
    one.merge(other, 1, sign=-1)
    expected = coefficients(fed(RidgeSolver.start(M, 1), Z[:30], Y[:30]))
    np.testing.assert_allclose(coefficients(one), expected, atol=1e-9)


@pytest.mark.parametrize("announced", [None, N], ids=["primal", "dual"])
def test_subset_is_the_solver_of_its_columns(rows, announced):
    Z, Y = rows
    columns = np.array([7, 0, 12])
    found = fed(RidgeSolver.start(M, 1, announced), Z, Y, 3).subset(columns, 1)
    expected = fed(RidgeSolver.start(3, 1, announced), Z[:, columns], Y)
    # Fewer columns than rows need no more than their sums.
    assert found.form == "primal"
    np.testing.assert_allclose(coefficients(found), coefficients(expected), atol=1e-10)


def test_targets_are_copied(rows):
    Z, Y = rows
    solver = fed(RidgeSolver.start(M, 1, N), Z, Y)
    before = coefficients(solver)
    Y[...] = 0
    np.testing.assert_array_equal(coefficients(solver), before)


def test_form_follows_the_number_of_rows_announced(monkeypatch):
    monkeypatch.setattr("phimap.learn.ridge.solver.LEAVE_ONE_OUT_ROWS", 10)
    forms = [RidgeSolver.start(20, 1, n_rows).form for n_rows in (5, 19, 20, None)]
    assert forms == ["dual", "dual", "primal", "primal"]
    assert RidgeSolver.start(5, 1, 10).form == "dual"


def test_rows_of_older_files_have_no_weights(rows):
    Z, Y = rows
    old = RidgeSolver(None, ((Z[:20], Y[:20]), (Z[20:], Y[20:])), N)
    np.testing.assert_allclose(coefficients(old), coefficients(fed(RidgeSolver.start(M, 1, N), Z, Y)), atol=1e-12)


@pytest.mark.parametrize("announced", [None, N], ids=["primal", "dual"])
def test_rows_with_and_without_weights_add_up(rows, announced, rng):
    Z, Y = rows
    weights = np.r_[np.ones(20), rng.exponential(size=N - 20)]
    solver = fed(RidgeSolver.start(M, 1, announced), Z[:20], Y[:20])
    given = weights[20:].copy()
    solver.update(feature_block(Z[20:]), Y[20:], 1, given)
    given[...] = np.nan
    oracle = Ridge(alpha=0.5).fit(Z, Y[:, 0], sample_weight=weights)
    np.testing.assert_allclose(coefficients(solver)[:, 0], np.r_[oracle.coef_, oracle.intercept_], atol=1e-10)


def test_without_some_rows_is_the_fit_to_the_others(rows):
    Z, Y = rows
    solver = fed(RidgeSolver.start(M, 1), Z, Y)
    found = solver.without(FeatureRows(feature_block(Z[:15]), Y[:15]), 0.5, 1)
    assert found is not None
    expected = coefficients(fed(RidgeSolver.start(M, 1), Z[15:], Y[15:]))
    np.testing.assert_allclose(np.concatenate([found.coef, found.intercept[None]]), expected, atol=1e-9)
    assert solver.n_rows == N


def test_without_nearly_all_rows_nothing_may_be_positive_definite(rows):
    Z, Y = rows
    solver = fed(RidgeSolver.start(M, 1), 1e6 * Z, Y)
    assert solver.without(FeatureRows(feature_block(1e6 * Z[5:]), Y[5:]), 1e-9, 1) is None
