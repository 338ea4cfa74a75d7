"""Corrections in regions: against the dense formula, and whether they are learned where they should be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from phimap.kernels import Matern
from phimap.learn.corrections import fit
from phimap.learn.corrections.residuals import Residuals

KERNEL = Matern(nu=1.5, length_scale=0.3)


def residuals(rng, signal, n=900, t=1):
    """Errors of a model that predicts zero, with `signal` of the first column in them."""
    X = rng.uniform(-1, 1, (n, 2))
    errors = signal * np.sin(9 * X[:, :1] + np.arange(t)) + 0.1 * rng.standard_normal((n, t))
    return Residuals(X, None, rng.random(n), errors, rng.random(n) < 0.2, errors)


def test_corrections_are_exact_ridge_regression_in_each_region(rng, monkeypatch):
    monkeypatch.setattr(fit, "_MOST_ROWS", 300)
    left = residuals(rng, 1.0, t=2)
    found = fit.learn_corrections(KERNEL, left)
    assert found.partition.n_regions == 4
    X = rng.uniform(-1, 1, (50, 2))
    regions, new = found.partition.assign(left.X), found.partition.assign(X)
    alphas = []
    for region in range(4):
        rows, E = left.X[regions == region] * found.scale, left.errors[regions == region]
        # The alpha is one of the grid.
        for alpha in fit._ALPHAS:
            A = np.linalg.solve(KERNEL(rows) + alpha * np.eye(len(rows)), E)
            expected = KERNEL(X[new == region] * found.scale, rows) @ A
            if np.allclose(found.outputs(X, 1)[new == region], expected, atol=1e-8):
                alphas.append(alpha)
    assert len(alphas) == 4
    assert len(set(alphas)) == 1


def test_out_of_range_is_twice_the_largest_step(rng, monkeypatch):
    monkeypatch.setattr(fit, "_MOST_ROWS", 300)
    left = residuals(rng, 1.0)
    found = fit.learn_corrections(KERNEL, left)
    regions, rows = found.partition.assign(left.X), left.X * found.scale
    steps = [
        np.linalg.norm(rows[(regions == regions[i]) & ~left.held_out] - rows[i], axis=1).min()
        for i in np.flatnonzero(left.held_out)
    ]
    assert found.reach == pytest.approx(max(steps))
    np.testing.assert_array_equal(found.out_of_range(left.X), 0)
    away = left.X[:1] + np.array([[1e3, 0.0]])
    np.testing.assert_array_equal(found.out_of_range(away), 1)


def test_rows_of_weight_w_count_like_w_rows(rng):
    left = residuals(rng, 1.0, n=300)
    weights = rng.integers(1, 4, 300).astype(float)
    repeat = np.repeat(np.arange(300), weights.astype(int))
    once = fit._solve(KERNEL(left.X), 0.3, left.errors, weights)
    often = fit._solve(KERNEL(left.X[repeat]), 0.3, left.errors[repeat], np.ones(repeat.size))
    new = rng.uniform(-1, 1, (20, 2))
    np.testing.assert_allclose(KERNEL(new, left.X) @ once, KERNEL(new, left.X[repeat]) @ often, rtol=1e-8)


def test_errors_of_validation_rows_are_of_models_without_them(rng):
    left = residuals(rng, 1.0)
    found = fit.learn_corrections(KERNEL, left)
    # Other targets of the validation rows change their own errors alone, and by the same amount.
    moved = np.where(left.held_out[:, None], left.training_fit_errors + 1e-3, left.training_fit_errors)
    other = fit.learn_corrections(KERNEL, replace(left, training_fit_errors=moved))
    assert found.scale == other.scale
    np.testing.assert_allclose(other.errors, found.errors + 1e-3, atol=1e-12)
    np.testing.assert_array_equal(found.keys, np.sort(left.keys[left.held_out]))
    validates, errors = found.validation_errors(left.keys)
    np.testing.assert_array_equal(validates, left.held_out)
    np.testing.assert_array_equal(errors[np.argsort(left.keys[validates])], found.errors)


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_learned_from_noise(seed):
    # With 180 validation rows 7 of 100 other draws gained 2 % by chance; learners have 800 or more.
    assert fit.learn_corrections(KERNEL, residuals(np.random.default_rng(seed), 0.0)) is None


def test_equal_rows_make_no_region_that_is_too_large(rng, monkeypatch):
    monkeypatch.setattr(fit, "_MOST_ROWS", 100)
    left = residuals(rng, 1.0)
    assert fit.learn_corrections(KERNEL, left) is not None
    assert fit.learn_corrections(KERNEL, replace(left, X=np.where(left.X[:, :1] > 0, 0.5, left.X))) is None


def test_same_for_any_number_of_threads(rng, monkeypatch):
    monkeypatch.setattr(fit, "_MOST_ROWS", 200)
    left = residuals(rng, 1.0)
    one, four = (fit.learn_corrections(KERNEL, left, n_jobs=n_jobs) for n_jobs in (1, 4))
    np.testing.assert_array_equal(one.coefs, four.coefs)
    np.testing.assert_array_equal(one.outputs(left.X, 1), four.outputs(left.X, 4))


@pytest.mark.parametrize("root", [np.array([1e-3, 1.0]), np.array([[0.5, 0.5], [0.5, 0.5005]])])
def test_a_root_undoes_a_metric_that_hides_a_column(root, rng):
    left = residuals(rng, 1.0)
    hidden = replace(left, X=fit.moved_rows(left.X, root))
    back = np.linalg.inv(root) if root.ndim == 2 else 1 / root
    found = fit.learn_corrections(KERNEL, hidden, (None, back))
    assert found.root is back
    direct = fit.learn_corrections(KERNEL, left)
    np.testing.assert_allclose(found.outputs(hidden.X, 1), direct.outputs(left.X, 1), atol=1e-6)
    # Where nothing is hidden the rows are left as they are.
    assert fit.learn_corrections(KERNEL, left, (None, np.array([1e-3, 1.0]))).root is None
