"""Held-out scores, against new fits without the rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from phimap.learn.ridge import alpha as search
from phimap.learn.ridge.solve import solve_ridge, solve_ridge_dual
from phimap.learn.ridge.statistics import RidgeStatistics
from tests.learn.ridge.test_solve import problem, rows_of


def statistics_of(Z: np.ndarray, Y: np.ndarray, weights: np.ndarray | None) -> RidgeStatistics:
    statistics = RidgeStatistics.empty(Z.shape[1], Y.shape[1])
    statistics.update(Z, Y, weights=weights)
    return statistics


def some_weights(n: int) -> np.ndarray:
    return np.random.default_rng(8).integers(1, 4, n).astype(float)


def refitted(Z, Y, weights, alpha: float, left_out, tested) -> np.ndarray:
    """Predictions for rows `tested` by ridge regression on the rows not in `left_out`."""
    kept = np.setdiff1d(np.arange(len(Z)), left_out)
    w = None if weights is None else weights[kept]
    return Ridge(alpha=alpha, solver="svd").fit(Z[kept], Y[kept], sample_weight=w).predict(Z[tested])


def each_left_out(Z, Y, weights, alpha: float) -> np.ndarray:
    return np.concatenate([refitted(Z, Y, weights, alpha, [i], [i]) for i in range(len(Z))])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("alpha", [1e-3, 2.0])
def test_of_a_given_alpha_are_those_of_fits_without_each_row(weighted, alpha):
    Z, Y = problem(60, 25)
    weights = some_weights(60) if weighted else None
    oracle = each_left_out(Z, Y, weights, alpha)
    rows = np.arange(10, 40)
    some = rows_of(Z[rows], Y[rows], None if weights is None else weights[rows])
    primal = solve_ridge(statistics_of(Z, Y, weights), alpha, leave_one_out=some).held_out
    dual = solve_ridge_dual(Z, Y, alpha, weights=weights).held_out
    np.testing.assert_allclose(primal.predictions, oracle[rows], rtol=0, atol=1e-8)
    # In dual form all rows, in an order of their own.
    order = [int(np.flatnonzero((y == Y).all(axis=1))[0]) for y in dual.targets]
    assert sorted(order) == list(range(60))
    np.testing.assert_allclose(dual.predictions, oracle[order], rtol=0, atol=1e-8)
    if weights is not None:
        np.testing.assert_array_equal(primal.weights, weights[rows])
        np.testing.assert_array_equal(dual.weights, weights[order])
    # Mutant: predictions of the fit to all rows.
    mutant = Ridge(alpha=alpha, solver="svd").fit(Z, Y, sample_weight=weights).predict(Z)
    assert np.abs(mutant - oracle).max() > 1e-2


@pytest.mark.parametrize("weighted", [False, True])
def test_of_a_few_rows_are_those_at_the_chosen_alpha(weighted):
    Z, Y = problem(60, 25)
    weights = some_weights(60) if weighted else None
    solution = solve_ridge_dual(Z, Y, weights=weights)
    oracle = each_left_out(Z, Y, weights, solution.alpha)
    np.testing.assert_array_equal(solution.held_out.targets, Y)
    np.testing.assert_allclose(solution.held_out.predictions, oracle, rtol=0, atol=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("large", [False, True])
def test_of_validation_rows_are_those_of_a_fit_without_them(weighted, large, monkeypatch):
    """By an eigendecomposition to rounding, by Lanczos steps to what ends them: leverages take four of them."""
    if large:
        monkeypatch.setattr(search, "_EXACT_ORDER", 30)
    Z, Y = problem(300, 60)
    weights = some_weights(300) if weighted else None
    S, F = np.arange(30), np.arange(30, 42)
    held_out, extreme = (rows_of(Z[rows], Y[rows], None if weights is None else weights[rows]) for rows in (S, F))
    statistics, tolerance = statistics_of(Z, Y, weights), 1e-3 if large else 1e-8
    alone = solve_ridge(statistics, held_out=held_out)
    np.testing.assert_allclose(
        alone.held_out.predictions, refitted(Z, Y, weights, alone.alpha, S, S), rtol=0, atol=tolerance
    )
    both = solve_ridge(statistics, held_out=held_out, extreme=extreme)
    oracle = np.concatenate(
        [refitted(Z, Y, weights, both.alpha, S, S)] + [refitted(Z, Y, weights, both.alpha, [*S, i], [i]) for i in F]
    )
    np.testing.assert_allclose(both.held_out.predictions[:30], oracle[:30], rtol=0, atol=tolerance)
    np.testing.assert_allclose(both.held_out.predictions[30:], oracle[30:], rtol=0, atol=30 * tolerance)
    np.testing.assert_allclose(both.held_out.targets, np.concatenate([Y[S], Y[F]]), rtol=0, atol=1e-14)
    # Random rows represent all rows that are not extreme.
    counts = np.ones(300) if weights is None else weights
    np.testing.assert_allclose(both.held_out.weights[30:], counts[F])
    assert both.held_out.weights.sum() == pytest.approx(counts.sum())


@pytest.mark.parametrize("with_extreme", [False, True])
def test_their_mean_square_error_is_the_score(with_extreme):
    """At the vertex between two alphas of the grid, so no more than at the least of these."""
    Z, Y = problem(300, 60)
    weights = some_weights(300)
    extreme = rows_of(Z[30:42], Y[30:42], weights[30:42]) if with_extreme else None
    some = rows_of(Z[:30], Y[:30], weights[:30])
    solutions = [
        solve_ridge(statistics_of(Z, Y, weights), held_out=some, extreme=extreme),
        solve_ridge_dual(Z[:, :50], Y, weights=weights),
    ]
    for solution in solutions:
        held_out = solution.held_out
        squares = np.square(held_out.predictions - held_out.targets).sum(axis=1)
        error = np.average(squares, weights=held_out.weights)
        assert 0.98 * solution.scores.min() <= error <= (1 + 1e-9) * solution.scores.min()


def test_constant_features_predict_the_mean_of_the_others():
    Z, Y = np.ones((40, 3)), problem(40, 2)[1]
    expected = (Y.sum(axis=0) - Y[:10]) / 39
    primal = solve_ridge(statistics_of(Z, Y, None), held_out=rows_of(Z[:10], Y[:10])).held_out
    np.testing.assert_allclose(primal.predictions, expected, atol=1e-10)
    dual = solve_ridge_dual(Z, Y).held_out
    np.testing.assert_allclose(dual.predictions, (Y.sum(axis=0) - dual.targets) / 39, atol=1e-10)


def test_there_are_none_without_rows():
    Z, Y = problem(300, 60)
    assert solve_ridge(statistics_of(Z, Y, None), 1.0).held_out is None
    assert solve_ridge(statistics_of(Z, Y, None)).held_out is None
