"""Leverages in primal and dual form against dense formulas."""

from __future__ import annotations

import numpy as np
import pytest

from phimap.learn.blocks.blocks import feature_block
from phimap.learn.ridge.predictive import DualLeverages, PrimalLeverages
from phimap.learn.ridge.statistics import RidgeStatistics


def forms(Z, weights, alpha):
    """Both forms for training rows `Z`."""
    statistics = RidgeStatistics.empty(Z.shape[1], 1)
    statistics.update(Z, np.zeros((len(Z), 1)), weights=weights)
    total = len(Z) if weights is None else weights.sum()
    return PrimalLeverages(statistics, alpha, None), DualLeverages(
        feature_block(Z).centred(None, weights), alpha, total, None
    )


def by_singular_values(Z, weights, alpha, D):
    """The oracle, in which nothing cancels: ``sum (v^T z)^2 / (s^2 + alpha)``."""
    weights = np.ones(len(Z)) if weights is None else weights
    mean = weights @ Z / weights.sum()
    _, s, Vt = np.linalg.svd(np.sqrt(weights)[:, None] * (Z - mean), full_matrices=True)
    s = np.concatenate([s, np.zeros(Z.shape[1] - s.size)])
    return (np.square(D @ Vt.T) / (s**2 + alpha)).sum(axis=1)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [30, 90])
def test_both_forms_are_the_quadratic_form_of_the_inverse(n, weighted, rng):
    Z, D = rng.standard_normal((n, 60)) + 1.0, rng.standard_normal((7, 60))
    weights = rng.uniform(0.5, 3, n) if weighted else None
    expected = by_singular_values(Z, weights, 0.3, D)
    mean = np.average(Z, axis=0, weights=weights)
    for form in forms(Z, weights, 0.3):
        np.testing.assert_allclose(form.quadratic_forms(D), expected, rtol=1e-10)
        np.testing.assert_allclose(form.mean, mean, rtol=1e-12)
        assert form.weight == pytest.approx(n if weights is None else weights.sum())
    # Mutant: rows that are not centred.
    away = np.square(np.linalg.solve(np.linalg.cholesky(Z.T @ Z + 0.3 * np.eye(60)), D.T)).sum(axis=0)
    assert not np.allclose(away, expected, rtol=1e-3)


def test_dual_leverages_keep_their_digits_where_alpha_is_small(rng):
    Z = rng.standard_normal((20, 60))
    D = rng.standard_normal((5, 20)) @ (Z - Z.mean(axis=0))
    alpha = 1e-11
    expected = by_singular_values(Z, None, alpha, D)
    dual = forms(Z, None, alpha)[1]
    # The condition number, 1e13, leaves three digits of a; they enter squared.
    np.testing.assert_allclose(dual.quadratic_forms(D), expected, rtol=1e-5)
    # Mutant: the difference that the matrix inversion lemma is written as.
    rows = Z - Z.mean(axis=0)
    images = rows @ D.T
    difference = (np.square(D).sum(axis=1) - (images * dual._factor.solve(images)).sum(axis=0)) / alpha
    assert not np.allclose(difference, expected, rtol=1e-4)
