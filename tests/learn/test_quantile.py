"""Quantiles: the linear program on the same features, crossing, shapes, units, weights, files and errors."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linprog
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import d2_pinball_score, mean_pinball_loss

import phimap as pm
from tests.support.learners import FIXED, GAUSSIAN, features_of

MAP = pm.FourierFeatures(pm.kernels.Gaussian(2.0), 40, random_state=0)
LEVELS = (0.05, 0.5, 0.95)


def problem(n=600, seed=0):
    """A smooth function of three columns; the spread of the noise depends on the second column."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3))
    return X, np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + (0.3 + 0.2 * X[:, 1]) * rng.standard_normal(n)


def quantiles(**params):
    return pm.KernelRegressor(MAP, **{"loss": "quantile", "quantile": LEVELS, "random_state": 0, **params, **FIXED})


def check_close(found, expected):
    """Quantiles are flat minima: solutions of nearly the same loss differ by a few hundredths of the noise."""
    assert np.abs(found - expected).mean() < 5e-3
    assert np.abs(found - expected).max() < 0.06


def least_loss(Z, y, level):
    """The least mean pinball loss of linear functions of `Z`, by a linear program."""
    n, m = Z.shape
    A = sparse.hstack([sparse.csr_matrix(Z), np.ones((n, 1)), sparse.eye(n), -sparse.eye(n)]).tocsc()
    cost = np.concatenate([np.zeros(m + 1), np.full(n, level), np.full(n, 1 - level)])
    bounds = [(None, None)] * (m + 1) + [(0, None)] * (2 * n)
    found = linprog(cost, A_eq=A, b_eq=y, bounds=bounds, method="highs")
    assert found.status == 0
    return found.fun / n


def test_losses_are_those_of_a_linear_program_on_the_same_features():
    X, y = problem()
    model = quantiles(alpha=1e-9).fit(X, y)
    assert model.solution_.status == "solved"
    Z = features_of(model, X)
    scores = Z @ model.solution_.coef + model.solution_.intercept
    for k, level in enumerate(LEVELS):
        least = least_loss(Z, y, level)
        assert least * (1 - 1e-9) <= mean_pinball_loss(y, scores[:, k], alpha=level) <= least * (1 + 1e-3)


def test_a_penalised_solution_has_a_dual_solution_of_the_same_value():
    """Strong duality: the bound ``a'y - |Z'a|^2 / (2 alpha)`` of any a in the box with sum 0."""
    X, y = problem(400)
    alpha, level = 2.0, 0.8
    model = quantiles(quantile=level, alpha=alpha).fit(X, y)
    Z, solution = features_of(model, X), model.solution_
    scale = solution.scale[0]
    W, c = solution.coef[:, 0] / scale, solution.intercept[0] / scale
    excess = y / scale - Z @ W - c
    primal = np.maximum(level * excess, (level - 1) * excess).sum() + 0.5 * alpha * W @ W

    def dual(width):
        # A shift of the intercept makes the sum zero; without it there is no bound.
        low, high = -10 / width, 10 / width
        for _ in range(100):
            shift = 0.5 * (low + high)
            a = np.clip(excess / width + shift, level - 1, level)
            low, high = (shift, high) if a.sum() < 0 else (low, shift)
        assert abs(a.sum()) < 1e-6
        return a @ (y / scale) - np.square(Z.T @ a).sum() / (2 * alpha)

    bound = max(dual(width) for width in np.geomspace(1e-4, 1e-1, 40))
    assert bound <= primal * (1 + 1e-6)
    assert primal <= bound * (1 + 5e-3)


def test_quantiles_do_not_cross_and_hold_their_shares():
    X, y = problem(3000)
    model = quantiles().fit(X, y)
    assert model.solution_.criterion == "held-out"
    many = np.random.default_rng(1).uniform(-3, 3, (100_000, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert (np.diff(model.predict(many), axis=1) >= 0).all()
    new, true = problem(4000, seed=9)
    below = (true[:, None] <= model.predict(new)).mean(axis=0)
    # Three standard errors of a share, and two points for the error of the model.
    np.testing.assert_allclose(below, LEVELS, atol=3 * np.sqrt(0.25 / 4000) + 0.02)


def test_shapes_follow_quantiles_and_targets():
    X, y = problem(300)
    Y = np.column_stack([y, 10 * X[:, 0]])
    one, many = quantiles(quantile=0.3, alpha=1.0), quantiles(alpha=1.0)
    assert clone(one).fit(X, y).predict(X).shape == (300,)
    assert clone(one).fit(X, Y).predict(X).shape == (300, 2)
    assert clone(many).set_params(quantile=(0.3,)).fit(X, y).predict(X).shape == (300, 1)
    both, alone = clone(many).fit(X, Y), clone(many).fit(X, y)
    assert both.n_targets_ == 2
    assert both.predict(X).shape == (300, 2, 3)
    check_close(both.predict(X)[:, 0], alone.predict(X))


def test_the_score_is_the_d2_of_scikit_learn(rng):
    X, y = problem(300)
    Y, weights = np.column_stack([y, X[:, 0]]), rng.uniform(0.5, 2, 300)
    model = quantiles(alpha=1.0).fit(X, Y)
    found = model.predict(X)
    expected = np.mean(
        [d2_pinball_score(Y, found[:, :, k], alpha=level, sample_weight=weights) for k, level in enumerate(LEVELS)]
    )
    assert model.score(X, Y, weights) == pytest.approx(expected)
    assert expected > 0.2


@pytest.mark.parametrize("alpha", ["auto", 1.0])
def test_units_of_the_targets_do_not_matter(alpha):
    X, y = problem()
    plain = quantiles(alpha=alpha).fit(X, y)
    for factor, shift in ((1e-30, 0.0), (1e30, 0.0), (1.0, 1e7)):
        other = quantiles(alpha=alpha).fit(X, factor * y + shift)
        # The held-out loss is flat: neighbours on the path of alphas differ by less than the solutions' tolerance.
        assert 0.1 < other.alpha_ / plain.alpha_ < 10
        found = (other.predict(X) - shift) / factor
        if alpha == "auto":
            assert np.abs(found - plain.predict(X)).mean() < 0.05
        else:
            check_close(found, plain.predict(X))


def test_weights_are_repeated_rows(rng):
    X, y = problem(300)
    weights = rng.integers(0, 4, len(y))
    model = quantiles(alpha=0.5, standardize=None)
    found = clone(model).fit(X, y, sample_weight=weights)
    expected = clone(model).fit(X.repeat(weights, axis=0), y.repeat(weights))
    check_close(found.predict(X), expected.predict(X))


@pytest.fixture(scope="module")
def clean():
    """Rows, and what they are predicted to be by a model without wild targets."""
    X, y = problem(1500)
    return X, quantiles().fit(X, y).predict(X)


@pytest.mark.parametrize("value", [1e9, -1e140])
def test_one_wild_target_changes_little(clean, value):
    X, clean = clean
    _, y = problem(1500)
    y[17] = value
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = quantiles().fit(X, y).predict(X)
    assert np.abs(found - clean).mean() < 0.03


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [2, 21])
@pytest.mark.parametrize("target", ["numbers", "constant", "exact"])
def test_few_rows_and_targets_without_noise_give_finite_numbers(dtype, n, target):
    X = np.random.default_rng(0).standard_normal((n, 3)).astype(dtype)
    y = {"numbers": np.arange(n, dtype=float), "constant": np.full(n, 7.0), "exact": 2 * X[:, 0]}[target]
    model = pm.KernelRegressor(n_components=20, loss="quantile", quantile=LEVELS, random_state=0, **GAUSSIAN)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        predicted = model.fit(X, y).predict(X)
    assert np.isfinite(predicted).all()
    # Constant targets are far from 0 in units of their range.
    assert predicted.dtype == (np.float64 if target == "constant" else dtype)
    if target == "constant":
        np.testing.assert_allclose(predicted, 7.0, rtol=1e-5)


@pytest.mark.parametrize("n", [300, 1100])
def test_small_samples_in_float32_converge(n):
    """Within a small width there are hardly any rows, which is no sign of a small curvature."""
    X, y = problem(n)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = quantiles(quantile=0.9).fit(X.astype(np.float32), y)
    assert model.solution_.status == "solved"


def test_batches_threads_and_a_tight_budget_give_the_model_of_the_whole():
    X, y = problem()
    whole = quantiles(alpha=1.0, n_jobs=1).fit(X, y)
    two = quantiles(alpha=1.0, n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(whole.coef_, two.coef_)
    batches = quantiles(alpha=1.0).fit_batches([(X[:250], y[:250]), (X[250:], y[250:])])
    tight = quantiles(alpha=1.0, memory="2MB").fit(X, y)
    for other in (batches, tight):
        check_close(other.predict(X), whole.predict(X))


def test_saved_models_predict_the_same_bits_in_another_process(tmp_path):
    X, y = problem(300)
    model = quantiles(alpha=1.0).fit(X, y)
    pm.save(model, tmp_path / "m.phimap")
    np.save(tmp_path / "X.npy", X)
    program = (
        "import sys, numpy as np, phimap as pm\nf = sys.argv[1]\n"
        "np.save(f + '/p.npy', pm.load(f + '/m.phimap').predict(np.load(f + '/X.npy')))"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "p.npy"), model.predict(X))
    loaded = pm.load(tmp_path / "m.phimap")
    assert loaded.quantile == LEVELS
    with pytest.raises(ValueError, match=r"rows cannot be added .* quantile loss"):
        loaded.partial_fit(X, y)
    with pytest.raises(ValueError, match=r"`return_std` needs .* Use loss='squared'"):
        loaded.predict(X, return_std=True)


@pytest.mark.parametrize("quantile", [0.0, 1.0, (0.5, 0.1), (0.1, 0.1), (), (0.1, 1.5), -0.2])
def test_other_levels_are_refused(quantile):
    with pytest.raises(ValueError, match=r"`quantile` must .* got"):
        quantiles(quantile=quantile).fit(*problem(30))


def test_shapley_values_are_named_by_their_quantile():
    X, y = problem(300)
    model = quantiles(alpha=1.0).fit(X, y)
    found = pm.explain.shapley_values(model, X[:4], background=X[:20])
    assert found.values.shape == (4, 3, 3)
    scores = features_of(model, X[:4]) @ model.solution_.coef + model.solution_.intercept
    np.testing.assert_allclose(found.values.sum(axis=1) + found.base_values, scores, atol=1e-6)
