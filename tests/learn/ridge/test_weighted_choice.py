"""The choice of alpha for rows with weights, against fits without the validation rows by scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from phimap._random import named_streams
from phimap.learn.ridge import alpha as search
from phimap.learn.ridge import solve
from phimap.learn.ridge.solve import solve_ridge, solve_ridge_dual
from phimap.learn.ridge.statistics import RidgeStatistics
from phimap.learn.solver import LinearSolution
from tests.learn.ridge.test_solve import rows_of


def problem(n: int, m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features (n, m), two targets, and weights that follow the noise, so that an average without them is another."""
    rng = np.random.default_rng(4)
    Z, weights = rng.standard_normal((n, m)) / np.sqrt(m) + 0.2, rng.exponential(size=n)
    noise = 0.3 * rng.standard_normal((n, 2)) / np.sqrt(weights + 0.1)[:, None]
    return Z, Z @ rng.standard_normal((m, 2)) + noise + [1, -2], weights


def statistics_of(Z: np.ndarray, Y: np.ndarray, weights: np.ndarray) -> RidgeStatistics:
    statistics = RidgeStatistics.empty(Z.shape[1], Y.shape[1])
    for part in np.array_split(np.arange(len(Z)), 3):
        statistics.update(Z[part], Y[part], weights=weights[part])
    return statistics


def squares(alpha: float, fitted: np.ndarray, tested: np.ndarray, data: tuple[np.ndarray, ...]) -> np.ndarray:
    """Squared errors at the rows `tested` of a fit on the rows `fitted`."""
    Z, Y, weights = data
    oracle = Ridge(alpha=alpha, solver="cholesky").fit(Z[fitted], Y[fitted], sample_weight=weights[fitted])
    return np.square(oracle.predict(Z[tested]) - Y[tested]).sum(axis=1)


def around_the_best(solution: LinearSolution) -> list[tuple[float, float]]:
    """Three points of the curve and their scores."""
    at = int(np.argmin(solution.scores))
    return [(solution.alphas[k], solution.scores[k]) for k in (at - 1, at, at + 1)]


def test_leave_one_out_leaves_a_row_with_its_weight():
    Z, Y, weights = data = problem(40, 60)
    solution = solve_ridge_dual(Z, Y, weights=weights)
    assert solution.criterion == "leave-one-out"
    every = np.arange(40)
    for alpha, score in around_the_best(solution):
        errors = np.array([squares(alpha, every[every != i], np.array([i]), data)[0] for i in every])
        assert score == pytest.approx(np.average(errors, weights=weights), rel=1e-6)
        assert score != pytest.approx(errors.mean(), rel=1e-2)


def test_held_out_errors_are_weighted():
    Z, Y, weights = data = problem(300, 60)
    rows = np.arange(80)
    solution = solve_ridge(statistics_of(Z, Y, weights), held_out=rows_of(Z[:80], Y[:80], weights[:80]))
    for alpha, score in around_the_best(solution):
        errors = squares(alpha, np.arange(80, 300), rows, data)
        assert score == pytest.approx(np.average(errors, weights=weights[:80]), rel=1e-8)
        assert score != pytest.approx(errors.mean(), rel=1e-2)


@pytest.mark.parametrize(("order", "rtol"), [(768, 1e-8), (40, 0.04)])
def test_extreme_rows_count_their_weights(order, rtol, monkeypatch):
    Z, Y, weights = data = problem(400, 100)
    Z[80:90] *= 3
    monkeypatch.setattr(search, "_EXACT_ORDER", order)
    statistics, held_out, far = statistics_of(Z, Y, weights), np.arange(80), np.arange(80, 90)
    solution = solve_ridge(
        statistics, held_out=rows_of(Z[:80], Y[:80], weights[:80]), extreme=rows_of(Z[far], Y[far], weights[far])
    )
    rest = np.arange(80, 400)
    for alpha, score in around_the_best(solution):
        expected = np.average(squares(alpha, rest, held_out, data), weights=weights[:80])
        expected *= weights.sum() - weights[far].sum()
        for i in far:
            expected += weights[i] * squares(alpha, rest[rest != i], np.array([i]), data)[0]
        assert score == pytest.approx(expected / weights.sum(), rel=rtol)


def test_held_out_errors_in_dual_form_are_weighted(monkeypatch):
    monkeypatch.setattr(solve, "LEAVE_ONE_OUT_ROWS", 0)
    Z, Y, weights = data = problem(200, 250)
    solution = solve_ridge_dual(Z, Y, weights=weights, rng=7)
    assert solution.criterion == "held-out"
    # The rows that the stream of this name draws.
    tested, kept = np.split(named_streams(7, "held-out")["held-out"].permutation(200), [20])
    for alpha, score in around_the_best(solution):
        errors = squares(alpha, kept, tested, data)
        assert score == pytest.approx(np.average(errors, weights=weights[tested]), rel=1e-8)


def test_generalised_cross_validation_weights_its_residuals():
    Z, Y, weights = problem(200, 60)
    solution = solve_ridge(statistics_of(Z, Y, weights))
    assert solution.criterion == "gcv"
    root = np.sqrt(weights)[:, None]
    centred = root * (Z - np.average(Z, axis=0, weights=weights))
    for alpha, score in around_the_best(solution):
        hat = centred @ np.linalg.solve(centred.T @ centred + alpha * np.eye(60), centred.T)
        hat += root @ root.T / weights.sum()
        residual = root * Y - hat @ (root * Y)
        brute = (residual**2).sum() / weights.sum() / (1 - np.trace(hat) / 200) ** 2
        assert score == pytest.approx(brute, rel=1e-8)


def test_rows_with_weights_are_taken_away_again():
    Z, Y, weights = problem(90, 20)
    expected = statistics_of(Z[:60], Y[:60], weights[:60])
    found = statistics_of(Z, Y, weights).without(rows_of(Z[60:], Y[60:], weights[60:]))
    assert (found.n, found.weight) == (60, pytest.approx(expected.weight))
    np.testing.assert_allclose(found.gram.to_dense(), expected.gram.to_dense(), atol=1e-11)
    for name in ("cross", "sum_z", "sum_y", "sum_yy"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-11)
