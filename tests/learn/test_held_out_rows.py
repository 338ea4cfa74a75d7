"""Rows that judge alpha are added to the sums after the others: the fit is that of sums from which they are taken."""

from __future__ import annotations

import numpy as np
import pytest

import phimap as pm
from phimap.learn.rows.validation import n_held_out

FIXED = {"kernel": "gaussian", "n_components": 64, "length_scale": 2.0, "metric": None, "random_state": 0}


@pytest.fixture
def rows(rng):
    """More rows than are kept themselves; some lie far out, among them some that the sample would hold out."""
    X = rng.standard_normal((3000, 4))
    X[::97] *= 6
    return X, np.sin(X[:, 0]) + 0.3 * rng.standard_normal(3000), rng.uniform(0.5, 2, 3000)


@pytest.mark.parametrize("weighted", [False, True])
def test_fit_is_that_of_sums_from_which_rows_are_taken(rows, weighted):
    X, y, weights = rows
    weights = weights if weighted else None
    apart = pm.KernelRegressor(**FIXED).fit(X, y, weights)
    # Rows that come one batch after the other may judge later, and so they are in the sums.
    within = pm.KernelRegressor(**FIXED).partial_fit(X, y, weights)
    assert apart.solution_.criterion == "held-out"
    np.testing.assert_allclose(apart.alpha_, within.alpha_, rtol=1e-6)
    np.testing.assert_allclose(apart.coef_, within.coef_, rtol=0, atol=1e-8 * np.abs(within.coef_).max())
    np.testing.assert_allclose(apart.solution_.scores, within.solution_.scores, rtol=1e-6)
    assert apart.n_samples_seen_ == within.n_samples_seen_ == apart.statistics_.n == 3000
    np.testing.assert_allclose(apart.statistics_.gram.data, within.statistics_.gram.data, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(apart.statistics_.weight, within.statistics_.weight, rtol=1e-12)


def test_pass_leaves_the_judges_out(rows, monkeypatch):
    """What the solver is given in the pass are the rows but those with the least keys; outlying ones come back."""
    X, y, _ = rows
    given, finish = [], pm.learn.streamed.RidgeSolver.finish

    def looking(solver, *arguments, **options):
        given.append(solver.statistics.n)
        return finish(solver, *arguments, **options)

    monkeypatch.setattr("phimap.learn.streamed.RidgeSolver.finish", looking)
    model = pm.KernelRegressor(**FIXED).fit(X, y)
    assert given == [3000 - n_held_out(3000)]
    judged = model._alpha_judges()
    assert judged.not_held_out(3000).targets.shape[0] > 0
    held_out, _ = judged.of(3000)
    assert held_out.targets.shape[0] + judged.not_held_out(3000).targets.shape[0] == n_held_out(3000)


def test_alpha_that_is_given_leaves_no_row_out(rows):
    X, y, _ = rows
    model = pm.KernelRegressor(alpha=1.0, **FIXED).fit(X, y)
    again = pm.KernelRegressor(alpha=1.0, **FIXED).partial_fit(X, y)
    np.testing.assert_array_equal(model.coef_, again.coef_)


def test_batches_of_any_size_leave_the_same_rows_out(rows):
    X, y, _ = rows
    whole = pm.KernelRegressor(**FIXED).fit(X, y)
    parts = pm.KernelRegressor(**FIXED).fit_batches([(X[i : i + 7], y[i : i + 7]) for i in range(0, 3000, 7)])
    np.testing.assert_allclose(parts.coef_, whole.coef_, rtol=0, atol=1e-8 * np.abs(whole.coef_).max())
    assert parts.statistics_.n == 3000
