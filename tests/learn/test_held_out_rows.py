"""Held-out rows that a pass skips are added once alpha is chosen: the fit is that of sums from which they are taken."""

from __future__ import annotations

import numpy as np
import pytest

import phimap as pm
from phimap.learn.blocks.blocks import FeatureRows, feature_block
from phimap.learn.ridge.solver import RidgeSolver
from phimap.learn.rows.validation import ValidationRows, n_held_out

FIXED = {"kernel": "gaussian", "n_components": 64, "length_scale": 2.0, "metric": None, "random_state": 0}


@pytest.fixture
def rows(rng):
    """More rows than are kept themselves; some are extreme, among them some with small keys."""
    X = rng.standard_normal((3000, 4))
    X[::97] *= 6
    return X, np.sin(X[:, 0]) + 0.3 * rng.standard_normal(3000), rng.uniform(0.5, 2, 3000)


@pytest.mark.parametrize("weighted", [False, True])
def test_fit_is_that_of_sums_from_which_rows_are_taken(rows, weighted):
    X, y, weights = rows
    weights = weights if weighted else None
    skipped = pm.KernelRegressor(**FIXED).fit(X, y, weights)
    # With `partial_fit` more rows may come, so that the sums include all rows.
    within = pm.KernelRegressor(**FIXED).partial_fit(X, y, weights)
    assert skipped.solution_.criterion == "held-out"
    np.testing.assert_allclose(skipped.alpha_, within.alpha_, rtol=1e-6)
    np.testing.assert_allclose(skipped.coef_, within.coef_, rtol=0, atol=1e-8 * np.abs(within.coef_).max())
    np.testing.assert_allclose(skipped.solution_.scores, within.solution_.scores, rtol=1e-6)
    assert skipped.n_samples_seen_ == within.n_samples_seen_ == skipped.statistics_.n == 3000
    np.testing.assert_allclose(skipped.statistics_.gram.data, within.statistics_.gram.data, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(skipped.statistics_.weight, within.statistics_.weight, rtol=1e-12)


def test_pass_skips_the_rows_with_the_smallest_keys(rows, monkeypatch):
    """The extreme rows among them are added before alpha is chosen."""
    X, y, _ = rows
    given, finish = [], RidgeSolver.finish

    def looking(solver, *arguments, **options):
        given.append(solver.statistics.n)
        return finish(solver, *arguments, **options)

    monkeypatch.setattr("phimap.learn.ridge.solver.RidgeSolver.finish", looking)
    model = pm.KernelRegressor(**FIXED).fit(X, y)
    assert given == [3000 - n_held_out(3000)]
    state = model._state
    validation = ValidationRows(
        state.sample, state.extreme, 3000, lambda X, y, weights: FeatureRows(feature_block(X), y)
    )
    extreme = validation.skipped_extremes().targets.shape[0]
    assert extreme > 0
    assert validation.random().targets.shape[0] + extreme == n_held_out(3000)


def test_with_a_given_alpha_the_pass_skips_no_row(rows):
    X, y, _ = rows
    model = pm.KernelRegressor(alpha=1.0, **FIXED).fit(X, y)
    again = pm.KernelRegressor(alpha=1.0, **FIXED).partial_fit(X, y)
    np.testing.assert_array_equal(model.coef_, again.coef_)


def test_batches_of_any_size_skip_the_same_rows(rows):
    X, y, _ = rows
    whole = pm.KernelRegressor(**FIXED).fit(X, y)
    parts = pm.KernelRegressor(**FIXED).fit_batches([(X[i : i + 7], y[i : i + 7]) for i in range(0, 3000, 7)])
    np.testing.assert_allclose(parts.coef_, whole.coef_, rtol=0, atol=1e-8 * np.abs(whole.coef_).max())
    assert parts.statistics_.n == 3000
