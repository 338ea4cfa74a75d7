"""Ridge regression from statistics, and the choice of its regularisation, against slow oracles."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from phimap.learn.blocks.blocks import FeatureRows, feature_block
from phimap.learn.blocks.triangle import BlockTriangle
from phimap.learn.ridge import alpha as search
from phimap.learn.ridge.cholesky import BlockedCholesky, NotPositiveDefiniteError
from phimap.learn.ridge.shifted_inverse import ExactShiftedInverse, LanczosShiftedInverse
from phimap.learn.ridge.solve import solve_ridge, solve_ridge_dual
from phimap.learn.ridge.statistics import RidgeStatistics


def problem(n: int, m: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Fourier features of nine inputs, and two targets that they explain in part."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 9))
    Z = np.cos(X @ rng.standard_normal((9, m)) / 3 + rng.uniform(0, 6, m)) * np.sqrt(2 / m)
    return Z, np.stack([np.sin(X[:, 0]) + X[:, 1], X[:, 2] ** 2], axis=1) + 0.3 * rng.standard_normal((n, 2))


def rows_of(Z: np.ndarray, Y: np.ndarray, weights: np.ndarray | None = None) -> FeatureRows:
    return FeatureRows(feature_block(Z), Y, weights)


def statistics_of(Z: np.ndarray, Y: np.ndarray) -> RidgeStatistics:
    statistics = RidgeStatistics.empty(Z.shape[1], Y.shape[1])
    statistics.update(Z, Y)
    return statistics


@pytest.fixture
def searched(monkeypatch):
    """Send problems of a hundred features down the road of large ones."""
    monkeypatch.setattr(search, "_EXACT_ORDER", 40)


@pytest.mark.parametrize("alpha", [1e-3, 0.3, 50.0])
def test_given_alpha_is_scikit_learns(alpha):
    Z, Y = problem(300, 60)
    oracle = Ridge(alpha=alpha, solver="svd").fit(Z, Y)
    for solution in (solve_ridge(statistics_of(Z, Y), alpha), solve_ridge_dual(Z, Y, alpha)):
        np.testing.assert_allclose(solution.coef, oracle.coef_.T, atol=1e-9 * np.abs(oracle.coef_).max())
        np.testing.assert_allclose(solution.intercept, oracle.intercept_, atol=1e-9)
        assert solution.criterion == "given"
        assert solution.residual < 1e-10


def test_functions_of_every_shift_from_one_factorisation():
    Z, Y = problem(500, 200)
    statistics = statistics_of(Z, Y)
    matrix, B = statistics.centred_gram(), statistics.centred_cross()
    P = np.random.default_rng(1).standard_normal((20, 200))
    exact = ExactShiftedInverse(matrix, B, lambda vectors: P @ vectors)
    shifts = np.geomspace(1e-3, 1e-1, 7)
    factor = BlockedCholesky(matrix, 1e-2)
    probes = np.sqrt(200) * np.eye(200)
    lanczos = LanczosShiftedInverse(factor, 1e-2, B, lambda _: False, project=lambda V: P @ V, probes=probes)
    for name in ("projected_solutions", "rhs_form"):
        expected = getattr(exact, name)(shifts)
        np.testing.assert_allclose(getattr(lanczos, name)(shifts), expected, atol=1e-6 * np.abs(expected).max())
    # Probes along all axes instead of random ones make the estimate of the trace exact, times their length.
    np.testing.assert_allclose(lanczos.trace(shifts), exact.trace(shifts), rtol=1e-6)


def test_random_probes_estimate_the_trace_as_stated():
    """Hutchinson's relative standard deviation is at most sqrt(2 / (p r)); 6 of them: false-alarm rate below 1e-8."""
    Z, Y = problem(900, 400)
    matrix = statistics_of(Z, Y).centred_gram()
    shift = 0.05
    theta = 1 / (np.linalg.eigvalsh(matrix.to_dense()) + shift)
    probes = 2.0 * np.random.default_rng(5).integers(2, size=(400, 8)) - 1
    B = np.ones((400, 1))
    lanczos = LanczosShiftedInverse(BlockedCholesky(matrix, shift), shift, B, lambda _: False, probes=probes)
    standard_deviation = np.sqrt(2 / 8 * (theta**2).sum()) / theta.sum()
    error = lanczos.trace(np.array([shift]))[0] / theta.sum() - 1
    assert abs(error) < 6 * standard_deviation
    assert standard_deviation < 0.05


def test_generalised_cross_validation_is_its_formula(searched):
    Z, Y = problem(500, 120)
    solution = solve_ridge(statistics_of(Z, Y))
    assert solution.criterion == "gcv"
    centred = Z - Z.mean(axis=0)
    for alpha, score in list(zip(solution.alphas, solution.scores, strict=True))[::4]:
        hat = centred @ np.linalg.solve(centred.T @ centred + alpha * np.eye(120), centred.T) + 1 / 500
        residual = Y - hat @ Y
        brute = (residual**2).sum() / 500 / (1 - np.trace(hat) / 500) ** 2
        # The trace comes from eight random probes.
        assert score == pytest.approx(brute, rel=0.02)


def test_held_out_error_is_that_of_a_fit_without_the_rows(searched):
    Z, Y = problem(600, 120)
    solution = solve_ridge(statistics_of(Z, Y), held_out=rows_of(Z[:80], Y[:80]))
    assert solution.criterion == "held-out"
    for alpha, score in list(zip(solution.alphas, solution.scores, strict=True))[::3]:
        oracle = Ridge(alpha=alpha, solver="svd").fit(Z[80:], Y[80:])
        assert score == pytest.approx(np.square(oracle.predict(Z[:80]) - Y[:80]).sum(axis=1).mean(), rel=2e-3)
    whole = Ridge(alpha=solution.alpha, solver="svd").fit(Z, Y)
    np.testing.assert_allclose(solution.coef, whole.coef_.T, atol=1e-8 * np.abs(whole.coef_).max())


# By all eigenvalues, and by recurrences of four steps: 2 % of what each of these rows leaves free, twice that of its
# square.
@pytest.mark.parametrize(("order", "rtol"), [(768, 1e-8), (40, 0.04)])
def test_extreme_rows_are_scored_by_leave_one_out(order, rtol, monkeypatch):
    Z, Y = problem(400, 100)
    Z[80:90] *= 3
    monkeypatch.setattr(search, "_EXACT_ORDER", order)
    solution = solve_ridge(statistics_of(Z, Y), held_out=rows_of(Z[:80], Y[:80]), extreme=rows_of(Z[80:90], Y[80:90]))
    assert solution.criterion == "held-out"
    rest = np.arange(80, 400)
    at = int(np.argmin(solution.scores))
    for k in range(at - 1, at + 2):
        oracle = Ridge(alpha=solution.alphas[k], solver="cholesky").fit(Z[rest], Y[rest])
        expected = 390 * np.square(oracle.predict(Z[:80]) - Y[:80]).sum(axis=1).mean()
        for i in range(80, 90):
            kept = rest[rest != i]
            fitted = Ridge(alpha=solution.alphas[k], solver="cholesky").fit(Z[kept], Y[kept])
            expected += np.square(fitted.predict(Z[i : i + 1]) - Y[i]).sum()
        assert solution.scores[k] == pytest.approx(expected / 400, rel=rtol)


@pytest.mark.parametrize("held_out", [False, True])
@pytest.mark.parametrize("noise", [0.0, 3.0])
def test_search_by_windows_finds_the_minimum_of_the_whole_curve(monkeypatch, held_out, noise):
    Z, Y = problem(500, 150)
    Y = Y + noise * np.random.default_rng(2).standard_normal(Y.shape)
    rows = rows_of(Z[:100], Y[:100]) if held_out else None
    exact = solve_ridge(statistics_of(Z, Y), held_out=rows)
    monkeypatch.setattr(search, "_EXACT_ORDER", 40)
    searched = solve_ridge(statistics_of(Z, Y), held_out=rows)
    assert searched.alphas.size < exact.alphas.size
    at = np.interp(np.log(searched.alpha), np.log(exact.alphas), exact.scores)
    assert at <= exact.scores.min() * 1.01


def test_leave_one_out_is_leaving_one_out():
    Z, Y = problem(40, 60)
    solution = solve_ridge_dual(Z, Y)
    assert solution.criterion == "leave-one-out"
    for k in (22, 30):
        alpha = solution.alphas[k]
        errors = []
        for i in range(40):
            kept = np.arange(40) != i
            fitted = Ridge(alpha=alpha, solver="svd").fit(Z[kept], Y[kept])
            errors.append(((fitted.predict(Z[i : i + 1]) - Y[i]) ** 2).sum())
        assert solution.scores[k] == pytest.approx(np.mean(errors), rel=1e-6)
    assert solution.scores.min() == pytest.approx(
        np.interp(np.log(solution.alpha), np.log(solution.alphas), solution.scores), rel=0.05
    )


@pytest.mark.parametrize(("m", "order"), [(8, 8), (26, 26), (27, 40), (60, 40)])
def test_leave_one_out_decomposes_the_smaller_matrix(monkeypatch, rng, m, order):
    """Mutants: no factor of the rows; always the order of the features."""
    orders, eigh = [], np.linalg.eigh
    monkeypatch.setattr(np.linalg, "eigh", lambda matrix: (orders.append(len(matrix)), eigh(matrix))[1])
    solve_ridge_dual(rng.standard_normal((40, m)), rng.standard_normal((40, 1)))
    assert orders == [order]


def test_extreme_rows_fool_generalised_cross_validation_and_not_held_out_rows(searched):
    """A few rows far from all others, on which a weakly regularised fit fails."""
    rng = np.random.default_rng(0)
    Z, Y = problem(800, 120)
    extreme = rng.choice(800, 24, replace=False)
    Z[extreme] = np.cos(rng.uniform(0, 6, (24, 120))) * np.sqrt(2 / 120)
    Y[extreme] = rng.standard_normal((24, 2)) * 3
    rows = np.concatenate([extreme[:8], np.setdiff1d(np.arange(800), extreme)[:72]])
    statistics = statistics_of(Z, Y)
    assert solve_ridge(statistics, held_out=rows_of(Z[rows], Y[rows])).alpha > solve_ridge(statistics).alpha


def test_rounding_below_the_chosen_alpha_is_survived(searched):
    """Identical features in float32: the Gram matrix is singular, and rounding makes it indefinite."""
    rng = np.random.default_rng(0)
    Z = np.repeat(rng.standard_normal((400, 30)).astype(np.float32), 4, axis=1)
    Y = Z[:, :1].astype(np.float64) * 3
    solution = solve_ridge(statistics_of(Z, Y), held_out=rows_of(Z[:50], Y[:50]))
    assert np.isfinite(solution.coef).all()
    assert np.abs(Z @ solution.coef + solution.intercept - Y).max() < 0.05


def test_nothing_to_fit_is_fitted_by_the_mean(searched):
    Z, Y = problem(200, 60)
    constant_target = solve_ridge(statistics_of(Z, np.full((200, 1), 7.0)))
    np.testing.assert_allclose(Z @ constant_target.coef + constant_target.intercept, 7.0, atol=1e-8)
    constant_features = solve_ridge(statistics_of(np.ones((200, 60)), Y))
    np.testing.assert_allclose(constant_features.intercept + constant_features.coef.sum(axis=0), Y.mean(axis=0))


def test_too_small_an_alpha_names_the_remedy():
    matrix = BlockTriangle.from_dense(-np.eye(30))
    with pytest.raises(NotPositiveDefiniteError, match=r"larger `alpha`"):
        BlockedCholesky(matrix, 0.5)


# The widest has more than one block of columns.
@pytest.mark.parametrize(("n", "m"), [(40, 90), (50, 530)])
def test_primal_and_dual_agree_where_features_outnumber_rows(n, m):
    Z, Y = problem(n, m)
    alpha = 0.1
    primal, dual = solve_ridge(statistics_of(Z, Y), alpha), solve_ridge_dual(Z, Y, alpha)
    # Rounding, times the condition number of the system.
    atol = 64 * np.finfo(float).eps * m * (np.linalg.norm(Z, 2) ** 2 / alpha + 1) * np.abs(dual.coef).max()
    np.testing.assert_allclose(primal.coef, dual.coef, rtol=0, atol=atol)
    np.testing.assert_allclose(primal.intercept, dual.intercept, rtol=0, atol=m * atol)


def gcv(Z: np.ndarray, Y: np.ndarray, alphas: np.ndarray) -> np.ndarray:
    """GCV (g,) from the eigenvalues of the whole hat matrix, intercept included."""
    n = len(Z)
    centred, deviations = Z - Z.mean(axis=0), Y - Y.mean(axis=0)
    values, vectors = np.linalg.eigh(centred @ centred.T)
    kept = values.clip(0) / (values.clip(0) + alphas[:, None])
    rss = (np.square(1 - kept) @ np.square(vectors.T @ deviations)).sum(axis=1)
    return (rss / n) / np.square(1 - (kept.sum(axis=1) + 1) / n)


@pytest.mark.parametrize("n", [100, 140])
def test_fewer_rows_than_features_leave_gcv_something_to_measure(searched, n):
    Z, Y = problem(n, 150)
    found = solve_ridge(statistics_of(Z, Y))
    # With hardly a residual left the estimated degrees of freedom are noise, and a score near zero would win.
    assert gcv(Z, Y, np.array([found.alpha]))[0] <= 1.2 * gcv(Z, Y, np.geomspace(1e-4, 1e3, 100)).min()


@pytest.mark.parametrize("order", [40, 1000])
@pytest.mark.parametrize("length_scale", [8.0, 30.0])
@pytest.mark.parametrize("n_held_out", [0, 100])
def test_rounding_in_single_precision_never_fails_the_search(order, length_scale, n_held_out, monkeypatch, rng):
    """Smooth kernels: rounding exceeds most eigenvalues, and that of the mean stays when centring removes the mean."""
    monkeypatch.setattr(search, "_EXACT_ORDER", order)
    X = rng.standard_normal((400, 3))
    Z = np.cos(X @ rng.standard_normal((3, 150)) / length_scale + rng.uniform(0, 6, 150)) * np.sqrt(2 / 150)
    Y = np.sin(2 * X[:, :1]) + 0.3 * rng.standard_normal((400, 1))
    single = Z.astype(np.float32)
    statistics = statistics_of(single, Y)
    assert np.linalg.eigvalsh(statistics.centred_gram().to_dense())[0] < 0
    solution = solve_ridge(statistics, held_out=rows_of(single[:n_held_out], Y[:n_held_out]) if n_held_out else None)
    assert np.isfinite(solution.scores).all()
    # The noise allows a regularisation of eps of the largest eigenvalue, so nothing much worse than that is excused.
    oracle = Ridge(alpha=np.finfo(np.float32).eps * np.linalg.norm(Z, 2) ** 2, solver="svd").fit(Z, Y)
    error = np.square(Z @ solution.coef + solution.intercept - Y).mean()
    assert error <= 1.5 * np.square(oracle.predict(Z).reshape(Y.shape) - Y).mean()


def test_number_of_threads_changes_no_bit(searched):
    Z, Y = problem(200, 150)
    statistics = statistics_of(Z, Y)
    held_out, extreme = rows_of(Z[:40], Y[:40]), rows_of(Z[40:60], Y[40:60])
    for rows in ((None, None), (held_out, None), (held_out, extreme)):
        one, two = (solve_ridge(statistics, held_out=rows[0], extreme=rows[1], n_jobs=n_jobs) for n_jobs in (1, 2))
        assert one.alpha == two.alpha
        np.testing.assert_array_equal(one.coef, two.coef)
