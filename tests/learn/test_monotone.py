"""Monotone constraints."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

import phimap as pm
from phimap.learn import monotone
from phimap.learn.blocks.blocks import feature_block
from phimap.learn.monotone import TOLERANCE, MonotonicityWarning, _constrained
from phimap.learn.ridge.predictive import PrimalLeverages
from phimap.learn.ridge.solve import solve_ridge
from phimap.learn.ridge.statistics import RidgeStatistics


def problem(n, rng):
    """Rows (n, 3) and a target that rises with the first column, falls with the second, and waves with the third."""
    X = rng.uniform(-1, 1, (n, 3))
    return X, np.tanh(2 * X[:, 0]) - X[:, 1] ** 3 + np.sin(4 * X[:, 2]) + rng.standard_normal(n)


def worst_step(model, X, column, sign):
    """Largest step against the constraint on a fine grid of a column, as a share of the range of the outputs."""
    values = np.linspace(-1, 1, 41)
    outputs = []
    for value in values:
        rows = X.copy()
        rows[:, column] = value
        outputs.append(model.predict(rows))
    return -(sign * np.diff(outputs, axis=0)).min() / np.ptp(model.predict(X))


MAPS = {
    "fourier": lambda: pm.FourierFeatures(pm.kernels.Gaussian(0.7), 150, random_state=0),
    "landmarks": lambda: pm.NystroemFeatures(pm.kernels.Matern(1.5, 0.7), 150, random_state=0),
}


@pytest.mark.filterwarnings("ignore::phimap.learn.monotone.MonotonicityWarning")
@pytest.mark.parametrize("n", [200, 3000])
@pytest.mark.parametrize("kind", MAPS)
def test_outputs_follow_the_constraints(kind, n):
    X, y = problem(n, np.random.default_rng(3))
    fixed = {"alpha": 0.3, "metric": None, "standardize": None, "random_state": 0}
    free, bound = (pm.KernelRegressor(MAPS[kind](), monotonic_cst=cst, **fixed) for cst in (None, [1, -1, 0]))
    free.fit(X, y)
    bound.fit(X, y)
    test, _ = problem(400, np.random.default_rng(4))
    for column, sign in ((0, 1), (1, -1)):
        # Without constraints the fit follows the noise.
        steps = [worst_step(model, test, column, sign) for model in (bound, free)]
        assert steps[0] < min(0.01, steps[1] / 2)
    # The constraints agree with the target, so that most of the model stays.
    moved = bound.predict(test) - free.predict(test)
    assert np.sqrt(np.mean(moved**2)) < 0.4 * free.predict(test).std()


@pytest.mark.parametrize("n_steps", [None, 1])
def test_the_solution_is_that_of_a_general_solver(monkeypatch, n_steps):
    """The same quadratic programme, with the constraints of a single row, solved by SLSQP on the coefficients.

    With too few steps for the active set, another method takes over.
    """
    if n_steps is not None:
        monkeypatch.setattr(monotone, "_STEPS", n_steps)
    rng = np.random.default_rng(0)
    Z, alpha = rng.standard_normal((60, 8)), 0.5
    y = Z[:, :1] - Z[:, 1:2] + 0.1 * rng.standard_normal((60, 1))
    Zc, yc = Z - Z.mean(axis=0), y - y.mean(axis=0)
    H, b = Zc.T @ Zc + alpha * np.eye(8), (Zc.T @ yc)[:, 0]
    D = rng.standard_normal((5, 8))
    free = np.linalg.solve(H, b)
    statistics = RidgeStatistics.empty(8, 1)
    statistics.update(feature_block(Z), y, None)
    solution = solve_ridge(statistics, alpha)
    np.testing.assert_allclose(solution.coef[:, 0], free, atol=1e-10)
    leverages = PrimalLeverages(statistics, alpha, 1)
    found, _ = _constrained(solution, leverages, D, leverages.half_forms(D))
    rule = {"type": "ineq", "fun": lambda c: D @ c, "jac": lambda c: D}
    options = {"ftol": 1e-14, "maxiter": 500}
    best = minimize(lambda c: 0.5 * c @ H @ c - b @ c, free, jac=lambda c: H @ c - b, constraints=rule, options=options)
    np.testing.assert_allclose(found.coef[:, 0], best.x, atol=1e-5)
    np.testing.assert_allclose(Zc @ found.coef + y.mean(), Z @ found.coef + found.intercept, atol=1e-12)
    assert (D @ free).min() < -1e-3 < (D @ found.coef).min()


def test_a_constant_target_stays_constant():
    """Mutant: the entries of its constraints, all 0, are divided by the largest of them."""
    X, y = problem(200, np.random.default_rng(3))
    model = pm.KernelRegressor(MAPS["fourier"](), alpha=0.3, metric=None, monotonic_cst=[1, -1, 0])
    outputs = model.fit(X, np.stack([y, np.full(200, 2.0)], axis=1)).predict(X)
    assert np.isfinite(outputs).all()
    np.testing.assert_allclose(outputs[:, 1], 2.0)


def test_outputs_are_monotone_between_few_distinct_numbers():
    """Mutant: the grid has only the numbers that occur, and an output falls between two of them."""
    rng = np.random.default_rng(0)
    X = np.stack([rng.integers(0, 5, 500), rng.uniform(-1, 1, 500)], axis=1).astype(float)
    y = np.sqrt(X[:, 0]) + np.sin(3 * X[:, 1]) + 0.3 * rng.standard_normal(500)
    model = pm.KernelRegressor("gaussian", 400, length_scale=0.4, alpha=0.01, metric=None, random_state=0)
    model.set_params(monotonic_cst=[1, 0]).fit(X, y)
    rows = X[:100]
    outputs = [model.predict(np.stack([np.full(100, value), rows[:, 1]], axis=1)) for value in np.linspace(0, 4, 81)]
    assert -np.diff(outputs, axis=0).min() < 0.01 * np.ptp(model.predict(rows))


@pytest.mark.filterwarnings("ignore::phimap.learn.monotone.MonotonicityWarning")
def test_columns_with_heavy_tails_become_ranks():
    """Mutant: the columns are standardised instead, and a step falls by 0.19 of the range."""
    rng = np.random.default_rng(0)
    common = rng.standard_t(2, 1500)
    X = np.stack([common + 0.1 * rng.standard_normal(1500) for _ in range(4)], axis=1)
    y = np.arctan(X[:, 0]) + 0.5 * np.arctan(X[:, 1]) + 0.3 * rng.standard_normal(1500)
    model = pm.KernelRegressor(monotonic_cst=[1, 1, 0, 0], random_state=0).fit(X[:1000], y[:1000])
    # Mutant: without a least width the map has 256 features.
    assert model.feature_map_.n_components >= 1024
    new = X[1000:]
    assert np.sqrt(np.mean((model.predict(new) - y[1000:]) ** 2)) < 0.45 * y.std()
    for column in (0, 1):
        outputs = []
        for value in np.quantile(X[:1000, column], np.linspace(0, 1, 60)):
            rows = new.copy()
            rows[:, column] = value
            outputs.append(model.predict(rows))
        assert np.diff(outputs, axis=0).min() > -0.003 * np.ptp(outputs)


def test_names_and_frames(tmp_path):
    X, y = problem(800, np.random.default_rng(5))
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(kind=np.where(X[:, 2] > 0, "high", "low"))
    model = pm.KernelRegressor("gaussian", 128, metric=None, monotonic_cst={"a": 1, "b": -1}, random_state=0)
    model.fit(frame, y)
    grid = frame.iloc[:100]
    outputs = [model.predict(grid.assign(a=value)) for value in np.linspace(-1, 1, 15)]
    assert np.diff(outputs, axis=0).min() > -2 * TOLERANCE * np.ptp(outputs)
    pm.save(model, tmp_path / "model.phimap")
    np.testing.assert_array_equal(pm.load(tmp_path / "model.phimap").predict(frame), model.predict(frame))
    with pytest.raises(ValueError, match="columns of numbers, got one for 'kind'"):
        pm.KernelRegressor("gaussian", 16, monotonic_cst={"kind": 1}).fit(frame, y)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"monotonic_cst": [1, 0]}, r"-1, 0 or 1 for each of the 3 columns, got \[1, 0\]"),
        ({"monotonic_cst": [2, 0, 0]}, "-1, 0 or 1"),
        ({"monotonic_cst": {"price": 1}}, "must name columns of X, got 'price'"),
        ({"monotonic_cst": [1, 0, 0], "loss": "huber"}, "loss='squared'"),
        ({"monotonic_cst": [1, 0, 0], "solver": "cg"}, "solver='cholesky'"),
    ],
)
def test_wrong_constraints_are_refused(more, message):
    X, y = problem(60, np.random.default_rng(0))
    with pytest.raises(ValueError, match=message):
        pm.KernelRegressor("gaussian", 16, **more).fit(X, y)


def test_the_fit_says_where_constraints_are_missed(monkeypatch):
    """A few rough features cannot rise everywhere and follow a target that falls. Mutant: no warning."""
    # More rounds do not help: after all 96 of them, a step falls by more than after 24.
    monkeypatch.setattr(monotone, "_ROUNDS", 24)
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (300, 1))
    kernel = pm.FourierFeatures(pm.kernels.Laplacian(0.01), 60, random_state=0)
    model = pm.KernelRegressor(kernel, alpha=1e-9, metric=None, standardize=None, monotonic_cst=[1])
    with pytest.warns(MonotonicityWarning, match="by up to"):
        model.fit(X, np.sign(np.sin(40 * X[:, 0])) - 3 * X[:, 0])
